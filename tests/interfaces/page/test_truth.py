"""What the page shows is what is: questions of this server, receipts of their end, agents of their call."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Browser

from gencode.app import GenCode
from gencode.interfaces.http.guard import AccessTokens
from gencode.interfaces.http.listener import ListenOptions
from gencode.interfaces.http.server import HttpServer, QuestionSignal, new_desk
from gencode.testing import Turns, call, says
from tests.interfaces.cli.running import script
from tests.interfaces.http.serving import Client, served
from tests.interfaces.page.browsing import visit

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="package")]

QUESTIONS = "(await import('/static/js/question-store.js')).questions"
TELLS = "(await import('/static/js/dialogs.js')).notify"
LOOK = call("Glob", pattern="*")
WRITE = [says("", call("Write", file_path="notes.txt", content="one\n")), says("It is written.")]
OTHER = [says("", call("Write", file_path="other.txt", content="two\n")), says("It is written.")]
SEND = call("Task", subagent_type="Explore", description="look", prompt="look", run_in_background=True)


@asynccontextmanager
async def server_at(folder: Path, wish: ListenOptions, **agents: Turns) -> AsyncGenerator[HttpServer, None]:
    """A server with the port and the tokens that another one had before it."""
    changed = QuestionSignal()
    desk = new_desk(changed)
    async with GenCode.open(folder, model=script(folder, **agents), asker=desk) as gen:
        serving = HttpServer(gen, desk, changed, wish)
        running = asyncio.create_task(serving.run())
        await serving.ready.wait()
        try:
            yield serving
        finally:
            serving.end()
            await running


async def test_after_a_restart_no_card_of_the_server_before_is_left_to_be_answered(
    browser: Browser, tmp_path: Path
) -> None:
    (folder := tmp_path / "next").mkdir()
    wish = {"agent": "general-purpose", "prompt": "do it"}
    broken = ("net::ERR_", "Failed to load resource")
    keys = AccessTokens()
    async with aiohttp.ClientSession() as http, AsyncExitStack() as before:
        first = await before.enter_async_context(
            server_at(tmp_path, ListenOptions(keys), general_purpose=WRITE)
        )
        client = Client(f"http://127.0.0.1:{first.port}", keys.owner, http)
        async with visit(browser, client, allowed=broken) as (tab,):
            await tab.go("/questions")
            await client.post("/api/tasks", wish)
            await tab.sees(".question .given", "notes.txt")
            old = await tab.page.evaluate(f"async () => {QUESTIONS}.open[0]")
            await before.aclose()
            await tab.loses(".question")
            async with server_at(folder, ListenOptions(keys, port=first.port), general_purpose=OTHER):
                task = (await client.post("/api/tasks", wish)).json["agentId"]
                await tab.sees(".question .given", "other.txt")
                assert await tab.count(".question") == 1
                answer = f"old => {QUESTIONS}.answer(old, {{allow: true}}).catch(each => each.message)"
                refused = await tab.page.evaluate(f"async {answer}", old)
                assert "no longer pending" in refused
                await tab.page.click(".question button.primary")
                await tab.sees(".empty", "No pending questions")
                await client.ended(task)
    assert (folder / "other.txt").read_text() == "two\n"
    assert not (tmp_path / "notes.txt").exists()


async def test_a_receipt_stays_as_it_was_at_that_end_and_a_conversation_is_not_forked(
    browser: Browser, tmp_path: Path
) -> None:
    main = [says("", LOOK), says("| a | b |\n|---|---|\n| 1 | 2 |"), says("", LOOK, LOOK), says("Two.")]
    async with served(tmp_path, main=main) as site, visit(browser, site.client) as (tab,):
        await tab.page.fill(".composer textarea", "a draft")
        await tab.go("/agents")
        await tab.sees(".agents")
        await tab.go("/")
        assert await tab.page.input_value(".composer textarea") == "a draft"
        await tab.says("go")
        await tab.sees(".receipt .figures", "2 turns · 1 tool call")
        await tab.sees(".prose td", "2")
        assert await tab.count("[data-verb=fork], .fork:visible") == 0
        await tab.says("again")
        await tab.sees(".receipt .figures", "4 turns · 3 tool calls")
        figures = tab.page.locator(".receipt .figures")
        # The last figure is a time of some hundredths of a second, which is rounded anew.
        frozen = [each.rpartition(" · ")[0] for each in await figures.all_inner_texts()]
        assert [each.split(" · ")[:2] for each in frozen] == [
            ["Receipt 2 turns", "1 tool call"],
            ["Receipt 4 turns", "3 tool calls"],
        ]
        await tab.reload()
        await tab.sees(".end >> nth=0 >> .receipt")
        await tab.sees(".end >> nth=1 >> .receipt")
        assert [each.rpartition(" · ")[0] for each in await figures.all_inner_texts()] == frozen


async def test_a_call_wears_the_state_of_its_own_agent_and_no_other(browser: Browser, tmp_path: Path) -> None:
    main = [says("", SEND), says("It looks."), says("It came."), says("", SEND), says("Again.")]
    async with (
        served(tmp_path, main=main, Explore=[says("found it", delay_ms=60_000)]) as site,
        visit(browser, site.client) as (tab,),
    ):
        badges = tab.page.locator(".callrow > .tasklink")
        await tab.says("go")
        await tab.sees(".callrow > .tasklink[data-status=running]")
        sent = (await badges.first.get_attribute("href") or "").rpartition("/")[2]
        await site.client.post(f"/api/tasks/{sent}/stop")
        await tab.sees(".callrow > .tasklink[data-status=cancelled]")
        await tab.sees(".said.assistant", "It came.")
        await tab.says("once more")
        await tab.sees(".callrow > .tasklink[data-status=running]")
        states = await badges.evaluate_all("found => found.map(each => each.dataset.status)")
        assert states == ["cancelled", "running"]
        said = await tab.page.locator(".facts .assistant .prose").all_inner_texts()
        assert said == ["It looks.", "It came.", "Again."]


async def test_a_steer_waits_in_sight_and_the_keyboard_goes_from_question_to_question(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        served(tmp_path, general_purpose=WRITE) as site,
        visit(browser, site.client) as (tab,),
    ):
        wish = {"agent": "general-purpose", "prompt": "do it"}
        tasks = [(await site.client.post("/api/tasks", wish)).json["agentId"] for _ in range(2)]
        await tab.go(f"/task/{tasks[0]}")
        await tab.says("be quick")
        await tab.sees(".unheard .who", "waiting to be read")
        await tab.page.set_viewport_size({"width": 390, "height": 640})
        await tab.page.evaluate(f"async () => {TELLS}('This is told.', false, {{seconds: 60}})")
        await tab.page.locator(".question button.primary").scroll_into_view_if_needed()
        parts = (".top", ".toast", ".taskhead", ".question button.primary", ".composer", "nav")
        spans = [place for part in parts for place in await tab.span(part)]
        assert spans == sorted(spans)
        await tab.go("/questions")
        await tab.sees(".question >> nth=1")
        await tab.page.keyboard.press("q")
        await tab.sees(".question:focus")
        await tab.page.click(".question >> nth=0 >> [data-deny]")
        await tab.sees(".question:only-child:focus")
        await tab.page.click(".question [data-deny]")
        await tab.sees(".asking h1:focus")
        await tab.go(f"/task/{tasks[0]}")
        await tab.sees(".said.user", "be quick")
        await tab.loses(".unheard")
