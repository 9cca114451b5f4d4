"""One browser for all tests of the page that run in a process."""

from collections.abc import AsyncGenerator

import pytest_asyncio
from playwright.async_api import Browser

from tests.interfaces.page.browsing import chromium


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def browser() -> AsyncGenerator[Browser, None]:
    async with chromium() as opened:
        yield opened
