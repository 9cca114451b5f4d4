"""A picture that a model's provider refuses costs the conversation that picture, and nothing else."""

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

from tests.pictures import PNG, packed, png

from gencode import GenCode
from gencode.agent.ports import Provider, Request
from gencode.agent.toolbox import ToolContext, ToolOutput, tool
from gencode.core.errors import ProviderError
from gencode.core.messages import Image, Message, Part, UserMessage, pictures_in
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says

BAD = Image("image/png", packed(png(2, 2)))
WHY = "it refused the request (HTTP 400: Could not process image)."
NOTE = UserMessage(
    "[The model's provider refused 1 image and accepted the request without. You cannot see what was left "
    f"out. The provider said: {WHY}]",
    sender="system",
    unseen=1,
)
LEFT_OUT = "[1 image left out here: refused by a model's provider]"


class Picky:
    """Refuses what it is told; the other one answers what is left."""

    def __init__(self, refuses: Callable[[Request], bool], inner: Provider, error: ProviderError) -> None:
        self._refuses = refuses
        self._inner = inner
        self._error = error

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Look first."""
        if self._refuses(request):
            raise self._error
        async for part in self._inner.stream(request):
            yield part


def shows(image: Image) -> Callable[[Request], bool]:
    return lambda request: image in pictures_in(request.messages)


def picky(refuses: Callable[[Request], bool], *turns: Mapping[str, Any], **said: bool) -> Overhearing:
    error = ProviderError(WHY, **(said or {"unfit": True}))
    return Overhearing(Picky(refuses, ScriptedProvider.of({"*": list(turns)}), error))


async def conversation(
    folder: Path, model: Overhearing, *said: tuple[str, tuple[Image, ...]]
) -> tuple[list[Message], list[str], list[Notice]]:
    """The journal of a conversation, how each turn ended, and what the person was told besides."""
    told: list[Notice] = []
    ends: list[str] = []
    async with GenCode.open(folder, model=model, store=MemoryStore()) as gen:
        chat = ChatSession(gen, on_notice=told.append)
        for text, images in said:
            await chat.send(text, images)
            await chat.wait_until_idle()
            ends.append((await gen.find(chat.session or "")).status)
        journal = transcript_of(await gen.history.events(chat.session or ""))
        await chat.close()
    return journal, ends, told


async def test_a_refused_picture_is_left_out_from_then_on_and_the_talk_goes_on(tmp_path: Path) -> None:
    model = picky(shows(BAD), says("I see one."), says("I cannot see that."), says("Hello."))
    said = (("look", (PNG,)), ("and this", (BAD,)), ("hello", ()))
    journal, ends, told = await conversation(tmp_path, model, *said)
    assert [each for each in journal if isinstance(each, UserMessage)] == [
        UserMessage("look", images=(PNG,)),
        UserMessage("and this", images=(BAD,)),
        NOTE,
        UserMessage("hello"),
    ]
    assert [pictures_in(each.messages) for each in model.requests] == [[PNG], [PNG, BAD], [PNG], [PNG]]
    assert model.requests[-1].messages[2:4] == (UserMessage(f"and this\n{LEFT_OUT}"), NOTE)
    assert ends == [Status.COMPLETED] * 3
    assert [each.text for each in told if each.kind == "warning"] == [NOTE.text]


async def test_a_picture_of_a_tool_that_is_refused_does_not_end_the_work(tmp_path: Path) -> None:
    @tool(effect="read")
    async def paint(ctx: ToolContext) -> ToolOutput:
        """Paint something."""
        return ToolOutput("painted", images=(BAD,))

    model = picky(shows(BAD), says("", call("paint")), says("It cannot be seen."))
    async with GenCode.open(tmp_path, model=model, tools=[paint], store=MemoryStore()) as gen:
        outcome = await gen.task("general-purpose", "paint")
        journal = transcript_of(await gen.history.events(outcome.agent_id))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "It cannot be seen.")
    assert journal[-2] == NOTE
    assert [len(pictures_in(each.messages)) for each in model.requests] == [0, 1, 0]


async def test_where_older_pictures_are_refused_all_are_left_out(tmp_path: Path) -> None:
    """As after a change to a model without eyes of which nobody knows that."""
    model = picky(
        lambda request: len(request.messages) > 1 and bool(pictures_in(request.messages)), says("a")
    )
    journal, ends, _ = await conversation(tmp_path, model, ("one", (PNG,)), ("two", (PNG,)))
    assert [each.unseen for each in journal if isinstance(each, UserMessage)] == [0, 0, 2]
    assert [len(pictures_in(each.messages)) for each in model.requests] == [1, 2, 1, 0]
    assert ends == [Status.COMPLETED] * 2


async def test_pictures_that_are_not_to_blame_stay(tmp_path: Path) -> None:
    model = picky(lambda request: True)
    journal, ends, told = await conversation(tmp_path, model, ("look", (PNG,)), ("hello", ()))
    assert pictures_in(journal) == [PNG]
    assert not any(each.unseen for each in journal if isinstance(each, UserMessage))
    assert [len(pictures_in(each.messages)) for each in model.requests] == [1, 0, 1, 0]
    assert (ends, told) == ([Status.FAILED] * 2, [])


async def test_what_is_no_bad_request_is_not_tried_without_them(tmp_path: Path) -> None:
    model = picky(lambda request: True, limited=True)
    journal, ends, _ = await conversation(tmp_path, model, ("look", (PNG,)))
    assert journal == [UserMessage("look", images=(PNG,))]
    assert (len(model.requests), ends) == (1, [Status.FAILED])
