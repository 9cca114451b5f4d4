"""What the page shows: inert texts, a thousand tasks, a viewer's page, keys, agents and spending."""

from pathlib import Path

import pytest
from playwright.async_api import Browser

from gencode.app import components
from gencode.core.events import TaskCreated, TaskEnded, TaskStarted
from gencode.core.status import EndReason, Status
from gencode.testing import call, says
from tests.interfaces.http.serving import Served, served
from tests.interfaces.page.browsing import visit
from tests.waiting import until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="package")]

EVIL = (
    '<img src=x onerror=alert(1)> <script>alert(2)</script> <a href="javascript:alert(3)">a</a>\n\n'
    "[press me](javascript:alert(4)) ![p](x) <svg/onload=alert(5)>\n\n"
    "```html\n<iframe srcdoc='<script>alert(6)</script>'></iframe>\n```\n\n\u202egnp.exe"
)
ACTING = "[data-verb], .composer, .fork, dialog, .question button, .question select, .editor button, .primary"
MANY = 1000


async def test_nothing_that_an_agent_makes_acts(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "evil.txt").write_text(EVIL)
    calls = [call("Read", file_path="evil.txt"), call("Grep", pattern=EVIL)]
    write = call("Write", file_path="<b>evil</b>.txt", content=EVIL)
    turns = [says(EVIL, *calls), says("", write), says(EVIL)]
    async with (
        served(tmp_path, general_purpose=turns) as site,
        visit(browser, site.client) as (tab,),
    ):
        wish = {"agent": "general-purpose", "prompt": EVIL, "description": EVIL[:100]}
        task = (await site.client.post("/api/tasks", wish)).json["agentId"]
        await tab.go(f"/task/{task}")
        await tab.sees(".question .diff .add", "onerror")
        for place in range(2):
            await tab.page.click(f".call summary >> nth={place}")
        await tab.sees(".call .mono", "<script>alert(2)</script>")
        await tab.page.click(".question button.primary")
        await tab.sees(".end[data-status=completed]")
        for place in ("/", "/timeline", "/questions", f"/task/{task}"):
            await tab.go(place)
            await tab.sees("main > *")
        await tab.sees(".said.assistant", "[press me](javascript:alert(4))")
        await tab.sees(".said.assistant", "\\u{202e}gnp.exe")
        made = "img, script:not([src]), iframe, [onerror], [onload], a[href^='javascript']"
        assert await tab.count(made) == 0
        links = await tab.page.evaluate("() => [...document.links].map(each => each.getAttribute('href'))")
        assert [link for link in links if not link.startswith("#/")] == []


async def test_code_that_the_search_found_is_shown_as_it_is(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(**one, **two): pass\n")
    async with served(tmp_path) as site, visit(browser, site.client) as (tab,):
        await site.client.ask("PUT", "/api/session", json={"model": "offline"})
        wish = {"agent": "Explore", "prompt": "read a.py"}
        task = (await site.client.post("/api/tasks", wish)).json["agentId"]
        await tab.go(f"/task/{task}")
        await tab.sees(".said.assistant pre.verbatim")
        assert "def f(**one, **two): pass" in await tab.text(".said.assistant pre.verbatim")


async def test_what_a_subagent_of_the_search_found_is_shown_as_it_is(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("def unpack_numbers(**one, **two): pass\n")
    async with served(tmp_path) as site, visit(browser, site.client) as (tab,):
        await site.client.ask("PUT", "/api/session", json={"model": "offline"})
        wish = {"text": "Where does unpack_numbers unpack numbers?"}
        main = (await site.client.post("/api/conversations/web/x", wish)).json["sessionId"]
        await tab.go(f"/task/{main}")
        await tab.sees(".said.assistant pre.verbatim")
        await tab.page.locator(".call > summary").first.click()
        assert "def unpack_numbers(**one, **two): pass" in await tab.text(".call pre.verbatim")


async def many(site: Served, number: int) -> None:
    """So many tasks that have ended."""
    ends = (TaskStarted(model="scripted"), TaskEnded(Status.COMPLETED, "found it", reason=EndReason.FINISHED))
    cwd = str(site.gen.workspace.cwd)
    for place in range(number):
        created = TaskCreated(agent="Explore", prompt=f"look at part {place}", cwd=cwd)
        lease = await components(site.gen).store.create(created, "somebody", ends)
        await components(site.gen).store.release(lease)


async def test_a_fork_says_whose_copy_it_is(browser: Browser, tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("found it")]) as site:
        cwd = str(site.gen.workspace.cwd)
        created = TaskCreated(
            agent="Explore", prompt="look", description="a look", forked="3fe22040", cwd=cwd
        )
        await components(site.gen).store.create(created, "somebody")
        async with visit(browser, site.client) as (tab,):
            await tab.sees(".task .title", "fork of 3fe22040: a look")
            assert await tab.count(".task") == 1


async def test_a_thousand_tasks_are_a_few_rows(browser: Browser, tmp_path: Path) -> None:
    async with served(tmp_path, Explore=[says("found it")]) as site:
        await many(site, MANY)
        async with visit(browser, site.client) as (tab,):
            await tab.sees(".chip[data-kind=all] .number", "1k")
            await tab.sees(".task .title", f"look at part {MANY - 1}")
            assert 10 < await tab.count(".task") < 60
            assert await tab.count("body *") < 1500
            await tab.page.focus("gen-rows.tree")
            await tab.page.keyboard.press("End")
            await tab.sees(".task[aria-selected=true] .title", "look at part 0")
            assert await tab.count(".task") < 60
            await tab.page.fill(".search", "part 77")
            await tab.sees(".task .title", "look at part 779")
            assert await tab.page.locator(".task").first.get_attribute("aria-setsize") == "11"
            await tab.go("/timeline")
            await tab.page.click(".chip[data-range=all]")
            await tab.sees(".lane .bar")
            assert 10 < await tab.count(".lane") < 80


async def test_a_viewer_sees_everything_and_no_button_that_acts(browser: Browser, tmp_path: Path) -> None:
    turns = [says("", call("Write", file_path="notes.txt", content="one\n")), says("done")]
    async with (
        served(tmp_path, share=["view"], general_purpose=turns) as site,
        visit(browser, site.shared()) as (tab,),
    ):
        wish = {"agent": "general-purpose", "prompt": "do it"}
        task = (await site.client.post("/api/tasks", wish)).json["agentId"]
        places = {
            "/": ".start",
            f"/task/{task}": ".question .diff",
            "/questions": ".question .diff",
            "/agents/Explore": ".editor .file",
            "/spending": ".budget",
        }
        for place, shown in places.items():
            await tab.go(place)
            await tab.sees(shown)
            assert await tab.count(ACTING) == 0
        await tab.go(f"/task/{task}")
        await tab.sees(".question .diff")
        for key in "ixkf":
            await tab.page.keyboard.press(key)
        assert await tab.count("dialog") == 0


async def test_keys_lead_everywhere_also_to_what_was_spent(browser: Browser, tmp_path: Path) -> None:
    usage = {"inputTokens": 900, "outputTokens": 100, "cachedTokens": 450, "usd": 0.25}
    async with (
        served(tmp_path, Explore=[says("found it", usage=usage)]) as site,
        visit(browser, site.client) as (tab,),
    ):
        task = (await site.client.post("/api/tasks", {"agent": "Explore", "prompt": "look"})).json["agentId"]
        await tab.sees(".task[data-status=completed] .cost", "1k tok · $0.25")
        for key in ("t", "ArrowDown", "Enter"):
            await tab.page.keyboard.press(key)
        await tab.sees(".taskview h1", "Explore")
        assert await tab.page.evaluate("() => location.hash") == f"#/task/{task}"
        await tab.page.keyboard.press("s")
        assert await tab.page.evaluate("() => document.activeElement.localName") == "textarea"
        for key in ("Escape", "?"):
            await tab.page.keyboard.press(key)
        await tab.sees("dialog.keys", "Interrupt")
        for key in ("Escape", "2"):
            await tab.page.keyboard.press(key)
        await tab.sees(".timeline .lane", "Explore")
        await tab.page.keyboard.press("/")
        assert await tab.page.evaluate("() => document.activeElement.type") == "search"
        for key in ("Escape", "5"):
            await tab.page.keyboard.press(key)
        await tab.sees(".figure", "50 %")
        assert await tab.count(".plot .column") == 2
        await tab.page.click(".budget button")
        for name in ("turns", "tokens", "usd", "seconds", "spawns"):
            await tab.page.fill(f"dialog [name={name}]", "0")
        unfit = "() => [...document.querySelectorAll('dialog input:invalid')].map(each => each.name)"
        assert await tab.page.evaluate(unfit) == ["turns", "tokens", "usd", "seconds"]
        for name in ("turns", "usd", "seconds"):
            await tab.page.fill(f"dialog [name={name}]", "")
        await tab.page.fill("dialog [name=tokens]", "4000")
        await tab.page.click("dialog button.primary")
        await tab.sees(".budget", "4k tokens, 0 subagents")
        assert await tab.page.locator(".meter").get_attribute("aria-valuemax") == "4000"


async def test_an_agent_is_written_looked_at_and_changed(
    browser: Browser, tmp_path: Path, home: Path
) -> None:
    async with (
        served(tmp_path, main=[says("hello")]) as site,
        visit(browser, site.client, allowed=("409",)) as (tab,),
    ):
        await tab.go("/agents")
        await tab.page.click(".agents .primary")
        await tab.page.fill("dialog [name=name]", "scout")
        await tab.page.fill("dialog [name=description]", "Looks ahead.")
        await tab.page.fill("dialog [name=tools]", "Read, Grep")
        await tab.page.check("dialog [name=user]")
        await tab.page.click("dialog button.primary")
        await tab.sees(".agentpage h2", "scout")
        await tab.sees(".lint", "No problems found.")
        file = tab.page.locator(".editor .file")
        text = await file.input_value()
        await file.fill(text.replace("Looks ahead.", "Looks far ahead.").replace("Grep", "Nonsense"))
        await tab.sees(".editor .lint li", "Nonsense")
        await tab.page.click(".editor .primary")
        await tab.sees(".agentpage .soft", "Looks far ahead.")
        await tab.sees(".agentlist .card[aria-current] .tag", "1 warning")
        path = home / ".gen" / "agents" / "scout.md"
        assert "Looks far ahead." in path.read_text()
        mine = f"{await file.input_value()}\nMine.\n"
        await file.fill(mine)
        path.write_text("---\nname: scout\ndescription: Theirs.\n---\nLook.\n")
        await tab.go("/")
        await tab.sees(".start")
        await tab.go("/agents/scout")
        await tab.sees(".editor .primary:enabled")
        await tab.page.click(".editor .primary")
        await tab.sees(".editor [role=alert]")
        assert "Theirs." in path.read_text()
        await tab.page.click(".editor > button")
        assert "Theirs." in await tab.page.locator(".theirs .file").input_value()
        await tab.page.click(".editor .primary")  # the toast of the first time may still be there
        await until(lambda: path.read_text() == mine, f"{path} is saved over")
        await tab.sees(".toast", "Saved.")
