"""Agents room: the everyday form of front matter, read without YAML, which takes longer to load than to use.

Only what can be read in one way is read here: plain words after `name:`, lists of words in brackets, and one
level of fields below a field, each indented by two spaces. Everything else is left to YAML.
"""

import re

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
