"""TODO: gencode.core.text."""

import unicodedata

CLIP = 30_000


def clip(text: str, most: int = CLIP, rest: str = "") -> str:
    """The only road into a transcript: at most `most` characters, cut at a line, with a note.

    `rest` says where the whole text is.
    """
    if len(text) <= most:
        return text
    cut = text.rfind("\n", most // 2, most)
    cut = most if cut < 0 else cut
    return f"{text[:cut]}\n[… {len(text) - cut:,} of {len(text):,} characters were left out{rest}]"


def inert(text: str) -> str:
    """`text` without anything that cannot be seen: control, format, private and unassigned characters."""
    lines = text.split("\n")
    return "\n".join(each if each.isprintable() else "".join(map(_visible, each)) for each in lines)


def one_line(text: str, most: int) -> str:
    """`text`, inert, on one line and at most `most` characters long."""
    line = " ".join(inert(text).split())
    return line if len(line) <= most else line[: max(0, most - 1)].rstrip() + "…"


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    match unicodedata.category(character):
        case "Zs":
            return " "
        case "Zl" | "Zp":
            return "\n"
        case "Cc" | "Cf":
            return ""
        case _:
            return "\ufffd"
