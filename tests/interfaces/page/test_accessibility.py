"""axe-core finds nothing on any view, wide and on a phone, dark and light; and what the views newly show."""

from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page

from gencode.testing import call, says
from tests.conftest import NODE_PACKAGES
from tests.interfaces.http.serving import served
from tests.interfaces.page.browsing import Tab, visit

pytestmark = [
    pytest.mark.needs("chromium"),
    pytest.mark.needs("npm:axe-core"),
    pytest.mark.asyncio(loop_scope="package"),
]
ANSWER = (
    "# Done\n\n> A quote with **bold**.\n> Second line.\n\n| name | count |\n|:--|--:|\n| a | 12 |\n\n"
    '```python\n# a comment\ndef f(x):\n    return "hi" + 42\n```\n\n```diff\n- old\n+ new\n```'
)
LONG = "\n".join(f"line {number}" for number in range(120))
SIZES = ((1280, 800), (390, 800))
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


async def complaints(page: Page) -> list[str]:
    """What axe-core finds on what is shown, in both colour schemes."""
    found: list[str] = []
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        result: dict[str, Any] = await page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        found += [
            f"{scheme} {page.url}: {each['id']} {node['target']} {node.get('failureSummary', '')}"
            for each in result["violations"]
            for node in each["nodes"]
        ]
    return found


async def looked_at(tab: Tab, place: str, selector: str) -> list[str]:
    """What axe-core finds on one view, wide and on a phone."""
    await tab.go(place)
    found: list[str] = []
    for width, height in SIZES:
        await tab.page.set_viewport_size({"width": width, "height": height})
        await tab.sees(selector)
        found += await complaints(tab.page)
    return found


async def test_axe_finds_nothing_on_any_view(browser: Browser, tmp_path: Path) -> None:
    axe = (NODE_PACKAGES / "axe-core" / "axe.min.js").read_text("utf-8")
    (tmp_path / "a.txt").write_text("one\n")
    read = says("I look.", call("Read", file_path="a.txt"))
    send = says("", call("Task", subagent_type="Explore", description="Find the tests", prompt="look"))
    write = says("", call("Write", file_path="b.txt", content=LONG))
    main = [read, send, says(ANSWER), write, says("done")]
    async with (
        served(tmp_path, main=main, Explore=[says("found")]) as site,
        visit(browser, site.client, allowed=("401",)) as (tab,),
    ):
        await tab.page.evaluate(axe)
        found = await looked_at(tab, "/", ".start .composer")
        await tab.says("Change it")
        await tab.sees(".end[data-status=completed]")
        session = (await tab.page.evaluate("location.hash")).rpartition("/")[2]
        await tab.page.click(".call summary >> nth=0")
        await tab.sees(".prose blockquote strong", "bold")
        assert (
            await tab.page.locator(".prose td >> nth=1").evaluate("each => getComputedStyle(each).textAlign")
            == "right"
        )
        await tab.sees(".syntax-keyword", "return")
        await tab.sees(".diffline.add", "new")
        found += await looked_at(tab, f"/task/{session}", ".end")
        for place, selector in (
            ("/timeline", ".lane"),
            ("/agents", "main h1"),
            ("/spending", "main h1"),
            ("/tasks", "gen-tree"),
        ):
            found += await looked_at(tab, place, selector)
        await tab.page.set_viewport_size({"width": 1280, "height": 800})
        await tab.go("/timeline")
        await tab.sees(".lane b", "Find the tests")
        await tab.go(f"/task/{session}")
        await tab.sees(".end")
        await tab.page.keyboard.press("?")
        await tab.sees("dialog.keys")
        found += await complaints(tab.page)
        await tab.page.keyboard.press("Escape")
        await tab.page.keyboard.press("f")
        await tab.sees(".toast", "Press r")
        await tab.page.keyboard.press("r")
        await tab.sees("dialog .rewind p")
        found += await complaints(tab.page)
        await tab.page.keyboard.press("Escape")
        await tab.loses("dialog")
        await tab.page.fill(".composer textarea", "Write it")
        await tab.page.press(".composer textarea", "Enter")
        found += await looked_at(tab, "/questions", ".question .diff")
        # On the phone: who presses Allow has passed the whole difference before.
        _, diff_ends = await tab.span(".question .diff")
        allow_begins, _ = await tab.span(".question .primary")
        assert allow_begins >= diff_ends
        assert found == []


async def test_without_a_token_there_is_a_form_for_one(browser: Browser, tmp_path: Path) -> None:
    axe = (NODE_PACKAGES / "axe-core" / "axe.min.js").read_text("utf-8")
    async with served(tmp_path, main=[says("hello")]) as site:
        context = await browser.new_context(viewport={"width": 390, "height": 800})
        page = await context.new_page()
        await page.goto(site.client.base)
        await page.evaluate(axe)
        assert await complaints(page) == []
        await page.fill("#token", f"{site.client.base}/?token={site.client.token}")
        await page.press("#token", "Enter")
        await page.wait_for_selector("body[data-ready]")
        assert "token" not in page.url
        await context.close()


async def test_the_model_and_the_mode_are_chosen_on_the_page(browser: Browser, tmp_path: Path) -> None:
    async with (
        served(tmp_path, main=[says("hello")]) as site,
        visit(browser, site.client) as (tab,),
    ):
        await tab.loses("[data-banner]")
        await tab.page.select_option("select[name=mode]", "plan")
        await tab.sees(".toast")
        assert (await site.client.get("/api/health")).json["mode"] == "plan"
        await tab.page.focus("select[name=model]")
        await tab.page.locator("select[name=model] option[value=offline]").wait_for(state="attached")
        await tab.page.select_option("select[name=model]", "offline")
        await tab.sees("[data-banner]", "No model is configured")
        assert site.gen.model.name == "offline-search"
        refused = await site.client.ask("PUT", "/api/session", json={"model": "nobody/knows"})
        assert refused.status in (400, 404)


async def test_a_conversation_and_its_files_are_rewound_on_the_page(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    edit = call("Edit", file_path="a.txt", old_string="one", new_string="two")
    main = [says("", call("Read", file_path="a.txt")), says("", edit), says("changed")]
    async with (
        served(tmp_path, settings={"permission_mode": "acceptEdits"}, main=main) as site,
        visit(browser, site.client) as (tab,),
    ):
        await tab.says("Change the file")
        await tab.sees(".end[data-status=completed]")
        await tab.page.click("[data-verb=rewind]")
        await tab.sees("dialog .rewindfiles code", "a.txt")
        assert (tmp_path / "a.txt").read_text() == "two\n"
        await tab.page.click("dialog button.primary")
        await tab.sees(".toast", "1 file put back")
        assert (tmp_path / "a.txt").read_text() == "one\n"
        await tab.sees(".earlierlife summary", "taken back")
        assert await tab.page.input_value(".composer textarea") == "Change the file"
        session = (await tab.page.evaluate("location.hash")).rpartition("/")[2]
        told = await site.client.get(f"/api/tasks/{session}/prompts")
        assert [each["undo"] for each in told.json["points"]] == [True]
