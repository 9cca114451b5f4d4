"""Reads front matter: the fields between two lines of dashes at the top of a Markdown file.

Files are hostile input and careless input. Valid YAML is read as YAML; anything else is repaired in two
steps, and the result says which one was used.
"""

import re
import textwrap
from typing import Any, Literal

from msgspec import Struct

from gencode.agents.file_errors import FileFinding, mistake, no_agent, recovered
from gencode.agents.yaml_reader import NotYaml, scalar, yaml_fields
from gencode.core.errors import UserMistake

Plain = str | list[str]
Simple = dict[str, tuple[int, Plain | dict[str, Plain]]]
"""Each field with the number of its line and its value; texts still have the spelling of the file."""

_LINE = re.compile(
    r"(?P<deeper>  )?(?P<name>[A-Za-z][A-Za-z-]*):(?: (?P<value>[A-Za-z0-9\[](?:[ -~]*[A-Za-z0-9.\]])?))?"
)
_WORDS = re.compile(r"\[[A-Za-z][A-Za-z-]*(?:, [A-Za-z][A-Za-z-]*)*\]")


def simple_fields(block: str) -> Simple | None:
    """The fields of a block, or None when it takes more than this to read it."""
    found: Simple = {}
    below: dict[str, Plain] | None = None
    for number, line in enumerate(block.removesuffix("\n").split("\n"), start=1):
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        name, text = match["name"], match["value"]
        value = None if text is None else _value(text)
        if match["deeper"]:
            if below is None or value is None or name in below:
                return None
            below[name] = value
        elif name in found or below == {} or (text is not None and value is None):
            return None
        elif value is None:
            below = {}
            found[name] = (number, below)
        else:
            below = None
            found[name] = (number, value)
    return None if below == {} else found


def _value(text: str) -> Plain | None:
    """A text or a list of words; None when YAML might take it for something else."""
    if _WORDS.fullmatch(text):
        return text[1:-1].split(", ")
    return None if text[0] == "[" or ": " in text or " #" in text else text


MOST_BYTES = 64 * 1024

Stage = Literal["strict", "requoted", "split"]
"""How a file was read: as it is, with quotes added, or cut at the names of its fields."""

_NO_FRONT_MATTER = "it has no front matter (fields between two lines of ---), so it is no {what}"

_SWALLOWED = (
    "the front matter cannot be read, and this line says what the agent may do; write it at the beginning of "
    "a line, as `tools: …`"
)
_FENCE = re.compile(r"^-{3,}[ \t]*$", re.MULTILINE)
_BREAKS = re.compile("[\x85\u2028\u2029]")
_WRAPPED = re.compile(r"\A\s*(?P<ticks>`{3,}|~{3,})[^\n`]*\n(?=\s*-{3})")


class FrontMatter(Struct, frozen=True):
    """The front matter of a file: its fields with their lines, the text below, and what was repaired."""

    fields: dict[str, Any]
    lines: dict[str, int]
    body: str
    repaired: tuple[FileFinding, ...] = ()
    stage: Stage = "strict"


def read_front_matter(text: str, path: str, what: str = "agent") -> FrontMatter:
    """The fields and the body of a file that should describe an agent or a skill.

    UserMistake with the file, the line and the reason otherwise.
    """
    block, body, before = _split(text, path, what)
    if odd := _BREAKS.search(block):
        line = block.count("\n", 0, odd.start()) + 1 + before
        raise mistake(
            path, f"the front matter holds U+{ord(odd[0]):04X}, which some take for a new line", line
        )
    if (simple := simple_fields(block)) is not None:
        lines = {name: line + before for name, (line, _) in simple.items()}
        return FrontMatter({name: _meant(value) for name, (_, value) in simple.items()}, lines, body)
    try:
        fields, lines = yaml_fields(block, path, before)
        return FrontMatter(fields, lines, body)
    except NotYaml as error:
        first = error
    try:
        fields, lines, notes, stage = _repaired(block, path, before)
    except (NotYaml, UserMistake) as error:
        if isinstance(error, UserMistake):
            raise
        line = None if first.line is None else first.line + before
        raise mistake(path, f"the front matter cannot be read: {first}", line) from None
    return FrontMatter(fields, lines, body, notes, stage)


def _repaired(
    block: str, path: str, before: int
) -> tuple[dict[str, Any], dict[str, int], tuple[FileFinding, ...], Stage]:
    """The fields of a block that is not YAML, with what was done to it; Unreadable when nothing helps."""
    # Patterns that good files do not need.
    from gencode.agents.frontmatter_repair import quoted, split_at_fields, swallowed

    other, changed = quoted(block)
    refused: UserMistake | None = None
    try:
        fields, lines = yaml_fields(other, path, before)
        if lost := swallowed(block, fields, lines, before):
            raise mistake(path, _SWALLOWED, lost)
        notes = [_quoted(line + before) for line in changed]
        return fields, lines, tuple(notes or [recovered("tabs were read as two spaces each")]), "requoted"
    except NotYaml:
        pass
    except UserMistake as error:
        refused = error
    fields, lines = split_at_fields(block, path, before)
    if "description" not in fields:  # too little is certain to be what its author meant
        raise refused or NotYaml("it is not YAML", None)
    if lost := swallowed(block, fields, lines, before):
        raise mistake(path, _SWALLOWED, lost)
    cut = recovered("the front matter is not YAML; it was cut at the names of its fields")
    return fields, lines, (cut,), "split"


def _quoted(line: int) -> FileFinding:
    return recovered(f"line {line} was read as if its value were in quotes", line)


def _split(text: str, path: str, what: str) -> tuple[str, str, int]:
    """The text between the fences, the text below them, and the line number of the first field."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    trimmed = text.lstrip(" \n")
    if text.startswith(" ") or "\n " in text[: len(text) - len(trimmed)]:
        text = textwrap.dedent(text)
    start = text.lstrip("\n")
    if wrapped := _WRAPPED.match(start):
        start = start[wrapped.end() :].rstrip().removesuffix(wrapped["ticks"])
    opening = _FENCE.match(start)
    if opening is None:
        raise no_agent(path, _NO_FRONT_MATTER.format(what=what))
    before = text[: len(text) - len(text.lstrip("\n"))].count("\n") + (2 if wrapped else 1)
    closing = _FENCE.search(start, opening.end() + 1)
    if closing is None:
        raise mistake(path, "the front matter is never closed; end it with a line of ---", before)
    block = start[opening.end() + 1 : closing.start()]
    if len(block.encode(errors="surrogatepass")) > MOST_BYTES:
        raise mistake(path, f"the front matter is longer than {MOST_BYTES:,} bytes")
    return block, start[closing.end() :].strip("\n"), before


def _meant(value: Plain | dict[str, Plain]) -> Any:
    """A value with its words and integers as what they mean."""
    match value:
        case str():
            return scalar(value)
        case list():
            return [scalar(each) for each in value]
        case dict():
            return {name: _meant(each) for name, each in value.items()}
