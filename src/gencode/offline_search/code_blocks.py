"""Cuts files into blocks at their definitions, in the common programming languages.

The search never sees whole files: it sees the lines that matched, with their numbers. A definition among
them begins a block that reaches to the next one; a comment right above a definition belongs to it.
"""

import re
from dataclasses import dataclass, field

WINDOW = 60
LONGEST_LINE = 500
"""Longer lines are cut there; what stands in them was not written by hand and is no evidence."""

# For ripgrep: lines that may define something. What they define is decided here, not there.
DEFINITION_PATTERN = "|".join(
    (
        r"^\s*(?:[a-z]+(?:\([a-z]+\))? ){0,5}(?:def|class|interface|struct|enum|trait|impl|fn|func"
        r"|function\*?|fun|module|namespace|protocol|extension|record|object|macro_rules!|sub|type|union"
        r"|mod)[ <(]",
        r"^\s*(?:export )?(?:default )?(?:const|let|var|val) \w+.*(?:=>|function)",
        r"^\s*[\w.$]+\s*[=:]\s*(?:async )?(?:function\b|\()",
        r"^\s+(?:(?:public|private|protected|static|final|async|abstract|synchronized|override|get|set|readonly"
        r"|inline|virtual|constexpr) )*[\w<>\[\],.?&* ]*\b\w+ ?\([^;]*\{\s*$",
        r"^[A-Za-z_][\w<>:,&*~ ]*\([^;]*$",
        r"^\s*(?:#define|#\[|@\w+|typedef|template)",
        r"^#{1,4} \S",
    )
)

# Spelt out because ripgrep's `\w` knows all of Unicode and is many times slower in long repetitions.
_LETTERS = "[A-Za-z0-9_]"
_DEFINES = "def|class|fn|func|function|struct|interface|trait|enum|type|module|impl|const|fun"


def naming_pattern(stemmed: str, *, several: bool = True) -> str:
    """For ripgrep: definitions whose name holds two of the stems (given as alternatives), or one."""
    inside = f"(?:{stemmed}){_LETTERS}*?(?:{stemmed})" if several else f"{_LETTERS}*(?:{stemmed})"
    keyword = rf"\b(?:{_DEFINES}) +(?:\([^)]*\) +)?{_LETTERS}*{inside}"
    bare = rf"^ *(?:[A-Za-z0-9_<>,.?&*@\[\]]+ +){{0,6}}[A-Za-z0-9_:.$~]*{inside}{_LETTERS}* ?\([^;]*$"
    return f"{keyword}|{bare}"


_MODIFIERS = (
    r"^\s*(?:(?:pub(?:\([\w: ]+\))?|export|default|declare|public|private|protected|internal|static|final|"
    r"abstract|async|unsafe|const|extern|sealed|partial|open|data|inline|virtual|override|template<[^>]*>|"
    r'"C"|suspend|readonly|strictfp|typedef)\s+)*'
)
# What may follow a name that is defined: prose goes on with a word (`a class will`, `the type of it`).
_CODE_FOLLOWS = (
    r"(?=\s*(?:[({<\[:=;,|]|->|$|#|//|(?:extends|implements|inherits|with|where|permits|struct|interface|func"
    r"|map|chan|for|final|is|as|begin|on)\b))"
)
_KEYWORD = re.compile(
    _MODIFIERS + r"(?:def|interface|trait|fn|func|function\*?|fun|module|namespace|protocol|extension|record|"
    r"object|macro_rules!|sub|type)\s+(?:\([^)]*\)\s*)?([A-Za-z_$][\w$?!]*+)" + _CODE_FOLLOWS
)
_ALIAS = re.compile(r"^type\s+(\w+)\s+[\w.*\[\]]+\s*$")
# In C, `struct name *variable;` uses a shape and does not define it.
_SHAPE = re.compile(
    _MODIFIERS
    + r"(?:class|struct|enum(?:\s+class)?|union|mod)\s+(?:[A-Z_]+\s+)?([A-Za-z_$][\w$]*)\b(?!.*;\s*$)"
    + _CODE_FOLLOWS
)
_IMPL = re.compile(r"^\s*(?:unsafe\s+)?impl\b(?:<[^>]*>)?\s+(?:[\w:<>, ']+\s+for\s+)?([A-Za-z_]\w*)")
_ASSIGNED = re.compile(
    r"^\s*(?:export\s+)?(?:default\s+)?(?:(?:const|let|var|val)\s+)?([\w.$]+)\s*(?::[^=]+)?[=:]\s*"
    r"(?:async\s+)?(?:function\b|\([^()]*\)\s*(?::[^=]+)?=>|\w+\s*=>)"
)
_METHOD = re.compile(
    r"^\s+(?:[\w<>\[\],.?&*@]+\s+){0,8}([A-Za-z_$#][\w$]*)\s*(?:<[^>()]*>)?\((?!.*(?:=>|\bfunction\b))[^;]*\{\s*$"
)
_C_FUNCTION = re.compile(r"^(?:[A-Za-z_][\w<>:,&*~ ]*?[\s*&])?((?:\w+::)*~?[A-Za-z_]\w*)\s*\([^;]*$")
_MACRO = re.compile(r"^\s*#\s*define\s+(?!\w+_H(?:PP)?_*\s*$)(\w+)")
_HEADING = re.compile(r"^#{1,4}\s+(\S.*)$")
_STATEMENTS = """
if for while switch catch return else do try with case match loop elif except finally when throw new sizeof
and or not in await yield typeof using lock synchronized unless until foreach print assert
"""
_BEGIN_STATEMENTS = frozenset(_STATEMENTS.split())
_PROSE = "of to the that this these those is are was will would which whose when in on by a an"
_PROSE_WORDS = frozenset(_PROSE.split())
_NOT_NAMES = _BEGIN_STATEMENTS | {"pub", "Some", "None", "Ok", "Err", "vec", "super"}
_COMMENT = re.compile(r"^\s*(?:\*|//|/\*|#(?!\s*(?:define|include|if|else|endif|pragma))|--|;;|\"\"\"|@|#\[)")


_DECLARED = re.compile(r"^\s*(?:[a-z]+(?:\([a-z]+\))?\s+){0,3}(?:struct|interface|type|enum|typedef|union)\b")


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line that matched."""

    number: int
    text: str


@dataclass(slots=True)
class CodeBlock:
    """A definition and the matched lines that belong to it.

    Long definitions are cut into windows: only the first has the `symbol`, the others are `inside` it.
    """

    start: int
    end: int
    symbol: str
    lines: list[CodeLine] = field(default_factory=lambda: [])
    inside: str = ""


def symbol_of(text: str, prose: bool = False) -> str:
    """The name a line defines, or nothing."""
    if len(text) > 400:
        return ""
    if prose:
        heading = _HEADING.match(text)
        return heading.group(1).strip() if heading else ""
    for pattern in (_KEYWORD, _ALIAS, _SHAPE, _IMPL, _ASSIGNED, _MACRO, _METHOD, _C_FUNCTION):
        match = pattern.match(text)
        if match and _is_name(match.group(1)) and not _is_statement(text):
            return match.group(1)
    return ""


def _is_name(word: str) -> bool:
    return word not in _NOT_NAMES and word not in _PROSE_WORDS


def _is_statement(text: str) -> bool:
    first = re.match(r"\s*}?\s*(\w+)", text)
    return first is not None and first.group(1) in _BEGIN_STATEMENTS


def only_declares(text: str) -> bool:
    """Whether a line declares a shape and does nothing: a struct, an interface, an enumeration."""
    return bool(_DECLARED.match(text))


def is_comment(text: str) -> bool:
    """Whether a line is a comment, a decorator or an annotation: it belongs to what follows."""
    return bool(_COMMENT.match(text))


def split_blocks(lines: list[CodeLine], length: int, prose: bool = False) -> list[CodeBlock]:
    """The blocks of a file, from the lines that matched (in order) and its number of lines."""
    blocks = [CodeBlock(1, length, "")]
    above: list[CodeLine] = []
    for line in lines:
        symbol = symbol_of(line.text, prose)
        if symbol:
            start = line.number
            near = [each for each in above if start - each.number <= 25]
            blocks[-1].lines.extend(each for each in above if start - each.number > 25)
            blocks[-1].end = max(blocks[-1].start, (near[0].number if near else start) - 1)
            blocks.append(CodeBlock(start, length, symbol, [*near, line]))
            above = []
        elif is_comment(line.text) and not prose and (not above or line.number - above[-1].number <= 12):
            above.append(line)
        else:
            blocks[-1].lines.extend(above)
            above = []
            if line.number - blocks[-1].start > WINDOW:
                blocks[-1].end = line.number - 1
                blocks.append(
                    CodeBlock(line.number, length, "", inside=blocks[-1].symbol or blocks[-1].inside)
                )
            blocks[-1].lines.append(line)
    blocks[-1].lines.extend(above)
    blocks[-1].end = max(length, blocks[-1].start)
    return blocks
