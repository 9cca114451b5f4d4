"""tools: the boxes of a page (quotes, lists, tables) and what each looks like in Markdown once it is full."""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

MarkdownBoxKind = Literal["page", "main", "quote", "list", "item", "table", "cell"]

_BACKTICKS = re.compile("`+")


class MarkdownBlock(NamedTuple):
    """A paragraph, a heading, a whole list. `tight`: no empty line parts it from the block above."""

    text: str
    tight: bool = False


class MarkdownBox(Struct):
    """Blocks that belong together. `marker` stands before an item; a table also has rows of cells."""

    kind: MarkdownBoxKind
    marker: str = ""
    blocks: list[MarkdownBlock] = []
    rows: list[list[list[MarkdownBlock]]] = []
    ordered: bool = False
    number: int = 1

    def next_marker(self) -> str:
        """The marker of the next item of this list."""
        if not self.ordered:
            return "- "
        self.number += 1
        return f"{self.number - 1}. "

    def rendered(self, inside: "MarkdownBox") -> list[MarkdownBlock]:
        """What the box becomes in the box around it."""
        match self.kind:
            case "table":
                return [*self.blocks, *_table(self.rows)]
            case "cell" if inside.kind == "table":
                if not inside.rows:
                    inside.rows.append([])
                inside.rows[-1].append(self.blocks)
                return []
            case "page" | "main" | "cell":
                return self.blocks
            case _:
                pass
        text = joined(self.blocks)
        if not text:
            return []
        match self.kind:
            case "quote":
                return [MarkdownBlock(_prefixed(text, "> ", "> "))]
            case "item":
                return [MarkdownBlock(_prefixed(text, self.marker, " " * len(self.marker)), tight=True)]
            case _:
                return [MarkdownBlock(text, tight=inside.kind in ("item", "list"))]


def joined(blocks: Iterable[MarkdownBlock]) -> str:
    """Blocks one below the other."""
    pieces: list[str] = []
    for block in blocks:
        if pieces:
            pieces.append("\n" if block.tight else "\n\n")
        pieces.append(block.text)
    return "".join(pieces)


def fenced(code: str, language: str) -> str:
    """Code between fences that it does not hold itself."""
    return f"{(fence := _fence(code, 3))}{language}\n{code}\n{fence}"


def code_span(code: str) -> str:
    """Code inside a line."""
    fence = _fence(code, 1)
    return f"{fence}{code}{fence}" if len(fence) == 1 else f"{fence} {code} {fence}"


def _fence(code: str, least: int) -> str:
    return "`" * max(least, 1 + max(map(len, _BACKTICKS.findall(code)), default=0))


def _prefixed(text: str, first: str, others: str) -> str:
    lines = text.split("\n")
    empty = others.rstrip()
    below = (others + line if line else empty for line in lines[1:])
    return "\n".join([first + lines[0], *below])


def _table(rows: Sequence[Sequence[Sequence[MarkdownBlock]]]) -> list[MarkdownBlock]:
    """A table with columns as one; what only arranges a page with table tags is written row by row."""
    rows = [row for row in rows if any(row)]
    if not rows:
        return []
    if max(map(len, rows)) > 1 and all(_is_plain(cell) for row in rows for cell in row):
        lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
        lines.insert(1, "|" + " --- |" * len(rows[0]))
        return [MarkdownBlock("\n".join(lines))]
    blocks: list[MarkdownBlock] = []
    for row in rows:
        if all(_is_plain(cell) for cell in row):
            blocks.append(MarkdownBlock(" ".join(cell[0].text for cell in row if cell)))
        else:
            blocks.extend(block for cell in row for block in cell)
    return blocks


def _is_plain(cell: Sequence[MarkdownBlock]) -> bool:
    return not cell or (len(cell) == 1 and "\n" not in cell[0].text)


def _cell(cell: Sequence[MarkdownBlock]) -> str:
    return cell[0].text.replace("|", "\\|") if cell else ""
