"""Which pictures go with a request: the latest, as many as vendors take, and none to a model without eyes."""

from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode import GenCode
from gencode.agent.request_images import as_shown
from gencode.core.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolMessage,
    ToolResult,
    UserMessage,
    pictures_in,
)
from gencode.core.task import transcript_of
from gencode.files.images import MOST_PICTURES, MOST_TOGETHER
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, says

SEES = "openai/gpt"
WEIGHT = MOST_TOGETHER // 3


FILLINGS = {size: "A" * size for size in (4, WEIGHT // 9, WEIGHT)}


def shown(number: int, weight: int = 4) -> Image:
    return Image(f"image/{number}", FILLINGS[weight])


HISTORY: list[Message] = [
    UserMessage("look", images=(shown(1), shown(2))),
    AssistantMessage("I see."),
    ToolMessage((ToolResult("a", "paint", "", images=(shown(3),)), ToolResult("b", "Read", "text"))),
    AssistantMessage("And that."),
    UserMessage("go on"),
]


def test_a_transcript_without_pictures_is_told_as_it_is() -> None:
    plain = HISTORY[-2:]
    assert as_shown(plain, SEES) is plain


def test_a_few_pictures_are_all_shown() -> None:
    assert as_shown(HISTORY, SEES) == HISTORY


@pytest.mark.parametrize("model", ["offline-search", "deepseek/deepseek-chat", "local/tiny"])
def test_a_model_that_takes_text_only_is_told_that_there_were_pictures(model: str) -> None:
    why = "left out here: this model takes text only]"
    assert as_shown(HISTORY, model) == [
        UserMessage(f"look\n[2 images {why}"),
        HISTORY[1],
        ToolMessage((ToolResult("a", "paint", f"[1 image {why}"), ToolResult("b", "Read", "text"))),
        *HISTORY[3:],
    ]


def test_those_before_the_latest_are_named_only() -> None:
    many = [UserMessage(f"{number}", images=(shown(number), shown(number))) for number in range(11)]
    many[0] = UserMessage("0", images=(shown(0), shown(0), shown(0)))
    why = "left out here: only the latest are shown]"
    assert as_shown(many, SEES) == [UserMessage(f"0\n[3 images {why}"), *many[1:]]


def test_a_message_may_keep_the_later_part_of_its_pictures() -> None:
    three = UserMessage("", images=tuple(shown(number, WEIGHT) for number in range(3)))
    (reduced, last) = as_shown([three, UserMessage("", images=(shown(9),))], SEES)
    note = "[1 image left out here: only the latest are shown]"
    assert reduced == UserMessage(note, images=three.images[1:])
    assert last == UserMessage("", images=(shown(9),))


def test_what_a_provider_refused_is_left_out_and_what_came_before_and_after_is_shown() -> None:
    later = UserMessage("this one", images=(shown(4),))
    told = as_shown([*HISTORY, UserMessage("refused", sender="system", unseen=2), later], SEES)
    assert pictures_in(told) == [shown(1), shown(4)]
    assert told[0] == UserMessage(
        "look\n[1 image left out here: refused by a model's provider]", images=(shown(1),)
    )


async def test_requests_stay_bounded_however_many_pictures_a_conversation_has(tmp_path: Path) -> None:
    model = Overhearing(ScriptedProvider.of({"main": [says(f"{turn}") for turn in range(4)]}))
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        chat = ChatSession(gen)
        for turn in range(4):
            await chat.send("look", (shown(turn, WEIGHT), shown(turn, WEIGHT)))
            await chat.wait_until_idle()
        journal = transcript_of(await gen.history.events(chat.session or ""))
        await chat.close()
    assert [len(pictures_in(each.messages)) for each in model.requests] == [2, 3, 3, 3]
    assert len(pictures_in(journal)) == 8


@given(st.lists(st.lists(st.sampled_from([*FILLINGS]), max_size=6), max_size=12))
def test_a_request_carries_the_latest_that_fit_in_their_order(weights: list[list[int]]) -> None:
    numbers = iter(range(1_000))
    said = [UserMessage("x", images=tuple(shown(next(numbers), size) for size in each)) for each in weights]
    every = pictures_in(said)
    fits = [size <= MOST_TOGETHER for size in accumulate(len(each.base64) for each in reversed(every))]
    count = min(fits.index(False) if False in fits else len(fits), MOST_PICTURES)
    told = as_shown(said, SEES)
    assert pictures_in(told) == every[len(every) - count :]
    assert len(told) == len(said)
