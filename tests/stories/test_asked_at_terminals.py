"""Questions at real terminals: a line answers what was shown before it was typed, leaving answers nothing."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.contracts.questions import LIFETIME, OWNER, about, post, running
from tests.interfaces.cli.running import ASKS, script
from tests.interfaces.cli.running import gen as command
from tests.stories.terminal_window import window
from tests.waiting import until

from gencode import GenCode
from gencode.app import components
from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Inquiry, Option
from gencode.interfaces.cli.line_mode import NO_QUESTION
from gencode.interfaces.cli.task_questions import NONE_WAITS
from gencode.testing import call, says

RENEW_SECONDS = 1.0


def touches(*names: str) -> list[dict[str, Any]]:
    return [says("", call("Bash", command=f"touch {name}")) for name in names]


async def answered_elsewhere(gen: GenCode, text: str) -> None:
    """Say yes to what is asked about in another process."""
    box = gen.questions
    found: list[int] = []

    async def is_there() -> bool:
        found[:] = [each.number for each in await box.waiting("") if text in str(each.question.call.input)]
        return bool(found)

    await until(is_there, f"{text} is asked")
    await box.answer(found[0], Answer(True), "somebody")


async def test_what_is_typed_for_a_question_answers_no_other_and_is_no_message(tmp_path: Path) -> None:
    names = ("harmless", "dangerous", "third", "fourth", "fifth")
    model = script(tmp_path, main=[*touches(*names), says("over")])
    async with GenCode.open(tmp_path, model="offline") as gen:
        with window(tmp_path, "--plain", "--model", model) as at:
            await at.shows("/quit")
            at.types("go\n")
            await at.shows("touch harmless", ASKS)
            at.types("y")
            await answered_elsewhere(gen, "touch harmless")
            await at.shows("Question withdrawn. Approved by somebody.", "touch dangerous", ASKS)
            at.types("\n")
            await at.shows("not one of the answers", ASKS)
            at.types("n\n")
            await at.shows("touch third", ASKS)
            await answered_elsewhere(gen, "touch third")
            await at.shows("touch fourth", ASKS)
            at.types("y\n")
            await at.shows("your line was ignored", ASKS)
            at.types("n\n")
            await at.shows("touch fifth", ASKS)
            await answered_elsewhere(gen, "touch fifth")
            await at.shows("main says: over")
            at.types("y\n")
            await at.shows(NO_QUESTION)
            at.types("\x04")
            assert await at.ended() == 0
    assert [(tmp_path / name).exists() for name in names] == [True, False, True, False, True]


class Asking:
    """Questions of an agent of another process, laid down where they wait."""

    def __init__(self, gen: GenCode, task: str) -> None:
        self.gen = gen
        self._question = about(task)

    async def about(self, text: str, *inquiries: Inquiry) -> int:
        said = ToolCall("c1", "Bash", {"command": text})
        question = replace(self._question, call=said, inquiries=inquiries, cwd="/work tree")
        return await self.gen.questions.put(post(question, home=True))

    async def waiting(self) -> list[int]:
        return [each.number for each in await self.gen.questions.waiting("")]


@asynccontextmanager
async def asking(folder: Path) -> AsyncGenerator[Asking]:
    async with GenCode.open(folder, model="offline") as gen:
        store = components(gen).store

        async def renew() -> None:
            while True:
                await store.renew(OWNER)
                await asyncio.sleep(RENEW_SECONDS)

        renewing = asyncio.ensure_future(renew())
        try:
            yield Asking(gen, await running(store, OWNER, cwd=str(folder)))
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])


async def test_who_waits_for_questions_is_told_what_is_gone_and_leaving_answers_nothing(
    tmp_path: Path,
) -> None:
    async with asking(tmp_path) as asks:
        with window(tmp_path, "task", "questions") as at:
            await at.shows("leaves without answering")
            first = await asks.about("touch one")
            shown = await at.shows("touch one", ASKS)
            assert "in /work tree" in shown
            assert f"from another process on {OWNER}, for {tmp_path}, in the background" in shown
            await answered_elsewhere(asks.gen, "touch one")
            await at.shows("Question withdrawn. Answered by somebody.")
            at.types("y\n")
            await at.shows(NONE_WAITS)
            second = await asks.about("touch two")
            await at.shows("touch two", ASKS)
            at.types("\x04")
            assert await at.ended() == 0
        assert (second > first, await asks.waiting()) == (True, [second])
        with window(tmp_path, "task", "questions") as at:
            await at.shows("touch two", ASKS)
            at.close()
            await at.ended()
        assert await asks.waiting() == [second]


async def test_an_answer_from_the_command_line_is_read_as_one_that_is_typed(tmp_path: Path) -> None:
    colour = Inquiry("Which?", options=(Option("red"), Option("blue")))
    async with asking(tmp_path) as asks:
        number = await asks.about("x", colour)
        [listed] = (await asyncio.to_thread(command, "task", "questions", "--json", cwd=tmp_path)).json[
            "questions"
        ]
        left, since = listed["away"].pop("left"), listed["away"].pop("since")
        assert (0 < left <= LIFETIME, abs(time.time() - since) < LIFETIME) == (True, True)
        away = {"folder": str(tmp_path), "place": OWNER, "background": True}
        assert (listed["number"], listed["cwd"], listed["away"]) == (number, "/work tree", away)
        words = ("task", "answer", str(number))
        wrong = await asyncio.to_thread(command, *words, "no", "--network", cwd=tmp_path)
        assert (wrong.code, "work only with yes" in wrong.err) == (2, True)
        assert await asks.waiting() == [number]
        right = await asyncio.to_thread(command, *words, "yes", "--words", "2", cwd=tmp_path)
        assert right.code == 0
        said = await asks.gen.questions.answers([number])
        assert said == {number: Answer(True, words=("blue",))}
