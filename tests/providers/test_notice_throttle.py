"""What many agents have to say is told now and then."""

import asyncio

from gencode.providers.request_queue import NoticeThrottle


async def test_what_is_said_again_and_again_is_news_only_after_a_while() -> None:
    news = NoticeThrottle(0.2)
    at_once = [news.due() for _ in range(100)]
    await asyncio.sleep(0.25)
    later = [news.due() for _ in range(100)]
    assert (at_once, later) == ([True, *[False] * 99], [True, *[False] * 99])


async def test_each_has_its_own_news() -> None:
    assert [NoticeThrottle().due() for _ in range(2)] == [True, True]
