"""The parser against bash itself: no program starts and no file appears that the parser did not list."""

import json
from pathlib import Path

import pytest
from hypothesis import event, example, given

from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import Part, Unparsable
from tests.permissions.bash.random_commands import FRAGMENT_SOUP, WHOLE_COMMANDS, spoiled
from tests.permissions.bash.real_bash import RealBash, overlooked
from tests.permissions.bash.tricky_commands import TRICKY

pytestmark = pytest.mark.needs("bash")

CASES = Path(__file__).parents[2] / "cases" / "bash_permissions.jsonl"


def case_commands() -> list[str]:
    """The commands of the cases; a path to a real program would start it, so those stay out.

    So do those that would write to a disk, and builtins that run code, which the parser does not know.
    """
    cases = [json.loads(line) for line in CASES.read_text("utf-8").splitlines()]
    commands = [case["command"] for case in cases if case["group"] not in ("destruction-13i", "opaque-13e")]
    return sorted({command for command in commands if "/bin/" not in command})


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> RealBash:
    return RealBash(tmp_path_factory.mktemp("real-bash"))


def parsed(text: str) -> tuple[Part, ...] | None:
    try:
        return parse(text)
    except Unparsable:
        return None


def assert_nothing_overlooked(bash: RealBash, text: str) -> str:
    """Says whether the text was read or refused, for Hypothesis to count."""
    parts = parsed(text)
    if parts is None:
        return "refused"
    assert not bash.refuses(text), text
    seen = bash.observe(text)
    assert "syntax error near" not in seen.complaints, (text, seen.complaints)
    assert overlooked(parts, seen) == [], text
    return "read"


@pytest.mark.parametrize("text", case_commands())
def test_the_commands_of_the_cases_do_nothing_that_is_not_listed(bash: RealBash, text: str) -> None:
    assert_nothing_overlooked(bash, text)


@pytest.mark.parametrize("text", TRICKY)
def test_tricky_commands_are_read_and_do_nothing_that_is_not_listed(bash: RealBash, text: str) -> None:
    assert parsed(text) is not None
    assert_nothing_overlooked(bash, text)


@given(text=WHOLE_COMMANDS)
def test_random_commands_do_nothing_that_is_not_listed(bash: RealBash, text: str) -> None:
    event(assert_nothing_overlooked(bash, text))


@given(text=spoiled(WHOLE_COMMANDS))
@example("ok1 >&'$(ok2)'")
@example("ok1 $(coproc ok2)")
@example("ok1 $( (ok2 <<A\nA\n); ok3)")
@example("ok1 $(a=(1 \\; 2))")
@example('ok1 "$$(ok2"')
@example("-c ok1")
def test_spoiled_commands_do_nothing_that_is_not_listed(bash: RealBash, text: str) -> None:
    event(assert_nothing_overlooked(bash, text))


@given(text=FRAGMENT_SOUP)
def test_fragments_of_commands_do_nothing_that_is_not_listed(bash: RealBash, text: str) -> None:
    event(assert_nothing_overlooked(bash, text))


def test_history_expansion_is_a_trap_that_bash_really_has(bash: RealBash) -> None:
    text = "set -o history -o histexpand\nok1 ok2\n!!:1"
    assert ["ok2"] in bash.observe(text).started
    assert parsed(text) is None


def test_the_bench_sees_what_is_started_and_written(bash: RealBash) -> None:
    seen = bash.observe("ok1 'a b' && no1 || $(echo ok2) > out")
    assert seen == ([["ok1", "a b"], ["no1"], ["ok2"]], {"out"}, "")


def test_the_bench_notices_what_is_overlooked(bash: RealBash) -> None:
    seen = bash.observe("ok1 a; ok2 > out")
    assert overlooked(parse("ok1 b"), seen) == [["ok1", "a"], ["ok2"], "out"]
