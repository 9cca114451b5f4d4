"""What waits for a person is drawn so, and a dialog shows all that it will hit, also in a narrow window."""

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from gencode.testing import call, says
from tests.interfaces.http.serving import Served, served
from tests.interfaces.page.browsing import Tab, visit

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="package")]

WRITE = [says("", call("Write", file_path="notes.txt", content="one\n")), says("It is written.")]
SEND = call("Task", subagent_type="Explore", description="look", prompt="look", run_in_background=True)
INQUIRY = call(
    "AskUserQuestion",
    questions=[{"question": "Which one?", "header": "choice", "options": [{"label": "a"}, {"label": "b"}]}],
)
LONG = "look at part 0 of the very long named program with many words in its name"
BARS = """() => {
  const bars = document.querySelector('.lane').querySelectorAll('.bar');
  return [...bars].map((each) => [each.className, each.offsetWidth]);
}"""
OUTSIDE = """() => {
  const frame = document.querySelector('dialog').getBoundingClientRect();
  const room = 5;  // for the ring around what has the focus
  return [...document.querySelectorAll('dialog *')].filter((each) => {
    const { left, right } = each.getBoundingClientRect();
    return right > left && (left < frame.left + room || right > frame.right - room);
  }).map((each) => each.className || each.tagName);
}"""


async def asking(site: Served, description: str = "") -> Any:
    """A task that asks something; the question."""
    wish = {"agent": "general-purpose", "prompt": "do it", "description": description}
    assert (await site.client.post("/api/tasks", wish)).status < 300
    return (await site.client.until("/api/questions", lambda told: bool(told["questions"])))["questions"][0]


async def bars(tab: Tab, kind: str) -> dict[str, int]:
    """How wide the bars of the first task are in all, by what they stand for, once there is one of a kind."""
    await tab.go("/timeline")
    await tab.sees(f".lane .bar.{kind}")
    widths: defaultdict[str, int] = defaultdict(int)
    for each, wide in await tab.page.evaluate(BARS):
        widths[each.removeprefix("bar ")] += wide
    return widths


async def test_a_question_says_until_when_it_waits(browser: Browser, tmp_path: Path) -> None:
    async with served(tmp_path, general_purpose=WRITE) as site:
        await asking(site)
        async with visit(browser, site.client) as (tab,):
            await tab.go("/questions")
            await tab.sees(".question .where", "Waits for your answer until")


async def test_the_timeline_shows_waiting_from_the_moment_a_question_was_asked_however_late_it_is_opened(
    browser: Browser, tmp_path: Path
) -> None:
    async with served(tmp_path, general_purpose=WRITE) as site:
        question = await asking(site)
        await asyncio.sleep(6)
        async with visit(browser, site.client) as (tab,):
            early = await bars(tab, "waiting_for_person")
            assert early["waiting_for_person"] > 3 * early["working"]
            await tab.reload()
            later = await bars(tab, "waiting_for_person")
            assert later["waiting_for_person"] > 3 * later["working"]
            await site.client.post(f"/api/questions/{question['number']}", {"allow": True})
            await site.client.ended(question["task"])
            await tab.reload()
            answered = await bars(tab, "waiting_for_person")
            assert answered["waiting_for_person"] > 3 * answered["working"]


async def test_the_timeline_shows_who_waits_for_a_person_or_only_for_agents_in_the_background(
    browser: Browser, tmp_path: Path
) -> None:
    turns = [says("", SEND), says("I wait."), says("", INQUIRY), says("over")]
    async with (
        served(tmp_path, main=turns, Explore=[says("found it", delay_ms=3000)]) as site,
        visit(browser, site.client) as (tab,),
    ):
        begun = await site.client.post("/api/conversations/web/ask", {"text": "go"})
        found = await site.client.until("/api/questions", lambda told: bool(told["questions"]))
        await asyncio.sleep(3)
        reply = {"allow": True, "words": ["b"]}
        await site.client.post(f"/api/questions/{found['questions'][0]['number']}", reply)
        await site.client.ended(begun.json["sessionId"])
        await tab.reload()
        widths = await bars(tab, "waiting_for_agents")
        assert min(widths["waiting_for_agents"], widths["waiting_for_person"]) > 3 * widths["working"]


@pytest.mark.parametrize("width", [400, 1280])
async def test_nothing_in_the_dialog_that_says_what_will_be_hit_reaches_out_of_it(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    async with (
        served(tmp_path, general_purpose=WRITE) as site,
        visit(browser, site.client) as (tab,),
    ):
        question = await asking(site, LONG)
        await tab.page.set_viewport_size({"width": width, "height": 700})
        await tab.go(f"/task/{question['task']}")
        await tab.page.click("[data-verb=stop]")
        await tab.sees("dialog .tasklink", "look at part 0")
        assert await tab.page.evaluate(OUTSIDE) == []
