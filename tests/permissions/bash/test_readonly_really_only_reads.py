"""Commands judged read-only are really run: they change nothing and open no socket."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.permissions.bash import readonly_tables
from gencode.permissions.bash.brace_expansion import with_braces_expanded
from gencode.permissions.bash.options import OptionTable
from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.readonly import not_read_only
from tests.permissions.bash.reading_corpus import corpus
from tests.permissions.bash.spelled import refusal
from tests.permissions.bash.watched import PROGRAM, ScratchTree

CORPUS = corpus()
BATCH = 40
PROGRAMS = f"{Path(sys.executable).parent}:{os.defpath}"
OPTIONAL = frozenset(
    {"rg", "jq", "file", "git", "column", "hexdump", "strings", "tree", "unzip", "xxd", "zcat", "ps", "make"}
)

HOSTILE = [
    *("-o", "-ostolen", "-O", "-Ostolen", "--output=stolen", "--output", "stolen", "--", "-", "-i", "-w"),
    *("-delete", "-exec", PROGRAM, ";", "+", "-fprint", "-fls", "-ok", "--files0-from=a.py", "--in-place"),
    *(f"--pre={PROGRAM}", "--pre", "--ext-diff", "--textconv", f"--compress-program={PROGRAM}", "-S", "-L"),
    *("-T", "--dirty", "--edit-description", "-d", "-m", "-f", "-c", f"core.pager={PROGRAM}", "-D", "-C"),
    *("--no-index", "--filters", "--batch", "--contents", "a.py", "1,2w stolen", "w stolen", "-s", "%n", ""),
]
OPERANDS = [
    "a.py",
    "b.txt",
    "sizes.txt",
    "data.json",
    "src",
    "HEAD",
    "main",
    "wip",
    "new",
    ".",
    "3p",
    "1",
    "v1",
]


def is_here(command: str) -> bool:
    return all(
        shutil.which(name, path=PROGRAMS) for name in OPTIONAL.intersection(re.findall(r"\w+", command))
    )


def in_batches(commands: list[str]) -> list[list[str]]:
    ready = [command for command in commands if is_here(command)]
    return [ready[start : start + BATCH] for start in range(0, len(ready), BATCH)]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> ScratchTree:
    return ScratchTree(tmp_path_factory.mktemp("watched"))


def culprits(commands: list[str], factory: pytest.TempPathFactory) -> list[str]:
    """Those of the commands that change a fresh tree."""
    return [each for each in commands if ScratchTree(factory.mktemp("suspect")).changes([each])]


def test_the_corpus_is_judged_read_only_and_large() -> None:
    judged = {
        command: not_read_only(part.words, behind_xargs=False)
        for commands in CORPUS.values()
        for command in commands
        for part in map(with_braces_expanded, parse(command))
        if part.kind == "command"
    }
    assert {command: reason for command, reason in judged.items() if reason} == {}
    assert len(judged) > 150


@pytest.mark.parametrize("group", CORPUS)
def test_a_read_only_command_changes_nothing(
    group: str, tree: ScratchTree, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for commands in in_batches(CORPUS[group]):
        changes = tree.changes(commands)
        assert not changes, (changes, culprits(commands, tmp_path_factory))


@pytest.mark.needs("strace")
def test_no_read_only_command_opens_a_socket(tree: ScratchTree, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    tracing = ("strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=socket,connect", "-o", str(log))
    if subprocess.run([*tracing, "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace may not trace here")
    opened: list[str] = []
    for group, commands in CORPUS.items():
        # Options of git change nothing about where it looks, so a few of each subcommand will do.
        for some in in_batches(commands[::12] if group.startswith("git") else commands):
            tree.run(some, tracing)
            lines = log.read_text("utf-8", "replace").splitlines()
            opened.extend(f"{group}: {line}" for line in lines if is_socket(line))
    assert opened == []


def is_socket(line: str) -> bool:
    """Whether a traced call is about a socket; asking the machine's cache of user names is not ours."""
    return "(AF_" in line and "(AF_UNIX, SOCK_STREAM" not in line


@pytest.mark.parametrize(
    "command",
    [
        "touch a.py",
        "chmod 600 a.py",
        "sort -o stolen a.py",
        "uniq a.py stolen",
        "uniq ./c*",
        "find . -name b.txt -delete",
        f"rg --pre={PROGRAM} TODO .",
        "printf x > new",
        f"git -c core.fsmonitor={PROGRAM} status",
        "git describe --dirty",
        "git branch new",
        "git log -L -- --output=stolen",
        "git blame --since -- --output=stolen a.py",
        "git shortlog --author -- --output=stolen",
        "git log -S x --output=stolen",
    ],
)
def test_a_command_that_writes_is_seen_and_is_not_judged_read_only(command: str, tmp_path: Path) -> None:
    if not is_here(command):
        pytest.skip("its program is missing")
    (tmp_path / "fresh").mkdir()
    assert ScratchTree(tmp_path / "fresh").changes([command]) != {}
    (words,) = (part.words for part in parse(command) if part.kind == "command")
    assert ">" in command or not_read_only(words, behind_xargs=False) != ""


def spelled(table: OptionTable) -> list[str]:
    """Each option of a table, with a value where one can be glued on."""
    return [
        *(f"-{letter}" for letter in table.flags | table.valued | table.optional),
        *(f"-{letter}1" for letter in table.valued | table.optional),
        *(f"--{name}" for name in table.long | table.long_valued | table.long_optional | table.long_pairs),
        *(f"--{name}=1" for name in table.long_valued | table.long_optional),
    ]


@cache
def listed() -> dict[str, list[str]]:
    """What may follow each command, according to the tables."""
    git = [
        *(f"-{letter}" for letter in readonly_tables.GIT_CLUSTER),
        *(f"--{name}" for name in readonly_tables.GIT_LONG | readonly_tables.GIT_LONG_VALUED),
        *(f"--{name}=1" for name in readonly_tables.GIT_LONG_VALUED),
        *("-2", "-n", "-n2", "-U1", "-S", "-G", "-L", "-Sx", "-L1,2:a.py"),
    ]
    return {
        "find": sorted(readonly_tables.FIND_VALUED | readonly_tables.FIND_PLAIN),
        "rg": spelled(readonly_tables.RG),
        "sort": spelled(readonly_tables.SORT),
        "uniq": spelled(readonly_tables.UNIQ),
        "file": spelled(readonly_tables.FILE),
        "jq": [*spelled(readonly_tables.JQ), "."],
        "base64": spelled(readonly_tables.BASE64),
        "sed": ["-n", "3p", "1,$p"],
        "sed -n 1p": ["link"],
        "printf": ["%s", "x%d"],
        "test": sorted(readonly_tables.TEST_UNARY | readonly_tables.TEST_BINARY | {"!"}),
        "command": ["-v", "-V", "ls"],
        "git branch": spelled(readonly_tables.GIT_BRANCH),
        **{
            f"git {name}": ["-l", "--list", "-v", "list", "show"]
            for name in ("tag", "remote", "stash", "reflog")
        },
        **{f"git {name}": git for name in sorted(readonly_tables.GIT_READERS)},
    }


@st.composite
def mixtures(draw: st.DrawFn) -> str:
    command = draw(st.sampled_from([name for name in listed() if is_here(name)]))
    good, any_operand, bad = (st.sampled_from(each) for each in (listed()[command], OPERANDS, HOSTILE))
    words = draw(st.lists(st.one_of(good, good, any_operand, bad), max_size=5))
    return " ".join([command, *map(shlex.quote, words)])


@given(st.lists(mixtures(), min_size=20, max_size=40))
def test_whatever_mixture_is_judged_read_only_changes_nothing(
    tree: ScratchTree, tmp_path_factory: pytest.TempPathFactory, commands: list[str]
) -> None:
    reading = [command for command in commands if refusal(command) == ""]
    changes = tree.changes(reading)
    assert not changes, (changes, culprits(reading, tmp_path_factory))
