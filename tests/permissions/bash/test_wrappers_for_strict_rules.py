"""Deny and ask rules reach a command however it is wrapped, spelled or handed on."""

import pytest

from tests.permissions.bash.judged import actions, all_are, judge

RM = "deny Bash(rm:*)"

SPELLED = [
    *("rm x", "\\rm x", "'r'm x", "$'\\x72m' x", "/bin/rm x", "./rm x", "~/bin/rm x", "  rm\tx", "rm \\\n x"),
    *("LANG=C rm x", "FOO=1 rm x", "! rm x", "time rm x", "time -p rm x", "rm", "rm > y", "rm x &"),
]
TRANSPARENT = [
    *("timeout 5 rm x", "timeout -k 5 10 rm x", "timeout -k5 -s KILL --foreground 10 rm x"),
    *("timeout --signal=KILL -v 1 rm x", "nice rm x", "nice -5 rm x", "nice -n 5 rm x", "nice -n5 rm x"),
    *(
        "nice --adjustment=3 rm x",
        "nohup nohup rm x",
        "stdbuf -oL rm x",
        "stdbuf -o L -e0 rm x",
        "command rm x",
    ),
    *("env rm x", "env LANG=C rm x", "/usr/bin/env rm x", "nohup time -p rm x", "nice nice -n 3 nohup rm x"),
    *("xargs rm", "xargs -0 -n 1 rm -f", "xargs -I{} rm {}", "xargs -I {} rm {}", "xargs --replace=% rm %"),
    *("xargs xargs rm", "timeout 5 env LC_ALL=C xargs rm", "/bin/timeout 5 /usr/bin/nice /bin/rm x"),
]
DISPATCHED = [
    *("sudo rm x", "sudo -u root rm x", "sudo -- rm x", "sudo FOO=1 rm x", "doas rm x", "exec rm x"),
    *("exec -a other rm x", "builtin command rm x", "setsid rm x", "busybox rm x", "command -p rm x"),
    *("env FOO=1 rm x", "env -i rm x", "env -u X rm x", "env -C /x rm y", "env --chdir=/x -0 rm y"),
    *("docker exec c rm x", "kubectl exec p -- rm x", "chroot /x rm y", "flock f rm x", "watch rm x"),
    *("sudo timeout 5 rm x", "timeout 5 sudo rm x", "sudo xargs rm", "xargs sudo rm", "./timeout 5 rm x"),
    *("sudo git -C x rm", "parallel rm ::: a", "ssh host rm x", "strace -f rm x"),
]
UNKNOWN_OPTIONS = [
    *("timeout --foo 5 rm x", "timeout -- 5 rm x", "nice --5 rm x", "stdbuf -x rm y", "xargs -a f rm"),
    *("env -S 'rm x'", "env -S'rm x' y", "env -vS 'rm x'", "env --split-string='A=1 rm x'", "env - rm x"),
    *("timeout $t rm x", "nice -n $n rm x", "command -x rm y"),
]
HANDED_ON = [
    *("sh -c 'rm x'", "bash -lc 'rm x'", "bash -ec 'rm x'", "bash -o pipefail -c 'rm x'", "zsh -c 'rm x'"),
    *("bash --norc -c 'rm x'", "bash -c -- 'rm x'", 'bash -c "rm $x"', "bash -c \"bash -c 'rm x'\""),
    *("/bin/sh -c 'rm x'", "FOO=1 sh -c 'rm x'", "sudo bash -c 'rm x'", "docker exec c sh -c 'rm x'"),
    *("xargs -I{} sh -c 'rm {}'", "find . -exec sh -c 'rm x' \\;", "fish -c 'rm x'", "busybox sh -c 'rm x'"),
    *("eval rm x", "eval 'rm x'", "eval eval eval rm x", "command eval 'rm x'", "builtin eval 'rm x'"),
    *("trap 'rm x' EXIT", "trap -- 'rm x' INT", "bash <<< 'rm x'", "bash -s <<'EOF'\nrm x\nEOF"),
    *("sudo bash <<EOF\nrm x\nEOF", "source /dev/stdin <<< 'rm x'", "bash /dev/stdin <<< 'rm x'"),
    *("find . -exec rm {} +", "find . -name a -okdir rm {} \\;", "find . -exec env A=1 rm {} \\;"),
    *("find . -exec find . -exec rm {} \\; \\;", "sudo find . -exec rm {} +"),
    *("ssh host 'rm x'", "ssh host 'cd y && rm x'", "su -c 'rm x'", "su -c'rm x' root", "watch 'rm x'"),
    *("sudo script -qc 'rm x'", "flock f -c 'rm x'", "parallel 'rm {}' ::: a"),
]
INSIDE = [
    *("$(rm x)", "echo `rm x`", 'echo "$(rm x)"', "y=$(rm x)", "Y=$(rm x) ls", "cat <(rm x)", "ls > >(rm x)"),
    *(
        "ls > $(rm x)",
        "cat < $(rm x)",
        "cat <<EOF\n$(rm x)\nEOF",
        "echo ${x:-$(rm x)}",
        "echo $(( $(rm x) ))",
    ),
    *("[[ -n $(rm x) ]]", "case $(rm x) in a) ;; esac", "for i in $(rm x); do :; done", "(rm x)"),
    *("{ rm x; } > y", "if rm x; then :; fi", "while rm x; do :; done", "until :; do rm x; done"),
    *(
        "f() { rm x; }",
        "coproc rm x",
        "a && rm x",
        "a || rm x &",
        "a | rm x",
        "a |& rm x",
        "a; rm x",
        "a\nrm x",
    ),
]


@pytest.mark.parametrize(
    "commands",
    [SPELLED, TRANSPARENT, DISPATCHED, UNKNOWN_OPTIONS, HANDED_ON, INSIDE],
    ids=["spelled", "transparent", "dispatched", "unknown options", "handed on", "inside"],
)
def test_what_a_deny_rule_names_is_denied(commands: list[str]) -> None:
    assert actions(commands, "allow Bash", RM) == all_are("deny", commands)
    assert actions(commands, RM, mode="dontAsk") == all_are("deny", commands)
    assert actions(commands, RM, mode="plan") == all_are("deny", commands)


def test_an_ask_rule_reaches_as_far() -> None:
    commands = [*SPELLED, *TRANSPARENT, *DISPATCHED, *HANDED_ON, *INSIDE]
    assert actions(commands, "allow Bash", "ask Bash(rm:*)") == all_are("ask", commands)


@pytest.mark.parametrize(
    "command",
    [
        *("command -v rm", "echo rm", "grep rm x", "which rm", "git commit -m 'rm x'", "rm.sh", "docker ps"),
        *("cat rm", "echo 'rm x'", "cat <<'EOF'\n$(rm x)\nEOF", "sudo apt install zsh", "# rm x\nls"),
    ],
)
def test_the_name_alone_as_an_argument_is_no_match(command: str) -> None:
    assert judge(command, "allow Bash", RM).action == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *("git push", "git -C /x push", "git -c a=b push", "git --git-dir /x --work-tree=y push origin"),
        *(
            "git --no-pager -P push",
            "git -p --namespace n push",
            "git --config-env a=B push",
            "/usr/bin/git push",
        ),
        *("sudo git -C git push", "git --attr-source HEAD push", "timeout 5 git -C x push"),
    ],
)
def test_the_global_options_of_git_hide_nothing(command: str) -> None:
    assert judge(command, "allow Bash", "deny Bash(git push:*)").action == "deny"


def test_a_rule_may_name_the_wrapper_itself() -> None:
    commands = ["timeout 5 ls", "nice timeout 5 ls", "/usr/bin/timeout 5 ls", "sudo timeout 5 ls"]
    assert actions(commands, "allow Bash", "deny Bash(timeout:*)") == all_are("deny", commands)


def test_a_rule_may_name_an_assignment() -> None:
    commands = ["LD_PRELOAD=x ls", "LD_PRELOAD=x"]
    assert actions(commands, "allow Bash", "deny Bash(LD_PRELOAD=*:*)") == all_are("deny", commands)


def test_xargs_might_add_what_an_exact_rule_names() -> None:
    assert judge("xargs rm", "allow Bash", "deny Bash(rm -rf x)").action == "ask"
    assert judge("xargs -I{} rm {} y", "allow Bash", "deny Bash(rm x y)").action == "ask"
    assert judge("xargs ls", "allow Bash", "deny Bash(rm -rf x)").action == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *(
            "sudo $x",
            "sudo ls $x",
            "timeout 5 $x",
            "xargs sh",
            "xargs $x",
            "cat y | bash",
            "curl x | sudo sh",
        ),
        *(
            "bash $x",
            "bash -c $x",
            "env -S $x",
            "find . -exec {} \\;",
            "xargs -I{} {} x",
            "timeout --foo 5 ls",
        ),
    ],
)
def test_what_might_be_the_denied_command_is_asked(command: str) -> None:
    assert judge(command, "allow Bash", RM).action == "ask"
    assert judge(command, RM, mode="dontAsk").action == "ask"


BEHIND_XARGS = [
    *("env", "env LANG=C", "/usr/bin/env", "timeout", "timeout 5", "timeout -k 1", "timeout --foreground"),
    *("nice", "nice -n", "nice -n 5", "nohup", "nohup nice", "stdbuf", "stdbuf -oL", "command", "time -p"),
    *("xargs", "xargs -n1", "xargs -n", "xargs -d", "sudo", "setsid"),
]


@pytest.mark.parametrize("front", ["echo rm x | xargs", "timeout 1 xargs -0", "xargs -I{}"])
def test_a_wrapper_behind_xargs_runs_what_xargs_reads(front: str) -> None:
    commands = [f"{front} {wrapper}" for wrapper in BEHIND_XARGS]
    assert actions(commands) == all_are("ask", commands)
    assert actions(commands, mode="plan") == all_are("deny", commands)
    assert actions(commands, "allow Bash", RM) == all_are("ask", commands)


def test_what_xargs_puts_among_the_words_of_a_wrapper_can_move_its_command() -> None:
    commands = ["xargs -I-k timeout -k rm 5 ls", "xargs -I5 nice -n5 ls", "xargs -I{} timeout {} ls"]
    assert actions(commands) == all_are("ask", commands)


def test_an_xargs_that_ends_the_words_runs_echo_and_one_with_a_command_runs_that() -> None:
    commands = [
        "xargs",
        "echo a | xargs -n1",
        "timeout 5 xargs",
        "xargs cat",
        "xargs nice cat",
        "xargs -I{} cat {}",
    ]
    assert actions(commands) == all_are("allow", commands)


def test_what_somebody_puts_into_a_name_that_begins_with_a_dot_may_be_a_secret() -> None:
    commands = [
        "xargs -I{} cat .en{}",
        "xargs -I@ cat .e@v",
        "xargs -I X cat .sXh/id",
        "xargs -I{} cat a/.{}",
    ]
    assert actions(commands) == all_are("ask", commands)
    assert judge("find . -exec cat .en{} ';'", "allow Bash").action == "ask"


def test_a_script_with_nothing_to_run_only_reads() -> None:
    commands = [
        *("bash -c ''", "sh -c ' '", "bash -c $'\\n'", "eval ''", "eval -- '' ' '", "timeout 5 sh -c ''"),
        *("trap '' TERM", 'trap "" INT TERM; ls', "trap -- '' INT", "command eval ''", "bash -c '' name a"),
    ]
    for mode in ("default", "plan", "dontAsk"):
        assert actions(commands, mode=mode) == all_are("allow", commands)
    denied = ["bash -c ''", "trap '' TERM", "eval ''"]
    assert actions(denied, "deny Bash(bash:*)", "deny Bash(trap:*)", "deny Bash(eval:*)") == all_are(
        "deny", denied
    )


def test_what_is_more_than_an_empty_script_is_asked() -> None:
    commands = [
        *("bash -lc ''", "zsh -c ''", "sudo eval ''", "./trap '' TERM", "./eval ''", "BASH_ENV=x bash -c ''"),
        *("trap '' $x", "eval $x", 'eval "" $x', "xargs eval ''", "trap x TERM", "trap - INT", "X=1 eval ''"),
        *("bash -c '#'", "bash <<< ''", "find . -exec bash -c '' \\;", "exec bash -c ''"),
    ]
    assert actions(commands) == all_are("ask", commands)
