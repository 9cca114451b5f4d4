"""A Chromium for the tests, and pages of a server in it that must not complain about anything."""

import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from playwright.async_api import Browser, ConsoleMessage, Dialog, Page, async_playwright

from tests.interfaces.http.serving import Client

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SECONDS = 120


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser, None]:
    """One browser; every visit in it has cookies of its own."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass(frozen=True)
class Tab:
    """One page of a server."""

    page: Page
    client: Client
    complaints: list[str] = field(default_factory=list[str])

    async def go(self, place: str) -> None:
        """Open a part of the page, as a link does."""
        await self.page.evaluate("place => { location.hash = place; }", place)

    async def sees(self, selector: str, text: str = "") -> None:
        """Wait until something is in sight."""
        found = self.page.locator(selector)
        await (found.filter(has_text=text) if text else found).first.wait_for()

    async def loses(self, selector: str) -> None:
        """Wait until something is not in sight any more."""
        await self.page.locator(selector).first.wait_for(state="hidden")

    async def count(self, selector: str) -> int:
        """How many such elements there are."""
        return await self.page.locator(selector).count()

    async def span(self, selector: str) -> tuple[float, float]:
        """Where an element begins and ends, from the top of the window."""
        box = await self.page.locator(selector).first.bounding_box()
        assert box is not None
        return box["y"], box["y"] + box["height"]

    async def text(self, selector: str) -> str:
        """The text of an element."""
        return await self.page.locator(selector).first.inner_text()

    async def says(self, words: str) -> None:
        """Write something, send it, and wait until it was taken."""
        await self.page.fill(".composer textarea", words)
        await self.page.press(".composer textarea", "Enter")
        await self.page.wait_for_function("() => document.querySelector('.composer textarea')?.value === ''")

    async def reload(self) -> None:
        """Load it anew, in the middle of whatever happens."""
        await self.page.reload()
        await self.sees("body[data-ready]")


def listen(page: Page, complaints: list[str]) -> None:
    """Note what a browser complains about: errors, refused content, dialogs."""

    async def close(dialog: Dialog) -> None:
        complaints.append(f"a dialog: {dialog.message}")
        await dialog.dismiss()

    def note(said: ConsoleMessage) -> None:
        if said.type in ("error", "warning"):
            complaints.append(f"{said.text} {said.location.get('url', '')}")

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", close)


@asynccontextmanager
async def visit(
    browser: Browser, client: Client, *, tabs: int = 1, allowed: Sequence[str] = ()
) -> AsyncGenerator[list[Tab], None]:
    """Tabs that are open at a server, with a token; whatever the browser complains about fails the test."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    context.set_default_timeout(SECONDS * 1000)
    opened = [Tab(await context.new_page(), client) for _ in range(tabs)]
    try:
        for tab in opened:
            listen(tab.page, tab.complaints)
            await tab.page.goto(f"{client.base}/?token={client.token}")
            await tab.sees("body[data-ready]")
        yield opened
        said = [each for tab in opened for each in tab.complaints]
        if complaints := [each for each in said if not any(word in each for word in allowed)]:
            raise AssertionError("The browser complained: " + "\n".join(complaints))
    finally:
        await context.close()
