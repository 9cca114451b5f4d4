"""Allow rules see through what is transparent, and a rule that names only a wrapper grants nothing."""

import pytest

from tests.permissions.bash.judged import actions, all_are, judge

MAKE = "allow Bash(make:*)"


def test_transparent_wrappers_are_stripped() -> None:
    commands = [
        *("timeout 5 make x", "timeout -k 5 -s KILL 9 make", "nice -n 5 make", "nice -5 make", "nohup make"),
        *(
            "stdbuf -oL make",
            "time make",
            "time -p make",
            "command make",
            "env make",
            "env LANG=C TZ=UTC make",
        ),
        *("LANG=C make", "xargs make", "xargs -0 -n 5 make", "/usr/bin/timeout 5 nice env LC_ALL=C make x"),
    ]
    assert actions(commands, MAKE) == all_are("allow", commands)


def test_everything_else_around_a_command_needs_a_rule_of_its_own() -> None:
    commands = [
        *("FOO=1 make", "sudo make", "env FOO=1 make", "env -i make", "command -p make", "exec make"),
        *(
            "./make",
            "/usr/bin/make",
            "./timeout 5 make",
            "timeout --foo 5 make",
            "timeout $t make",
            "env - make",
        ),
        *("make > x", "make ${x:-y}", "make >(cat)", "builtin make", "xargs -x make", "watch make"),
    ]
    assert actions(commands, MAKE) == all_are("ask", commands)


@pytest.mark.parametrize(
    "pattern",
    [
        *("sudo:*", "sudo -u:*", "sudo -u root:*", "sudo *", "timeout:*", "timeout 5:*", "timeout * rm x"),
        *("env:*", "env FOO=1:*", "env -i:*", "xargs:*", "xargs -n 1:*", "nice:*", "sudo timeout:*"),
        *("sudo timeout 5:*", "nohup:*", "exec:*", "* rm x", "sudo * rm x", "sudo FOO=1:*", "command:*"),
    ],
)
def test_a_rule_that_names_only_the_wrapper_grants_nothing(pattern: str) -> None:
    commands = [
        *("sudo rm x", "sudo -u root rm x", "timeout 5 rm x", "env FOO=1 rm x", "env -i rm x", "xargs rm x"),
        *(
            "xargs -n 1 rm x",
            "nice rm x",
            "sudo timeout 5 rm x",
            "nohup rm x",
            "exec rm x",
            "sudo FOO=1 rm x",
        ),
        "command rm x",
    ]
    assert actions(commands, f"allow Bash({pattern})") == all_are("ask", commands)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("sudo make:*", "sudo make x"),
        ("sudo make:*", "timeout 5 sudo make x"),
        ("sudo -u root make:*", "sudo -u root make x"),
        ("timeout 5 make:*", "timeout 5 make x"),
        ("env FOO=1 make:*", "env FOO=1 make x"),
        ("xargs -n 1 make:*", "xargs -n 1 make"),
        ("sudo timeout 5 make:*", "sudo timeout 5 make"),
        ("docker run:*", "docker run --rm x"),
        ("env", "env"),
        ("bash:*", "bash script.sh x"),
        ("bash:*", "bash -x script.sh"),
    ],
)
def test_a_rule_whose_fixed_words_reach_the_command_grants_it(pattern: str, command: str) -> None:
    assert judge(command, f"allow Bash({pattern})").action == "allow"


def test_an_exact_rule_cannot_match_behind_xargs() -> None:
    assert judge("xargs make", "allow Bash(make)", "allow Bash(xargs make)").action == "ask"


def test_a_wrapper_without_a_command_is_covered_by_an_exact_rule_only() -> None:
    commands = ["env", "timeout 5", "nohup", "env LANG=C"]
    assert actions(commands) == all_are("ask", commands)
    tails = [f"allow Bash({command}:*)" for command in commands]
    assert actions(commands, *tails) == all_are("ask", commands)
    exact = [f"allow Bash({command})" for command in commands]
    assert actions(commands, *exact) == all_are("allow", commands)


def test_xargs_without_a_command_runs_echo() -> None:
    assert judge("ls | xargs").action == "allow"
    assert judge("ls | xargs", "deny Bash(echo:*)").action == "deny"


@pytest.mark.parametrize(
    "command",
    [
        *("bash", "bash -s", "bash -s x", "bash -c make", "bash -lc ls", "bash $x", "bash --rcfile x"),
        *("bash /dev/stdin", "bash -", "bash < x", "bash --version", "bash <(cat x)", "bash -o posix"),
    ],
)
def test_a_rule_for_a_shell_allows_script_files_only(command: str) -> None:
    assert judge(command, "allow Bash(bash:*)").action == "ask"


def test_a_plain_script_takes_the_place_of_its_shell() -> None:
    commands = [
        *(
            "sh -c 'ls | wc -l'",
            "bash -c 'make all'",
            "dash -c ls",
            "timeout 5 sh -c make",
            "LANG=C sh -c ls",
        ),
        *("bash -c 'ls \"$1\"' _ x", "sh -c \"sh -c 'make'\"", "nice env LANG=C bash -c 'make && ls'"),
    ]
    assert actions(commands, MAKE) == all_are("allow", commands)


def test_any_other_way_to_a_script_is_opaque() -> None:
    commands = [
        *("bash -lc ls", "bash -xc ls", "bash --norc -c ls", "zsh -c ls", "sudo sh -c ls", "FOO=1 sh -c ls"),
        *("xargs sh -c ls", "find . -exec sh -c ls \\;", "sh -c ls $x", 'sh -c "$x"', "env FOO=1 sh -c ls"),
        *("/bin/sh -c ls", "sh -c -x ls", "eval ls", "trap ls EXIT", "sh -c", "alias ls=ls"),
    ]
    shells = [
        f"allow Bash({name}:*)" for name in ("bash", "sh", "zsh", "sudo sh", "xargs sh", "find", "eval")
    ]
    assert actions(commands, MAKE, *shells) == all_are("ask", commands)


def test_a_command_carried_by_find_needs_its_own_permission() -> None:
    command = "find . -name '*.sh' -exec make {} +"
    assert judge(command, "allow Bash(find:*)").action == "ask"
    assert judge(command, MAKE).action == "ask"
    assert judge(command, "allow Bash(find:*)", MAKE).action == "allow"
    assert judge("find . -exec cat {} + -exec rm {} \\;", "allow Bash(find:*)").action == "ask"
    assert judge("find . -exec cat {} + -exec head {} \\;", "allow Bash(find:*)").action == "allow"


def test_an_open_tail_covers_options_that_run_or_write_something() -> None:
    commands = ["find . -delete", "git -c a=b status", "rg --pre x y"]
    rules = ["allow Bash(find:*)", "allow Bash(git:*)", "allow Bash(rg:*)"]
    assert actions(commands, *rules) == all_are("allow", commands)


def test_only_the_blanket_rule_covers_what_sets_other_variables() -> None:
    commands = ["FOO=1", "PATH=x make", "http_proxy=x", "for PATH in a; do ls; done", "FOO=1 BAR=2 ls"]
    assert actions(commands, MAKE, "allow Bash(FOO=1)", "allow Bash(ls:*)") == all_are("ask", commands)
    assert actions(commands, "allow Bash") == all_are("allow", commands)
