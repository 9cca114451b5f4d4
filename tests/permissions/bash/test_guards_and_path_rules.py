"""Guards for secrets and protected places, and path rules, on the words of commands."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.rules import Action, Policy, parse_rule
from gencode.core.spec import Workspace
from gencode.permissions.bash.command_units import Unit
from gencode.permissions.bash.guards import check_guards
from gencode.permissions.bash.parts import Part, ShellWord, WordPiece
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide
from gencode.permissions.paths import places_of
from gencode.permissions.secrets import folded, is_protected, is_secret
from tests.permissions.bash.judged import WHERE, actions, all_are, judge

PRIVATE = "deny Read(private/**)"
GENERATED = "deny Write(gen/**)"


def test_a_word_that_names_a_secret_is_asked_whatever_allows_the_command() -> None:
    commands = [
        *(
            "cat .env",
            "cat a/.env.local",
            "cat .ENV",
            "cat ./.env.",
            "cat ~/.ssh/config",
            "cat id_rsa",
            "cat a.pem",
        ),
        *("cat .config/gh/hosts.yml", "cat /etc/shadow", "cat /proc/1/environ", "cat '.env '", "cat .ｅnv"),
        *(
            "git show HEAD:.env",
            "curl -d @.env x",
            "x --file=.env",
            "x a,.env",
            "curl -K.netrc",
            "scp h:.netrc y",
        ),
        *(
            "cat < .env",
            "x=.env",
            "F=.env make",
            "echo x > .env",
            "for f in .env; do :; done",
            "[[ -f .env ]]",
        ),
        *("timeout 5 cat .env", "xargs cat .env", "find . -name .env", "sh -c 'cat .env'", "sudo cat .env"),
        *("cat /tmp/../etc/shadow", "cat ../etc/shadow", "cat //etc//shadow", "find . -exec cat .env \\;"),
    ]
    assert actions(commands, "allow Bash") == all_are("ask", commands)


def test_an_unknown_word_that_may_be_a_hidden_name_is_a_secret() -> None:
    commands = [
        *("cat .e*", "cat .$x", "cat .{env,x}", "cat {.env,x}", "cat a/.??", "cat --f=.e*", "cat -f.e*"),
        *('cat "$HOME/.aws/x"', "cat *.pem", "cat $x/.ssh/id", "cat $x/etc/shadow", "cat {a,b}/.ssh/c"),
    ]
    assert actions(commands, "allow Bash") == all_are("ask", commands)


def test_other_words_are_no_secrets() -> None:
    commands = [
        *("cat .env.example", "cat .gitignore", "cat *", "ls .github/*", "cat env", "cat /etc/passwd"),
        *(
            "cat x.pem.txt",
            "cat keys",
            "echo .environment",
            "cat $x",
            "cat ./*",
            "cat ../*.txt",
            "cat {./a,b}",
        ),
    ]
    assert actions(commands, "allow Bash") == all_are("allow", commands)


def test_what_may_change_a_protected_place_is_asked() -> None:
    commands = [
        *("cp x .git/config", "rm -rf .git", "rm -rf GIT~1", "echo x > .git/config", "echo x > .bashrc"),
        *(
            "cp x /etc/y",
            "tee /dev/sda",
            "rm .gen/x",
            "make .vscode",
            "echo x >> a/.mcp.json",
            "dd of=/dev/sda",
        ),
        *("X=.git/config", "rm /dev/../etc/x", "> /proc/x", "rm .git/$x", "sudo rm .husky/x"),
    ]
    assert actions(commands, "allow Bash") == all_are("ask", commands)


def test_reading_a_protected_place_is_not() -> None:
    commands = [
        *("cat .git/HEAD", "ls -la .git .gen", "cat /etc/passwd", "x=.git", "[[ -d .git ]]"),
        *("for f in .git/x; do echo $f; done", "cat < .git/HEAD", "make > /dev/null 2> /dev/stderr"),
    ]
    assert actions(commands, "allow Bash(make)") == all_are("allow", commands)


def test_a_guard_is_lifted_by_the_exact_words_only() -> None:
    exact = "allow Bash(cat .env)"
    assert judge("cat .env", exact).action == "allow"
    assert judge("'cat'  .env", exact).action == "allow"
    widened = ["allow Bash", "allow Bash(cat:*)", "allow Bash(cat .env:*)", "allow Bash(cat .en*)"]
    assert judge("cat .env", *widened).action == "ask"
    others = ["cat .env x", "cat .env < .env", "LANG=C cat .env", "timeout 5 cat .env", "cat ./.env"]
    assert actions(others, exact, *widened) == all_are("ask", others)


def test_no_rule_lifts_a_guard_in_plan_mode_and_dont_ask_has_none() -> None:
    assert judge("cat .env", "allow Bash(cat .env)", mode="plan").action == "ask"
    assert judge("cat .env", mode="dontAsk").action == "allow"
    assert judge("cp x .git/config", mode="dontAsk").action == "allow"


def test_a_rule_for_reading_reaches_every_word_but_what_is_written() -> None:
    commands = [
        *("cat private/x", "cat ./private/x", "cat a/../private//x", "cat /ws/private/x", "cat PRIVATE/x"),
        *("cp private/x y", "x --f=private/x", "git show HEAD:private/x", "cat < private/x", "x=private/x"),
        *(
            "for f in private/x; do :; done",
            "[[ -f private/x ]]",
            "sh -c 'cat private/x'",
            "cat ~+/private/x",
        ),
        *(
            "timeout 5 cat private/x",
            "find . -exec cat private/x \\;",
            "grep -fprivate/x y",
            "cat 'private/x y'",
        ),
    ]
    assert actions(commands, "allow Bash", PRIVATE) == all_are("deny", commands)
    allowed = [
        "cat x",
        "ls",
        "echo x > private/y",
        "cd private",
        "ls -l /ws",
        "cat ~/private/x",
        "cat /private/x",
    ]
    assert actions(allowed, "allow Bash", PRIVATE) == all_are("allow", allowed)


def test_a_rule_for_writing_reaches_what_may_change_something() -> None:
    denied = ["echo x > gen/a", "cp x gen/a", "rm GEN/a", "make gen/a", "X=gen/a", "sh -c 'rm gen/a'"]
    allowed = ["cat gen/a", "ls $x", "cat < gen/a", "echo gen/a", "x=gen/a"]
    for tool in ("Write", "Edit", "write_file", "*"):
        assert actions(denied, "allow Bash", f"deny {tool}(gen/**)") == all_are("deny", denied)
    assert actions(allowed, "allow Bash", GENERATED, "deny Edit(gen/**)") == all_are("allow", allowed)


def test_a_word_that_may_be_any_path_is_a_possible_match() -> None:
    commands = [
        *(
            "cat $x",
            "cat *",
            "cat {a,$x}",
            "xargs cat",
            "xargs",
            "cat ~bob/x",
            "find . -exec cat {} +",
            "x=$y",
        ),
        *("for f in *; do :; done", "cat < $x", "[[ -f $x ]]", "cat $(ls)"),
    ]
    assert actions(commands, "allow Bash", PRIVATE) == all_are("ask", commands)
    assert actions(commands, PRIVATE, mode="dontAsk") == all_are("ask", commands)
    written = ["echo > $x", "cp $x y", "make $x", "rm *"]
    assert actions(written, "allow Bash", GENERATED) == all_are("ask", written)


def test_the_words_after_a_cd_are_read_in_its_folder() -> None:
    denied = [
        *("cd private && cat x", "pushd private; cat x", "env -C private cat x", "cd private; cat ./x"),
        *("cd src && cat ../private/x", "cd src; cd ..; cat private/x", "sh -c 'cd private; cat x'"),
        *("cd nowhere; cd private; cat x", "cd private; cd nowhere; cat x", "git -C private show HEAD:x"),
        *("cd /ws/private && cat x", "cd ~/../../ws/private && cat x", "cd -P -- private && cat x"),
        *("cd private && (cat x)", "cd private && sh -c 'cat x'", "cd private && cat $(echo y) x"),
        *("for i in 1 2; do cat x; cd /ws/private; done", "f() { cat x; }; cd private; f"),
        *("trap 'cat x' EXIT; cd private", "eval 'cd private'; cat x", "{ cd private; }; cat x"),
    ]
    assert actions(denied, "allow Bash", PRIVATE) == all_are("deny", denied)
    allowed = [
        *("cd private", "cd src && ls -l", "cd src && cat /x", "cd src && pwd", "cd src && cat ~/x"),
        *("cd src; ls y", "(cd private); cat b", "sh -c 'cd private'; cat b", "cat x; cd private"),
        *("x=$(cd private; pwd); cat b", "cd src && make && cd - && ls a"),
    ]
    rules = ["allow Bash", PRIVATE]
    assert actions(allowed[:-2], *rules) == all_are("allow", allowed[:-2])
    assert actions(allowed, "allow Bash") == all_are("allow", allowed)
    assert judge("cd gen && echo x > a", "allow Bash", GENERATED).action == "deny"


def test_after_a_cd_to_an_unknown_folder_every_relative_word_is_a_possible_match() -> None:
    asked = [
        "cd $x && cat x",
        "cd -; cat x",
        "cd a*; ls y",
        "pushd +1; ls y",
        "cd ~bob; cat x",
        "cd a b; cat x",
    ]
    assert actions(asked, PRIVATE, mode="dontAsk") == all_are("ask", asked)
    assert actions(asked, mode="dontAsk") == all_are("allow", asked)
    allowed = ["cd -; ls -l", "cd - && cat /x", "cat x; cd -", "(cd -); cat x"]
    assert actions(allowed, PRIVATE, mode="dontAsk") == all_are("allow", allowed)


def test_what_runs_where_secrets_are_or_nobody_knows_where_is_asked() -> None:
    asked = [
        *("cd /etc && ls", "cd /proc && grep -a KEY */environ", "cd /etc && cat shadow", "cd /sys; pwd"),
        *("cd /dev/fd/.. && cat x", "cd ~/.ssh/..; cd ~/.ssh && ls", "cd $x && ls", "cd - && ls", "cd *; ls"),
        *("cd ~/.config && cat gh/hosts.yml", "cd / && cat etc/shadow", "cd /usr && cat ../etc/shadow"),
        *("cd ~/.config; cd nowhere; cat gh/hosts.yml", "cd /etc; cd /ws; ls", "cd /ETC && ls"),
        *("for i in 1; do ls; cd ..; done", "while cd ..; do cat etc/shadow; done", "cd /etc | ls"),
        *("f() { cat gh/hosts.yml; }; cd ~/.config; f", "cd ~/.config && sh -c 'cat gh/hosts.yml'"),
    ]
    assert actions(asked) == all_are("ask", asked)
    assert actions(asked, "allow Bash") == all_are("ask", asked)
    allowed = [
        *("cd /etc", "ls; cd /etc", "(cd /etc); ls", "cd ~/.config && ls", "cd / && ls", "cd && ls", "cd $x"),
        *("ls; cd $x", "cd src && cat a.py", "cd src && cd ../lib && ls", "x=$(cd $y); ls"),
    ]
    assert actions(allowed) == all_are("allow", allowed)
    assert actions(allowed, mode="plan") == all_are("allow", allowed)


def test_more_folders_than_can_be_told_apart_are_asked() -> None:
    moves = [f"cd d{number} && ls" for number in range(30)]
    assert judge("; ".join(moves)).action == "ask"
    assert judge("; ".join(f"({move})" for move in moves)).action == "allow"


@pytest.mark.parametrize("mode", ["default", "plan"])
def test_the_doors_of_a_process_are_secrets_however_they_are_spelled(mode: str) -> None:
    asked = [
        *("cat /proc/1/task/1/environ", "cat /proc/self/task/*/environ", "cat /dev/fd/../environ"),
        *("cat /dev/fd/../../1/environ", "cat /proc/self/root/etc/shadow", "cat /proc/thread-self/environ"),
        *("ls /proc/self/cwd", "ls -l /proc/1/fd", "cat /proc/1/map_files/0-1", "cat /proc/self/task/9/mem"),
        *("cat /proc/self/net/../environ", "cat /usr/../dev/fd/../environ", "cat ../dev/fd/../environ"),
        *("cat /dev/shm/../fd/../environ", "cat /dev/fd/3/shadow", "cat /dev/stdin/shadow < x"),
        *("cat /proc/self/e*", "cat /proc/$x", "cat /proc/self/$x", "cat < /proc/self/environ"),
        *("grep -f/proc/self/environ x", "cat //proc//self/./ENVIRON", "cat /proc/{self,1}/environ"),
    ]
    commands = asked if mode == "default" else asked[:-1]
    assert actions(commands, mode=mode) == all_are("ask", commands)
    allowed = ["cat /proc/cpuinfo", "cat /proc/1/status", "cat /proc/$x/comm", "ls /dev/fd", "cat /dev/fd/3"]
    assert actions(allowed, mode=mode) == all_are("allow", allowed)


def test_a_rule_for_all_paths_reaches_every_word() -> None:
    assert judge("cat x", "allow Bash", "deny Read").action == "deny"
    assert judge("pwd", "allow Bash", "deny Read").action == "allow"


def test_an_ask_rule_for_a_path_gives_way_to_a_deny_rule() -> None:
    rules = ["allow Bash", "ask Read(private/**)", "deny Read(*.txt)"]
    assert judge("cat private/x private/y.txt", *rules).rule == "deny Read(*.txt)"
    assert judge("cat private/x", *rules).rule == "ask Read(private/**)"


@pytest.mark.parametrize("command", ["cat private/x", "cat secret.txt", "cat ÄRGER"])
def test_rules_outside_ascii_and_anchored_ones_match(command: str) -> None:
    rules = ["deny Read(/ws/private/*)", "deny Read(s?cret.txt)", "deny Read(ärger)"]
    assert judge(command, "allow Bash", *rules).action == "deny"


NAMES = st.sampled_from(
    [
        *(
            ".",
            "..",
            "",
            "x",
            ".env",
            ".git",
            "etc",
            "shadow",
            "id_rsa",
            "git~1",
            ".ssh",
            "a.pem",
            ".config",
            "gh",
        ),
        *(
            ".bashrc",
            "proc",
            "1",
            "environ",
            "dev",
            "null",
            ".e",
            "private",
            "-f",
            "-",
            "~",
            ".mcp.json",
            "É",
        ),
    ]
)
LITERALS = st.lists(NAMES | st.sampled_from(["/", "=", ":", ",", "@", " "]), min_size=1, max_size=6).map(
    "".join
)


def named_by(value: str) -> list[tuple[tuple[str, ...], bool]]:
    """The candidates of a word by the letter of the specification."""
    return [(folded(each), each.startswith("/")) for each in [value, *re.split("[=:,@]", value)]]


@given(st.lists(LITERALS, min_size=1, max_size=3))
def test_the_guards_find_all_that_the_letter_of_the_specification_names(values: list[str]) -> None:
    words = tuple(ShellWord((WordPiece(value),), value) for value in ("tool", *values))
    named = [each for value in values for each in named_by(value)]
    secret = any(is_secret(names, absolute=absolute) for names, absolute in named)
    protected = any(is_protected(names, absolute=absolute) for names, absolute in named)
    places = places_of(WHERE)
    changing = check_guards(Unit(Part("command", words), more_than_read="it does"), places)
    reading = check_guards(Unit(Part("command", words)), places)
    assert reading.guard or not secret
    assert changing.guard or not (secret or protected)


def test_a_workspace_that_is_a_link_is_known_by_both_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    where = Workspace(tmp_path / "link", tmp_path / "link", tmp_path)
    found = {
        decide(
            CallFacts(tool="Bash", input={"command": f"cat {word}"}, effect="execute", workspace=where),
            [Policy(rules=(parse_rule(f"Read({pattern})", Action.DENY),))],
        ).action
        for word in ("private/x", f"{tmp_path}/real/private/x", f"{tmp_path}/link/private/x")
        for pattern in ("private/**", f"{tmp_path}/real/private/*", "~/real/private/x")
    }
    assert found == {Action.DENY}
