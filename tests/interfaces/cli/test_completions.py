"""What Tab offers: in the parser's own words, and in real shells."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.interfaces.cli.completions import SCRIPTS, Completions, complete, completions_for, split_line
from gencode.interfaces.cli.parser import COMMANDS, build_parser, parse
from tests.house.command_line import commands, options
from tests.interfaces.cli.running import gen, script

SECONDS = 120
FOUND = {
    "agents": [("Explore", "Finds files."), ("UI Designer", "Draws."), ("bad\nname", "")],
    "servers": [("git", "settings.toml")],
    "tasks": [("9f3a1c2e", "running: Explore: look"), ("9f00aaaa", "completed: Plan: plan")],
    "sessions": [("1c2e9f3a", "completed: main: hello")],
}
PARSER = build_parser()
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def offered(*words: str) -> Completions:
    return completions_for(PARSER, words, lambda kind, _: FOUND[kind])


def names(*words: str) -> list[str]:
    return [word for word, _ in offered(*words).words]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ta",), ["task"]),
        (("task", "re"), ["resume", "replay"]),
        (("--permission-mode", "a"), ["acceptEdits"]),
        (("--permission-mode=a",), ["--permission-mode=acceptEdits"]),
        (("-p", "why?", "--output-format", "s"), ["stream-json"]),
        (("task", "run", "e"), ["Explore"]),
        (("task", "run", ""), ["Explore", "UI Designer"]),
        (("task", "run", "Explore", "go", "--isolation", "p"), ["process"]),
        (("--agent", "UI"), ["UI Designer"]),
        (("agents", "show", "Ex"), ["Explore"]),
        (("trust", "--server", ""), ["git"]),
        (("task", "show", "9f3"), ["9f3a1c2e"]),
        (("task", "stop", "--tree", "9f"), ["9f3a1c2e", "9f00aaaa"]),
        (("--resume", ""), ["1c2e9f3a"]),
        (("sessions", "delete", "1c2e9f3a", "1"), ["1c2e9f3a"]),
        (("cron", "remove", ""), []),
        (("--allow", "Web"), ["WebFetch", "WebSearch"]),
        (("--allowedTools", "Read", "Ed"), ["Edit"]),
        (("completions", ""), ["bash", "zsh", "fish"]),
        (("zonk", ""), []),
        (("task", "show", "9f3a1c2e", "--", "-"), []),
        (("--max-turns", ""), []),
    ],
)
def test_what_may_follow_is_offered(words: tuple[str, ...], expected: list[str]) -> None:
    assert names(*words) == expected


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("--cwd", "sr"), "dirs"),
        (("task", "import", ""), "files"),
        (("task", "run", "Explore", "go", "--output-schema", ""), "files"),
        (("--cwd=sr",), "dirs"),
        (("--model", "scr"), "open"),
        (("--model", "fa"), "words"),
    ],
)
def test_files_folders_and_unfinished_words_are_left_to_the_shell(words: tuple[str, ...], kind: str) -> None:
    assert offered(*words).kind == kind


def test_every_command_and_every_option_is_offered() -> None:
    for name, parser in commands(PARSER):
        path = name.split()[1:]
        shown = {option for option in options(parser) if option.startswith("--")} | {"--help"}
        assert set(names(*path, "--")) == shown, name
        below = [
            each.split()[-1] for each, _ in commands(parser, name) if each.count(" ") == name.count(" ") + 1
        ]
        if below:
            assert names(*path, "") == below


def test_commands_and_options_come_with_a_word_about_them() -> None:
    assert offered("doc").words == (("doctor", COMMANDS["doctor"]),)
    ((option, says),) = offered("task", "list", "--tr").words
    assert option == "--tree" and says


@given(
    st.lists(
        st.sampled_from(["task", "run", "--cwd", "-p", "--", "--model=", "-", "="]) | st.text(max_size=8)
    )
)
def test_nothing_that_is_typed_is_too_odd(words: list[str]) -> None:
    assert all(word.isprintable() for word, _ in offered(*words).words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gen ta", ["gen", "ta"]),
        ("gen task ", ["gen", "task", ""]),
        ("gen -p 'why is", ["gen", "-p", "why is"]),
        ("gen -p \"it's ", ["gen", "-p", "it's "]),
        ("gen task run UI\\ De", ["gen", "task", "run", "UI De"]),
        ("", [""]),
        ("gen \\", ["gen", ""]),
        ("gen UI\\\\", ["gen", "UI\\"]),
    ],
)
def test_a_line_of_bash_is_words(line: str, words: list[str]) -> None:
    assert split_line(line) == words


def test_a_script_is_printed_and_is_json_when_that_is_wanted(tmp_path: Path) -> None:
    for shell, text in SCRIPTS.items():
        assert gen("completions", shell, cwd=tmp_path).out == text
    assert gen("completions", "bash", "--json", cwd=tmp_path).json == {
        "shell": "bash",
        "script": SCRIPTS["bash"],
    }
    assert gen("completions", "tcsh", cwd=tmp_path).code == 2


def test_tasks_of_the_folder_are_offered_and_no_journal_is_made_for_it(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    complete(["words", "task", "show", ""])
    assert (capsys.readouterr().out, (home / ".gen").exists()) == ("words\n", False)
    model = script(tmp_path, others=[{"text": "Done."}])
    ended = gen("task", "run", "Explore", "look", "--model", model, "--json", cwd=tmp_path)
    complete(["words", "task", "show", ""])
    assert capsys.readouterr().out == f"words\n{ended.json['agentId']}\tcompleted: Explore: look\n"
    complete(["bash", "Ex", "gen task run --cwd . Ex"])
    assert capsys.readouterr().out.startswith("words\nExplore\tFinds files")


@pytest.mark.needs("bash")
def test_bash_completes(tmp_path: Path) -> None:
    (tmp_path / "a file.jsonl").touch()
    lines = """
        source <(gen completions bash)
        try() { COMP_LINE=$1 COMP_POINT=${#1}; _gen gen "$2" ""; printf '%s|' "${COMPREPLY[@]}"; echo; }
        try "gen task ru" ru
        try "gen -p hi --permission-mode=pl" pl
        try "gen task import a" a
        try "gen task run general" general
    """
    ended = subprocess.run(
        ["bash", "--norc", "-c", lines],
        cwd=tmp_path,
        env={**os.environ, "PATH": PATH},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.stdout.splitlines() == ["run|", "plan|", "a file.jsonl|", "general-purpose|"], ended.stderr


@pytest.mark.needs("fish")
def test_fish_completes(tmp_path: Path) -> None:
    lines = "gen completions fish | source; complete -C 'gen task ru'; complete -C 'gen --permission-mode pl'"
    ended = subprocess.run(
        ["fish", "--no-config", "-c", lines],
        cwd=tmp_path,
        env={**os.environ, "PATH": PATH},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    first, *rest = ended.stdout.splitlines()
    assert first.startswith("run\t") and rest == ["plan"], ended.stderr


@pytest.mark.needs("bash")
def test_tab_completes_in_a_bash_that_somebody_types_in(tmp_path: Path) -> None:
    shown = typed_in(
        ["bash", "--norc", "--noprofile", "-i"],
        ("source <(gen completions bash); PS1='ready> '\n", "ready> "),
        tmp_path,
    )
    assert "gen completions zsh " in shown


@pytest.mark.needs("zsh")
def test_tab_completes_in_a_zsh_that_somebody_types_in(tmp_path: Path) -> None:
    begin = "autoload -Uz compinit && compinit -u -D; source <(gen completions zsh); PS1='rea''dy> '\n"
    shown = typed_in(["zsh", "-f", "-i"], (begin, "ready> "), tmp_path)
    assert "gen completions zsh " in shown


def typed_in(shell: Sequence[str], begin: tuple[str, str], folder: Path) -> str:
    """What a shell in a pseudo-terminal shows when `gen compl⇥zs⇥` is typed there."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        shell,
        cwd=folder,
        env={**os.environ, "PATH": PATH, "TERM": "dumb", "HOME": str(folder), "PS1": "$ "},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    shown = ""
    try:
        os.write(leader, begin[0].encode())
        for cue, keys in (
            (begin[1], "gen compl\t"),
            ("gen completions ", "zs\t"),
            ("zsh ", "\x15exit\n"),
        ):
            shown += until(leader, cue)
            os.write(leader, keys.encode())
        return re.sub(r".\x08", "", shown)  # zsh takes a space back to put in what follows
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def until(leader: int, cue: str) -> str:
    """Everything that is shown up to a cue."""
    shown = ""
    end = time.monotonic() + SECONDS
    while cue not in shown and time.monotonic() < end:
        ready, _, _ = select.select([leader], [], [], 1)
        shown += os.read(leader, 4096).decode(errors="replace") if ready else ""
    return shown


def test_the_help_of_every_command_is_grouped_and_has_examples_that_can_be_typed() -> None:
    for name, parser in commands(PARSER):
        text = parser.format_help()
        assert text.startswith(f"usage: {name}"), name
        assert "\nexamples:\n" in text, name
        for line in text.partition("\nexamples:\n")[2].split("\n\n")[0].splitlines():
            typed = line.strip().partition(" | gzip")[0].removeprefix("git diff | ")
            if typed.startswith("gen") and ">" not in typed:
                parse(split_line(typed)[1:])
