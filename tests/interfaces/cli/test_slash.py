"""Commands behind a slash: read, completed and documented."""

from pathlib import Path

import pytest

from gencode.core.errors import UserMistake
from gencode.interfaces.chat.slash_commands import (
    COMMANDS,
    KEYS,
    ParsedCommand,
    help_text,
    is_command,
    keys_text,
    matching_commands,
    parse_command,
)

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "terminal.md"


@pytest.mark.parametrize("text", ["/help", "/stop 9f3a", "/Mode plan"])
def test_a_slash_and_a_name_are_a_command(text: str) -> None:
    assert is_command(text)


@pytest.mark.parametrize("text", ["", "/", "help", "/usr/bin is full", "/a\nb", " /help"])
def test_a_path_or_a_text_is_none(text: str) -> None:
    assert not is_command(text)


def test_a_command_has_a_name_and_a_rest() -> None:
    typed = parse_command("/steer 9f3a leave  the tests")
    assert typed == ParsedCommand("steer", "9f3a leave  the tests")
    assert typed.first() == ("9f3a", "leave  the tests")


def test_another_name_means_the_same() -> None:
    assert [parse_command(text).name for text in ("/bg", "/EXIT", "/status 1")] == [
        "background",
        "quit",
        "task-status",
    ]


def test_an_unknown_command_offers_the_nearest() -> None:
    with pytest.raises(UserMistake, match=r"Unknown command /stpo\. Did you mean /stop"):
        parse_command("/stpo")


def test_quotes_keep_words_together_and_open_ones_are_a_mistake() -> None:
    assert parse_command('/agents new tester "Runs the tests"').words() == ["new", "tester", "Runs the tests"]
    with pytest.raises(UserMistake, match="/agents"):
        parse_command('/agents new "tester').words()


def test_a_beginning_is_completed() -> None:
    assert [each.name for each in matching_commands("/sto")] == ["stop", "stop-tree"]
    assert [each.name for each in matching_commands("/stat")] == ["task-status"]
    assert matching_commands("/stop ") == []
    assert matching_commands("stop") == []


def test_a_name_that_is_whole_comes_before_longer_ones() -> None:
    assert [matching_commands(f"/{each.name}")[0].name for each in COMMANDS] == [
        each.name for each in COMMANDS
    ]


def test_every_command_and_key_is_in_the_help_and_in_the_documents() -> None:
    text = PAGE.read_text("utf-8")
    assert [each.usage for each in COMMANDS if each.usage not in help_text()] == []
    assert [each.name for each in COMMANDS if f"`/{each.name}" not in text] == []
    assert [each.key for each in KEYS if each.key not in keys_text()] == []
