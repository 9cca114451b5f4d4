"""Pictures of tools and of people, as each of OpenAI's APIs can be shown them."""

from typing import Any

from gencode.core.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gencode.runtime.ports import Request
from tests.providers.dialects import seen

PNG, JPEG = Image("image/png", "aGVsbG8="), Image("image/jpeg", "d29ybGQ=")
HISTORY: list[Message] = [
    UserMessage("Go."),
    AssistantMessage("", tuple(ToolCall(each, "Read", {}) for each in ("c1", "c2", "c3"))),
    ToolMessage(
        (
            ToolResult("c1", "Read", "two pictures", images=(PNG, JPEG)),
            ToolResult("c2", "Read", "no picture"),
            ToolResult("c3", "Read", "", images=(PNG,)),
        )
    ),
    AssistantMessage("I see."),
    UserMessage("And?"),
]


async def sent(dialect: str) -> list[dict[str, Any]]:
    body = await seen(dialect, Request("m", "", HISTORY, ()))
    return body["messages" if dialect == "chat" else "input"]


def chat_picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


async def test_chat_is_shown_them_after_all_results_with_the_call_they_belong_to() -> None:
    """A tool's message may hold text only, and all results must follow their calls at once."""
    assert (await sent("chat"))[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "two pictures"},
        {"role": "tool", "tool_call_id": "c2", "content": "no picture"},
        {"role": "tool", "tool_call_id": "c3", "content": "(no output)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Shown by Read, call c1:"},
                chat_picture("data:image/png;base64,aGVsbG8="),
                chat_picture("data:image/jpeg;base64,d29ybGQ="),
                {"type": "text", "text": "Shown by Read, call c3:"},
                chat_picture("data:image/png;base64,aGVsbG8="),
            ],
        },
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": "And?"},
    ]


async def test_responses_are_shown_them_inside_the_result() -> None:
    png = {"type": "input_image", "image_url": "data:image/png;base64,aGVsbG8="}
    jpeg = {"type": "input_image", "image_url": "data:image/jpeg;base64,d29ybGQ="}
    assert [each["output"] for each in (await sent("responses")) if "output" in each] == [
        [{"type": "input_text", "text": "two pictures"}, png, jpeg],
        "no picture",
        [{"type": "input_text", "text": "(no output)"}, png],
    ]


SHOWS = [UserMessage("Look."), UserMessage("Here.", images=(PNG, JPEG))]


async def test_what_a_person_shows_goes_with_the_words_in_each_dialect() -> None:
    """One message of two, since both come from the same side."""
    urls = ("data:image/png;base64,aGVsbG8=", "data:image/jpeg;base64,d29ybGQ=")
    bodies = {each: await seen(each, Request("m", "", SHOWS, ())) for each in ("chat", "responses")}
    assert bodies["chat"]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Look.\n\nHere."}, *map(chat_picture, urls)]}
    ]
    shown = [{"type": "input_image", "image_url": url} for url in urls]
    assert bodies["responses"]["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "Look.\n\nHere."}, *shown]}
    ]
