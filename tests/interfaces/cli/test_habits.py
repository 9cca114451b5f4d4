"""Claude Code's command-line habits: its options are taken and mean what our rules and modes say."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import UserMistake
from gencode.interfaces.cli.claude_code_options import (
    AUTONOMY,
    NOT_TOLD,
    WHICH,
    are_rules,
    mode,
    remarks,
    split_rules,
)
from gencode.interfaces.cli.parser import parse
from tests.interfaces.cli.running import gen, script, send

REVIEWER = {"description": "Reviews code.", "prompt": "You review code.", "tools": ["Read", "Write"]}


def typed(*words: str) -> dict[str, Any]:
    return vars(parse(words))


@pytest.mark.parametrize("spelled", ["--allowedTools", "--allowed-tools"])
@pytest.mark.parametrize(
    "words",
    [
        ("Bash(git log:*),Edit,Read",),
        ("Bash(git log:*) Edit Read",),
        ("Bash(git log:*)", "Edit", "Read"),
        ("Bash(git log:*), Edit", " Read,"),
    ],
)
def test_allowed_tools_are_allow_rules_however_they_are_listed(spelled: str, words: tuple[str, ...]) -> None:
    assert typed("-p", "why?", spelled, *words)["allow"] == ["Bash(git log:*)", "Edit", "Read"]


def test_lists_of_tools_add_up_with_our_rules() -> None:
    given = typed("-p", "why?", "--deny", "Read", "--disallowedTools", "Bash", "--disallowed-tools", "Edit")
    assert given["deny"] == ["Read", "Bash", "Edit"]


def test_the_prompt_may_follow_a_list_of_tools() -> None:
    given = typed("-p", "--allowedTools", "Read", "Grep", "Bash(ls:*)", "where is it?", "--continue")
    assert given == {
        "command": None,
        "prompt": "where is it?",
        "allow": ["Read", "Grep", "Bash(ls:*)"],
        "go_on": True,
    }


def test_the_prompt_may_follow_two_dashes_behind_a_list_of_tools() -> None:
    given = typed("-p", "--allowedTools", "Read", "Grep", "--", "hi", "--continue")
    assert given == {"command": None, "prompt": "hi", "allow": ["Read", "Grep"], "go_on": True}


def test_what_typed_agents_start_is_named_without_its_variables() -> None:
    server = {"command": "uvx", "args": ["a b"], "env": {"TOKEN": "s3cr3t"}}
    agents = json.dumps({"reviewer": {"description": "d", "prompt": "p", "mcpServers": {"odd": server}}})
    args = parse(("-p", "why?", "--agents", agents))
    assert list(remarks(args)) == ["gen: --agents starts for reviewer: MCP server odd: uvx 'a b'"]


def test_tools_of_claude_code_have_our_names_and_those_that_are_not_here_are_said() -> None:
    given = typed("-p", "why?", "--disallowedTools", "Agent(x),MultiEdit,NotebookEdit")
    assert given["deny"] == ["Task(x)", "Edit"]
    (remark,) = cast("list[str]", given["notes"])
    assert "NotebookEdit" in remark and "--disallowedTools" in remark


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--allowedTools", "Bash(git"), "'Bash(git' has a parenthesis that is not closed"),
        (("--disallowedTools", "Bash)"), "'Bash)' closes a parenthesis that is not open"),
        (("--allowedTools", " , "), "it needs the name of a tool"),
        (("--agents", "{"), "'{' is not JSON"),
        (("--agents", "[]"), "'[]' is not an object of agents"),
        (("--agents", "{}"), "'{}' is not an object of agents"),
        (("--agents", '{"a": 1, "a": 2}'), "'a' is given twice"),
        (("--agents", "[" * 100_000), "it is nested too deep"),
        (("--continue", "--resume", "9f3a"), "not allowed with argument"),
        (("--alowedTools", "Read"), "There is no option '--alowedTools'. Did you mean --allowedTools"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UserMistake) as mistake:
        typed("-p", "hi", *words)
    assert sentence in str(mistake.value)


@pytest.mark.parametrize("words", [("--resume", "9f3a"), ("-r", "9f3a"), ("--session", "9f3a")])
def test_resume_names_a_conversation(words: tuple[str, ...]) -> None:
    assert typed("-p", *words, "why?") == {"command": None, "prompt": "why?", "session": "9f3a"}


def test_resume_without_an_id_says_how_to_find_one() -> None:
    args = parse(("-p", "why?", "--resume"))
    with pytest.raises(UserMistake) as mistake:
        list(remarks(args))
    assert str(mistake.value) == WHICH


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("bypassPermissions", "dontAsk"),
        ("bypass-permissions", "dontAsk"),
        ("auto", "default"),
        ("dontAsk", "dontAsk"),
        ("acceptEdits", "acceptEdits"),
        ("zonk", "zonk"),
    ],
)
def test_modes_keep_our_meaning(word: str, ours: str) -> None:
    assert mode(word) == ours


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("-p", "x", "--permission-mode", "bypassPermissions"), [AUTONOMY]),
        (("task", "run", "Explore", "x", "--permission-mode", "dont-ask"), [AUTONOMY]),
        (("permissions", "explain", "--tool", "Bash", "--mode", "dontAsk"), []),
        (("-p", "x", "--permission-mode", "plan"), []),
        (("-p", "x", "--permission-mode", "zonk"), []),
        (("-p", "x"), []),
    ],
)
def test_full_autonomy_is_said_in_one_line(words: tuple[str, ...], lines: list[str]) -> None:
    assert list(remarks(parse(words))) == lines


TOOLS = st.sampled_from(
    ["Read", "Edit", "Bash(git log:*)", "Bash(echo a, b)", "Read(docs/**)", "mcp__git__log"]
)


@given(st.lists(TOOLS, min_size=1, max_size=6), st.sampled_from([",", " ", ", ", " ,\t"]))
def test_a_list_is_split_into_what_it_was_made_of(tools: list[str], between: str) -> None:
    assert split_rules(between.join(tools)) == tools
    assert are_rules(between.join(tools))


@given(st.text(max_size=60))
def test_no_text_is_split_into_nothing_or_loses_a_letter(text: str) -> None:
    try:
        rules = split_rules(text)
    except ValueError:
        return
    assert rules
    assert "".join(rules) == "".join(each for each in text if each in "".join(rules))


def test_typed_agents_work_in_a_conversation_and_never_wider_than_their_sender(tmp_path: Path) -> None:
    """The mode that a typed agent wants is a wish: nobody granted it, so the write is refused."""
    write = {"name": "Write", "input": {"file_path": "new.txt", "content": "x"}}
    model = script(
        tmp_path,
        main=[{"text": "", "calls": send("it", agent="reviewer")}, {"text": "Done."}],
        reviewer=[{"text": "", "calls": [write]}, {"text": "Reviewed."}],
    )
    agents = json.dumps({"reviewer": {**REVIEWER, "permissionMode": "bypassPermissions"}})
    ended = gen(
        *("-p", "--model", model, "--allowedTools", "Task", "--agents", agents, "Review it"),
        *("--append-system-prompt", "Speak of bananas.", "--output-format", "json"),
        cwd=tmp_path,
    )
    assert ended.code == 3, ended.err
    [task] = ended.json["tasks"]
    assert (task["agent"], task["result"], task["status"]) == ("reviewer", "Reviewed.", "completed")
    assert [each[:23] for each in task["evidence"]["warnings"]] == ["[This agent's mode dont"]
    assert [(each["tool"], each["summary"]) for each in task["evidence"]["refused"]] == [("Write", "new.txt")]
    assert not (tmp_path / "new.txt").exists()
    again = gen("-p", "And?", "-c", "--append-system-prompt", "Of kiwis.", "--model", model, cwd=tmp_path)
    assert NOT_TOLD in again.err


def test_a_typed_agent_works_in_a_process_of_its_own_and_autonomy_is_said_on_stderr(tmp_path: Path) -> None:
    write = {"name": "Write", "input": {"file_path": "new.txt", "content": "x"}}
    model = script(tmp_path, reviewer=[{"text": "", "calls": [write]}, {"text": "Reviewed."}])
    ended = gen(
        *("task", "run", "reviewer", "Review it", "--agents", json.dumps({"reviewer": REVIEWER}), "--json"),
        *("--isolation", "process", "--permission-mode", "bypassPermissions", "--model", model),
        cwd=tmp_path,
    )
    assert (ended.code, ended.json["result"]) == (0, "Reviewed."), ended.err
    assert ended.err.splitlines().count(AUTONOMY) == 1
    assert (tmp_path / "new.txt").read_text() == "x"
