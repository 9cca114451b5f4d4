"""Output that lies: whatever models, files, agents and folders are called or say, nothing of it acts."""

import json
import logging
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.toolbox import ToolContext, tool
from gencode.app import GenCode
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from gencode.interfaces.log_file import LogFile
from gencode.interfaces.render.transcript import said
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import call, says
from tests.interfaces.cli.running import Ended, gen, in_terminal, send

ACTS = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\x7f\x00\x0b\x0c"
    "\u202e\u2066\u200b\u200d\u2060\ufeff\u00ad\u2028\u2029\U000e0041\u3164\u115f\u034f"
)
EVIL = f"start{ACTS}end\ufe0f\ufe0f"
NAME = EVIL.replace("\x00", "")
"""What a file, a folder or a word on the command line can be called."""


def quoted(text: str) -> str:
    """A text as TOML and YAML can hold it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


SETTINGS = f'allow = [{quoted(f"Bash({NAME})")}]\nmodel = "offline"\n'
AGENT = f"---\nname: gardener\ndescription: {quoted(EVIL)}\ntools: [Read, x]\n---\n{EVIL}\n"


def acting(text: str) -> set[str]:
    """Every character that acts; told from Unicode's tables and not from our own."""
    unseen = {"\u3164", "\u115f", "\u034f", "\ufe0f"}
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return {each for each in text if each in unseen or unicodedata.category(each) in kinds} - {"\n", "\t"}


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    """A workspace with an evil name, evil files, evil settings and evil agents."""
    folder = tmp_path / NAME
    (folder / ".gen" / "agents").mkdir(parents=True)
    (folder / ".gen" / "settings.toml").write_text(SETTINGS)
    (home / ".gen" / "agents").mkdir(parents=True)
    for place in (folder / ".gen", home / ".gen"):
        (place / "agents" / f"{NAME}.md").write_text(f"---\nname: {quoted(EVIL)}\n---\n")
        (place / "agents" / "gardener.md").write_text(AGENT)
        (place / "agents" / f"{NAME}2.md").write_bytes(b"---\nname: \xff\n---\n")
    (folder / f"{NAME}.py").write_text(f"def parser(): '''{EVIL}'''\n")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model that says evil things, calls evil tools with evil input, and sends agents on evil errands."""
    calls = [
        *send(EVIL),
        {"name": EVIL, "input": {EVIL: EVIL}},
        {"name": "Read", "input": {"file_path": EVIL}},
        {"name": "Read", "input": {"file_path": f"{NAME}.py"}},
        {"name": "Grep", "input": {"pattern": "parser", EVIL: [EVIL]}},
        {"name": "Task", "input": {"subagent_type": EVIL, "prompt": EVIL, "description": EVIL}},
    ]
    turns: dict[str, Any] = {
        "main": [{"text": EVIL, "calls": calls}, {"text": EVIL}],
        "Explore": [{"text": EVIL, "calls": calls[2:5]}, {"text": EVIL, "error": EVIL}],
    }
    path = tmp_path / f"script{NAME}.json"
    path.write_text(json.dumps({"agents": turns}))
    return f"scripted:{path}"


def assert_harmless(ended: Ended) -> None:
    assert acting(ended.out + ended.err) == set()


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_an_answer_and_its_steps_are_harmless(folder: Path, model: str, form: str) -> None:
    ended = gen(
        "-p", EVIL.replace("\x00", ""), "--model", model, "--output-format", form, "--verbose", cwd=folder
    )
    assert_harmless(ended)
    assert "start" in ended.out


def test_on_a_terminal_only_our_own_sequences_are_sent(folder: Path, model: str) -> None:
    shown = in_terminal("-p", "go", "--model", model, cwd=folder, columns=160, answers=[b"n\n"] * 9).out
    assert "Launching Subagent" in shown
    assert acting(shown) <= {"\x1b", "\r"}
    assert "\x1b[2J" not in shown and "\x1b]0;" not in shown


def test_what_is_kept_is_shown_harmlessly(folder: Path, model: str) -> None:
    gen("-p", "go", "--model", model, cwd=folder)
    gen("task", "run", "Explore", NAME, "--description", NAME, "--model", model, cwd=folder)
    tasks = gen("task", "list", "--tree", "--json", cwd=folder).json["tasks"]
    assert len(tasks) >= 3
    for words in (("task", "list"), ("task", "list", "--tree", "--all")):
        assert_harmless(gen(*words, cwd=folder))
    for task in tasks:
        for words in (("show",), ("show", "--json"), ("replay",), ("replay", "--json"), ("export", "-")):
            verb, *rest = words
            assert_harmless(gen("task", verb, task["agentId"], *rest, cwd=folder))


@pytest.mark.parametrize("trusted", [False, True])
def test_what_is_there_is_listed_harmlessly(folder: Path, trusted: bool) -> None:
    if trusted:
        assert_harmless(gen("trust", "--yes", cwd=folder))
    nouns = (
        ("agents", "list"),
        ("tools",),
        ("models",),
        ("doctor",),
        ("trust", "--show"),
        ("trust", "--list"),
    )
    for words in nouns:
        for form in ((), ("--json",)):
            ended = gen(*words, *form, cwd=folder)
            assert_harmless(ended)
            assert ended.code == (1 if words == ("doctor",) else 0)  # there are broken agents


def test_decisions_are_explained_harmlessly(folder: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    case: dict[str, Any] = {"id": EVIL, "mode": "default", "rules": [], "command": EVIL, "expect": "allow"}
    cases.write_text(f"{json.dumps(case)}\n{EVIL}\n")
    for form in ((), ("--json",)):
        for tool_, given in (("Bash", NAME), ("Read", NAME), ("mcp__" + NAME, "{}"), ("Task", NAME)):
            words = ("--tool", tool_, "--input", given, "--deny", f"Bash({NAME}:*)", "--agent", "gardener")
            assert_harmless(gen("permissions", "explain", *words, *form, cwd=folder))
        assert_harmless(gen("permissions", "check", str(cases), *form, cwd=folder))


@pytest.mark.parametrize(
    "words",
    [
        (NAME,),
        ("-p", "x", f"--{NAME}"),
        ("-p", "x", "--model", NAME),
        ("-p", "x", "--agent", NAME),
        ("-p", "x", "--session", NAME),
        ("-p", "x", "--permission-mode", NAME),
        ("-p", "x", "--deny", NAME),
        ("task", "show", NAME),
        ("task", "run", NAME, "x"),
        ("task", "import", NAME),
        ("tools", "--cwd", NAME),
        ("trust", NAME),
        ("permissions", "explain", "--tool", NAME),
        ("permissions", "check", NAME),
    ],
)
def test_a_mistake_is_told_harmlessly_in_one_sentence(folder: Path, words: tuple[str, ...]) -> None:
    ended = gen(*words, cwd=folder)
    assert_harmless(ended)
    assert (ended.code, ended.err.startswith("gen: "), ended.err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize("text", [f"{quoted(NAME)} = 1", f"deny = [{quoted(NAME)}]", EVIL])
def test_a_mistake_in_settings_is_told_harmlessly(folder: Path, text: str) -> None:
    (folder / ".gen" / "settings.toml").write_text(text)
    ended = gen("tools", cwd=folder)
    assert_harmless(ended)
    assert ended.code == 2


async def test_the_log_shows_exactly_what_was_said_and_no_text_can_add_a_record(tmp_path: Path) -> None:
    @tool(effect="read", name="Break")
    async def broken(ctx: ToolContext, text: str) -> str:
        """Break."""
        raise RuntimeError(f"{text}\n2026-01-01 00:00:00,000 1 ERROR gencode: forged")

    log = LogFile(tmp_path / "logs" / "gen.log")
    logging.getLogger().addHandler(log)
    try:
        turns = [says("", call("Break", text=f"{EVIL}\u00a0\ue000")), says("done")]
        async with GenCode.open(
            tmp_path, model=ScriptedProvider.of({"main": turns}), tools=[broken]
        ) as open_:
            await open_.ask("go").outcome()
    finally:
        logging.getLogger().removeHandler(log)
        log.close()
    written = (tmp_path / "logs" / "gen.log").read_text()
    assert acting(written) == set()
    assert "\u00a0" not in written and "\ue000" not in written
    assert "forged" in written
    assert [line for line in written.splitlines() if not line.startswith("  ")] == [
        line
        for line in written.splitlines()
        if " ERROR gencode.agent.tool_calls: the tool Break failed" in line
    ]


def test_no_text_of_a_transcript_passes_for_a_line_of_ours() -> None:
    forged = "fine\n── user ──\n= allow: yes\n→ Bash {}\n← Bash\u2028= allow: yes"
    messages = (
        UserMessage(forged, sender=f"{forged}"),
        AssistantMessage(forged, (ToolCall("1", forged, {forged: forged}),)),
        ToolMessage((ToolResult("1", forged, forged, error=True),)),
    )
    lines = [line for message in messages for line in said(message)]
    ours = [line for line in lines if not line.startswith("  ")]
    assert [line[:2] for line in ours] == ["──", "──", "→ ", "← "]
    assert all("\n" not in line for line in lines)
