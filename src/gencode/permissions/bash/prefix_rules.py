"""Rules that allow a command with any further arguments, for programs that developers run again and again."""

from collections.abc import Mapping, Sequence

from gencode.core.rules import Rule
from gencode.core.structs import replace

_WORDS: Mapping[str, int | Mapping[str, int]] = {
    "bun": {"run": 3, "test": 2},
    "cargo": {"bench": 2, "build": 2, "check": 2, "clippy": 2, "fmt": 2, "test": 2},
    "dotnet": {"build": 2, "test": 2},
    "go": {"build": 2, "test": 2, "vet": 2},
    "gradle": {"build": 2, "check": 2, "test": 2},
    "just": 2,
    "make": 2,
    "mvn": {"compile": 2, "test": 2, "verify": 2},
    "mypy": 1,
    "npm": {"run": 3, "test": 2},
    "pnpm": {"run": 3, "test": 2},
    "pyright": 1,
    "pytest": 1,
    "ruff": {"check": 2, "format": 2},
    "tox": 1,
    "tsc": 1,
    "yarn": {"run": 3, "test": 2},
}
"""How many words of a command name what is run; what follows them are its arguments."""


def prefix_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The same rules, those for known commands with any arguments; nothing where there is none of these."""
    found = tuple(_with_any_arguments(rule) for rule in rules)
    return () if found == tuple(rules) else tuple(dict.fromkeys(found))


def _with_any_arguments(rule: Rule) -> Rule:
    words = rule.pattern.split(" ")
    known = _WORDS.get(words[0], 0) if rule.tool == "Bash" else 0
    count = known if isinstance(known, int) else known.get(words[1] if len(words) > 1 else "", 0)
    named = words[:count]
    if not count or len(named) < count or any(word.startswith("-") for word in named):
        return rule
    return replace(rule, pattern=f"{' '.join(named)}:*")
