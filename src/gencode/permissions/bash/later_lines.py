"""Commands after which bash parses the following lines by other rules.

Bash reads and runs line by line. Once history expansion, keyword assignments, aliases or extended patterns
are switched on, a later line means something else than what we have read.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from gencode.permissions.bash.parts import Part, ShellWord

_SWITCHES = frozenset({"set", "shopt"})
_RUN_BUILTINS = frozenset({"builtin", "command"})
_OTHER_RULES = frozenset({"history", "histexpand", "keyword", "posix", "extglob", "expand_aliases"})
_OTHER_RULES_SHORT = re.compile(r"[-+][A-Za-z]*[Hk]")
_COMPATIBLE = re.compile(r"compat\d")


def changes_reading(parts: Sequence[Part]) -> bool:
    """Whether some part switches on what changes how later lines are read, or may do so."""
    return any(_switches(part.words) for part in parts if part.kind == "command")


def _switches(words: Sequence[ShellWord]) -> bool:
    if not words:
        return False
    at = 0
    if words[0].value in _RUN_BUILTINS:
        at = next((index for index, word in enumerate(words) if word.value in _SWITCHES), 0)
    if words[at].value not in _SWITCHES:
        return False
    options = takewhile(lambda word: word.source != "--", words[at + 1 :])
    return any(map(_is_other_rule, options))


def _is_other_rule(option: ShellWord) -> bool:
    value = option.value
    return (
        not option.literal
        or value in _OTHER_RULES
        or _OTHER_RULES_SHORT.match(value) is not None
        or _COMPATIBLE.match(value) is not None
    )
