"""What people do on the page: start, watch, steer, answer, stop, resume, fork, reload, look from two tabs."""

from pathlib import Path

import pytest
from playwright.async_api import Browser

from gencode.testing import call, says
from tests.interfaces.http.serving import Served, served
from tests.interfaces.page.browsing import Tab, visit

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="package")]

WRITE = call("Write", file_path="notes.txt", content="one\ntwo\n")
LAUNCH = call("Task", subagent_type="Explore", description="look here", prompt="look here")
FETCH = call("WebFetch", url="http://example.invalid/", prompt="what is there?")
ELSEWHERE = """async () => {
  const asked = { number: 1, task: "t", path: [], agent: "a", tool: "Bash", cwd: "/a", place: "far" };
  const rest = { input: {}, inquiries: [], decision: {}, reaches: [], rules: [] };
  const { questionCard } = await import("/static/js/questions.js");
  return questionCard({ ...asked, ...rest }).querySelector(".where").textContent;
}"""
ASKING = [says("I write it down.", WRITE), says("It is written."), says("And now more.")]


async def sent(site: Served, tab: Tab, agent: str = "general-purpose") -> str:
    """A task that was begun elsewhere, open in the tab."""
    begun = await site.client.post(
        "/api/tasks", {"agent": agent, "prompt": "do it", "description": "the work"}
    )
    task: str = begun.json["agentId"]
    await tab.go(f"/task/{task}")
    return task


async def test_a_chat_begins_and_is_watched_while_an_agent_works_for_it(
    browser: Browser, tmp_path: Path
) -> None:
    main = [says("I send one.", LAUNCH), says("It **found** it.\n\n- here\n- there\n")]
    explore = [says("First I look around.", call("Glob", pattern="*"), FETCH), says("found it")]
    async with served(tmp_path, main=main, Explore=explore) as site, visit(browser, site.client) as (tab,):
        await tab.sees(".counts", "No agents have run here yet")
        await tab.says("Where is it?")
        await tab.sees(".said.user", "Where is it?")
        await tab.sees(".said.assistant", "I send one.")
        await tab.sees(".below .tasklink", "Explore · look here")
        await tab.sees(".task[data-status=running][aria-level='2'] .step", "WebFetch")
        await tab.page.click("[data-verb=tree]")
        await tab.sees("dialog .hits", "2 agents")
        await tab.page.keyboard.press("Escape")
        await tab.page.click(".question [data-deny]")
        await tab.sees(".said.assistant strong", "found")
        await tab.sees(".end[data-status=completed] .receipt", "1 tool call")
        await tab.page.click(".call summary")
        await tab.sees(".call .inside .tasklink", "Explore · look here")
        await tab.page.click(".task[aria-level='2']")
        await tab.sees(".call[data-state=done] .tool", "Glob")
        assert await tab.text(".path") == "main\n›"
        assert await tab.count(".task") == 2


async def test_a_task_is_steered_and_answered_also_after_the_page_was_loaded_anew(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        served(tmp_path, general_purpose=ASKING) as site,
        visit(browser, site.client) as (tab,),
    ):
        task = await sent(site, tab)
        await tab.sees(".question .asker", "use Write")
        assert await tab.page.locator(".question .diff .add").all_inner_texts() == ["1\n+one", "2\n+two"]
        assert await tab.text(".question .where") == f"in {tmp_path}"
        assert await tab.page.evaluate(ELSEWHERE) == "in /a · asked by another process on far"
        assert await tab.text("#asked") == "1"
        assert (await tab.page.title()).startswith("(1) ")
        await tab.says("in capitals, please")
        before = await tab.page.locator(".said .prose").all_inner_texts()
        await tab.reload()
        await tab.sees(".question")
        await tab.sees(".said .prose", "I write it down.")
        assert (
            await tab.page.locator(".said .prose").all_inner_texts()
            == before
            == ["do it", "I write it down."]
        )
        await tab.page.select_option(".question select[name=reach]", "agent")
        await tab.page.click(".question button.primary")
        await tab.loses(".question")
        await tab.sees(".said.user", "in capitals, please")
        await tab.sees(".end[data-status=completed] .files", "notes.txt")
        assert (await site.client.ended(task))["turns"] >= 2
        assert (tmp_path / "notes.txt").read_text() == "one\ntwo\n"


async def test_a_task_is_stopped_after_the_page_said_what_it_hits_then_resumed_and_forked(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        served(tmp_path, general_purpose=ASKING) as site,
        visit(browser, site.client) as (tab,),
    ):
        task = await sent(site, tab)
        await tab.sees(".question")
        await tab.page.click("[data-verb=stop]")
        await tab.sees("dialog .hits", "1 agent")
        assert await tab.text("dialog .tasklink") == "general-purpose · the work"
        await tab.page.click("dialog button.danger")
        await tab.sees(".pill[data-status=cancelled]", "stopped")
        await tab.loses(".question")
        await tab.sees(".composer button", "Resume")
        await tab.says("go on without it")
        await tab.sees(".said.assistant", "It is written.")
        await tab.sees(".pill[data-status=completed]", "done")
        await tab.page.hover(".said.assistant >> nth=0")
        await tab.page.click(".said.assistant >> nth=0 >> .fork")
        await tab.page.fill("dialog textarea", "another way")
        await tab.page.click("dialog button.primary")
        await tab.sees(".earlierlife", "Forked from")
        await tab.sees(".end[data-status=completed]")
        told = (await site.client.get("/api/tasks")).json["tasks"]
        assert [(each["prompt"], each["status"]) for each in told] == [
            ("another way", "completed"),
            ("do it", "completed"),
        ]
        assert told[1]["agentId"] == task


async def test_two_tabs_see_the_same_and_one_answer_counts_for_both(browser: Browser, tmp_path: Path) -> None:
    async with (
        served(tmp_path, general_purpose=ASKING) as site,
        visit(browser, site.client, tabs=2) as (one, other),
    ):
        await sent(site, one)
        await other.go("/questions")
        await other.sees(".question")
        await other.page.fill(".question input[name=why]", "not today")
        await other.page.click(".question [data-deny]")
        await other.sees(".empty", "No pending questions")
        await one.loses(".question")
        await one.sees(".call[data-state=error] .came", "not today")
        await one.sees(".end[data-status=completed]")
        await other.go("/")
        await other.sees(".task[data-status=completed]")
        assert not (tmp_path / "notes.txt").exists()


async def test_a_line_that_broke_is_shown_and_what_was_missed_is_caught_up(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        served(tmp_path, Explore=[says("found it")]) as site,
        visit(browser, site.client, allowed=("net::ERR_",)) as (tab,),
    ):
        await tab.sees("#live", "live")
        await tab.page.route("**/api/stream*", lambda route: route.abort())
        site.serving.context.hub.close()
        await tab.sees("#line", "Reconnecting")
        begun = await site.client.post("/api/tasks", {"agent": "Explore", "prompt": "look meanwhile"})
        await site.client.ended(begun.json["agentId"])
        assert await tab.text("#live") == "offline"
        await tab.page.unroute("**/api/stream*")
        await tab.loses("#line")
        await tab.sees(".task[data-status=completed]", "look meanwhile")
        assert await tab.text("#live") == "live"
