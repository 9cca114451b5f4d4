"""What a command line unfolds into: scripts, commands of find, opaque parts, and bounds that fail closed."""

from pathlib import Path

import pytest

from gencode.core.spec import Workspace
from gencode.permissions.bash.command_units import MOST_PARTS, split_units
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide
from tests.permissions.bash.judged import judge, policy, sources, units


def test_the_script_of_a_shell_follows_it() -> None:
    assert sources("sh -c 'ls; make'") == ["sh -c 'ls; make'", "ls", "make"]


def test_what_is_fed_to_a_shell_is_taken_apart_and_what_is_fed_to_others_is_not() -> None:
    assert sources("bash <<< 'make'")[1:] == ["make"]
    assert len(sources("cat <<< 'make'")) == 1


def test_the_commands_of_find_follow_it() -> None:
    assert sources("find . -exec a {} \\; -o -execdir b {} + -ok c \\;")[1:] == ["a {}", "b {}", "c"]


def test_a_plus_ends_a_carried_command_only_after_its_braces() -> None:
    assert sources("find . -exec a + b {} + -print")[1:] == ["a + b {}"]


@pytest.mark.parametrize(
    "command",
    [
        *(
            "eval x",
            "trap x EXIT",
            "alias a=b",
            "timeout --foo 5 ls",
            "env -S x",
            "sh",
            "sh -s",
            "cat | sh -",
        ),
        *("bash -lc ls", "test 'a[$(x)]' = b", "[ 'a[${x}]' ]", "printf -v 'a[`x`]' y", "read 'a[$(x)]'"),
        *("export 'a[$(x)]=1'", "command test -v 'a[$(x)]'", "builtin printf '$(x)'", "unset 'a[$(x)]'"),
        *("wait '$(x)'", "source /dev/stdin", ". /dev/fd/0", "sudo -u x bash", "docker run i bash"),
        *("ssh host bash", "sudo -i", "sudo -u x -s", "su", "su - x", "runuser -u x", "parallel", "doas -s"),
    ],
)
def test_a_part_is_opaque_because_of_its_command(command: str) -> None:
    assert any(unit.opaque for unit in units(command))


@pytest.mark.parametrize(
    "command",
    [
        *("echo '$(x)'", "test -n x", '[ -n "$(ls)" ]', 'printf %s "${x}"', "sh x.sh", "bash -x ./y$z"),
        *("command -v eval", "echo eval", "source x.sh", "sudo apt install bash", "export A=1"),
        *("sudo -l", "su x -c ls", "runuser -lc ls x", "sudo -u x ls -s", "parallel ls ::: a"),
    ],
)
def test_a_part_is_not_opaque_without_a_reason(command: str) -> None:
    assert [unit.opaque for unit in units(command) if unit.opaque] == []


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'echo \"'",
        "eval 'if'",
        "bash <<'EOF'\n(\nEOF",
        "find . -exec sh -c 'a (' \\;",
        "trap 'a |' EXIT",
    ],
)
def test_a_script_that_cannot_be_read_makes_the_command_unreadable(command: str) -> None:
    assert split_units(command).unparsable
    assert judge(command, "allow Bash").action == "ask"
    assert judge(command, mode="dontAsk").action == "ask"
    assert judge(command, mode="plan").action == "deny"


def test_a_script_that_is_only_partly_known_makes_nothing_unreadable() -> None:
    assert not split_units('sh -c "a ( $x"').unparsable
    assert judge('sh -c "a ( $x"', "allow Bash").action == "allow"


def test_every_part_counts_up_to_the_limit() -> None:
    most = "; ".join(["ls"] * (MOST_PARTS - 1))
    assert judge(f"{most}; rm x", "allow Bash", "deny Bash(rm:*)").action == "deny"
    assert judge(most).action == "allow"
    assert judge(f"{most}; ls; ls").action == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "eval " * 5_000 + "ls",
        "find . -exec " * 2_000 + "ls",
        "sudo -u x " + "sh -c a " * 3_000,
        "ls '" + "x" * 32_768 + "'",
        "a; " * 5_000,
    ],
    ids=["eval", "find", "shells", "length", "parts"],
)
def test_what_goes_beyond_a_bound_is_never_allowed(command: str) -> None:
    assert judge(command, "allow Bash").action == "ask"


def test_too_many_wrappers_hide_nothing() -> None:
    assert judge("nice " * 60 + "rm x", "allow Bash", "deny Bash(rm:*)").action == "deny"
    assert judge("nice " * 60 + "ls").action == "ask"


@pytest.mark.parametrize(
    ("command", "action"),
    [
        *(("cd x && git status", "allow"), ("(cd /srv); git log", "allow"), ("git -C x log", "allow")),
        *(("sh -c 'cd /srv'; git diff", "allow"), ("pushd x; git status", "allow")),
        *(("cd .. && git status", "ask"), ("sh -c 'cd /srv; git diff'", "ask"), ("git -C .. log", "ask")),
        *(("cd x && git -C .. log", "allow"), ("cd x && make && cd ../y && git log", "allow")),
        *(("cd x; git -C .. log", "ask"), ("cd x || cd ../y && git log", "ask")),
        *(("true || cd x && git -C .. log", "ask"), ("true || true && cd x && git -C .. log", "allow")),
        *(("! cd x && git -C .. log", "ask"), ("cd x | cat && git -C .. log", "ask")),
        *(("{ cd x; } && git -C .. log", "ask"), ("cd x && true; git -C .. log", "ask")),
        *(("cd x/../.. && git status", "ask"), ("cd a; cd ../..; git log", "ask"), ("cd && git log", "ask")),
        *(("cd $x && git status", "ask"), ("cd - && git status", "ask"), ("cd 'a' b; git log", "ask")),
        *(("pushd ..; git status", "ask"), ("env -C /srv git status", "ask"), ("git -C $x log", "ask")),
        *(("for i in 1 2; do git log; cd ..; done", "ask"), ("while git log; do cd /srv; done", "ask")),
        *(("CDPATH=/srv; cd x; git log", "ask"), ("f() { git log; }; cd /srv; f", "ask")),
        *(("cd ~/x && git log", "ask"), ("cd '~/x' && git log", "ask"), ("cd x && git -C ../.. log", "ask")),
    ],
)
def test_git_is_read_only_as_long_as_no_cd_leaves_the_workspace(command: str, action: str) -> None:
    assert judge(command, "allow Bash(pushd:*)", "allow Bash(make)").action == action


def test_git_in_more_folders_than_can_be_looked_at_is_asked() -> None:
    few, many = ["; ".join(f"git -C d{number} log" for number in range(count)) for count in (16, 17)]
    assert (judge(few).action, judge(many).action) == ("allow", "ask")
    assert judge(many, "allow Bash(git:*)").action == "ask"


def test_a_cd_begins_where_commands_run(tmp_path: Path) -> None:
    where = Workspace(tmp_path, tmp_path / "sub", tmp_path / "home")
    (tmp_path / "sub").mkdir()

    def action(command: str) -> str:
        facts = CallFacts(tool="Bash", input={"command": command}, effect="execute", workspace=where)
        return decide(facts, [policy("deny Read(sub/private/**)")]).action

    assert action("cd .. && git log") == action("git -C .. log") == "allow"
    assert action("cd ../.. && git log") == "ask"
    assert action("cd private && cat x") == "deny"


def test_jq_is_not_read_only_where_it_has_definitions_of_its_own(tmp_path: Path) -> None:
    where = Workspace(tmp_path, tmp_path, tmp_path)
    facts = CallFacts(tool="Bash", input={"command": "jq . x.json"}, effect="execute", workspace=where)
    before = decide(facts, [policy()]).action
    (tmp_path / ".jq").write_text("def f: env;")
    assert (before, decide(facts, [policy()]).action) == ("allow", "ask")


def test_a_command_that_is_no_text_is_asked() -> None:
    found = [judge(command, "allow Bash").action for command in (None, 7, ["ls"], {"a": 1})]
    assert found == ["ask"] * 4
