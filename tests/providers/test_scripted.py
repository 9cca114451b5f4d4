"""The scripted model."""

import json
from pathlib import Path

import pytest

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError, UserMistake
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from gencode.providers.scripted import ScriptedProvider

SCRIPT = {
    "main": [{"text": "I look.", "calls": [{"name": "Read", "input": {"file_path": "a"}}]}, {"text": "done"}],
    "*": [{"text": "other"}],
}


async def play(provider: ScriptedProvider, agent: str, *messages: Message) -> list[Part]:
    return [part async for part in provider.stream(Request("scripted", "", messages, (), agent))]


async def test_a_turn_is_streamed_with_its_calls() -> None:
    assert await play(ScriptedProvider.of(SCRIPT), "main", UserMessage("go")) == [
        TextPart("I "),
        TextPart("look."),
        CallPart(ToolCall("call_0_0", "Read", {"file_path": "a"})),
        EndPart("scripted", "tool_use"),
    ]


async def test_the_place_in_the_list_is_the_number_of_replies() -> None:
    played = (UserMessage("go"), AssistantMessage("I look."), ToolMessage(()))
    assert (await play(ScriptedProvider.of(SCRIPT), "Main", *played))[0] == TextPart("done")


async def test_agents_without_a_list_play_the_star() -> None:
    assert (await play(ScriptedProvider.of(SCRIPT), "Explore", UserMessage("go")))[0] == TextPart("other")


async def test_past_the_end_is_an_error_that_says_so() -> None:
    with pytest.raises(ProviderError, match=r"only 1 turn for the agent 'Explore'; all are played"):
        await play(ScriptedProvider.of(SCRIPT), "Explore", UserMessage("go"), AssistantMessage("other"))


async def test_a_new_word_of_the_user_starts_a_used_up_list_again() -> None:
    again = (UserMessage("go"), AssistantMessage("other"), UserMessage("more"))
    assert (await play(ScriptedProvider.of(SCRIPT), "Explore", *again))[0] == TextPart("other")


async def test_an_agent_without_any_list_is_an_error() -> None:
    with pytest.raises(ProviderError, match="no turns for the agent 'Plan'"):
        await play(ScriptedProvider.of({"main": []}), "Plan", UserMessage("go"))


async def test_a_scripted_error_comes_after_its_text_and_says_whether_waiting_helps() -> None:
    provider = ScriptedProvider.of({"*": [{"text": "half", "error": "rate_limit"}]})
    heard: list[Part] = []
    with pytest.raises(ProviderError, match="rate_limit") as error:
        async for part in provider.stream(Request("scripted", "", (UserMessage("go"),), (), "main")):
            heard.append(part)
    assert heard == [TextPart("half")]
    assert error.value.retryable


async def test_a_script_is_read_from_a_file_with_usage(tmp_path: Path) -> None:
    file = tmp_path / "play.json"
    file.write_text(json.dumps({"agents": {"*": [{"text": "hi", "usage": {"inputTokens": 3}}]}}))
    parts = await play(ScriptedProvider.load(str(file)), "x", UserMessage("go"))
    assert parts[-1] == EndPart(f"scripted:{file}", "end_turn", Usage(input_tokens=3))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"agents": {"main": [{"txt": "typo"}]}}',
        '{"agents": {"main": [{"usage": {"input_tokens": 3}}]}}',
        '{"agents": 3}',
    ],
)
def test_a_file_that_is_no_script_is_the_users_mistake(tmp_path: Path, content: str) -> None:
    file = tmp_path / "play.json"
    file.write_text(content)
    with pytest.raises(UserMistake, match="is not in the form of a script"):
        ScriptedProvider.load(str(file))


def test_a_file_that_is_missing_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="cannot be read: No such file"):
        ScriptedProvider.load(str(tmp_path / "none.json"))
