"""Rules for any further arguments are offered for known commands only."""

import pytest

from gencode.core.rules import Action, Rule
from gencode.permissions.bash.prefix_rules import prefix_rules


def rule(pattern: str, tool: str = "Bash") -> Rule:
    return Rule(tool, pattern, Action.ALLOW)


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("npm test", "npm test:*"),
        ("npm run build --silent", "npm run build:*"),
        ("pytest tests/a.py -q", "pytest:*"),
        ("make check", "make check:*"),
        ("cargo test --lib", "cargo test:*"),
    ],
)
def test_a_known_command_is_offered_with_any_arguments(command: str, pattern: str) -> None:
    assert prefix_rules([rule(command)]) == (rule(pattern),)


@pytest.mark.parametrize(
    "command",
    ["npm", "npm publish", "npm --prefix x test", "make", "make -f x", "git push", "python3 -c x", "rm -r a"],
)
def test_any_other_command_is_not(command: str) -> None:
    assert prefix_rules([rule(command)]) == ()


def test_other_parts_of_a_command_stay_exact_and_other_tools_are_left_alone() -> None:
    assert prefix_rules([rule("touch a"), rule("npm test")]) == (rule("touch a"), rule("npm test:*"))
    assert prefix_rules([rule("pytest", "Read")]) == ()
