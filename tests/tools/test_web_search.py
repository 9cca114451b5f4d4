"""WebSearch: real engines' answers, as we expect them, from a small internet."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.toolbox import Tool
from gencode.core.errors import ToolError
from gencode.tools.search_engines import brave, searxng, tavily
from gencode.tools.search_engines.brave import Brave
from gencode.tools.search_engines.duckduckgo import DuckDuckGo, results_of
from gencode.tools.search_engines.engine import SearchEngine, WebQuery, WebResult
from gencode.tools.search_engines.searxng import Searxng
from gencode.tools.search_engines.tavily import Tavily
from gencode.tools.web_search import WEB_SEARCH, choose_engine, web_search
from tests.tools.desk import Desk
from tests.workspaces.village import Act, House, Village, page, redirect, village_in

KEY = "tvly-0123456789abcdef"
HOST = "search.example.net"
URL = f"https://{HOST}/find"
GO_ON = "Go on without the web, or say what could not be looked up."


@pytest.fixture
async def village(tmp_path: Path) -> AsyncGenerator[Village, None]:
    async with village_in(tmp_path) as built:
        yield built


class Shelf:
    """An engine that has what it was given."""

    name = "Shelf"

    def __init__(self, *found: WebResult) -> None:
        self.found = list(found)
        self.queries: list[WebQuery] = []

    async def search(self, query: WebQuery) -> list[WebResult]:
        self.queries.append(query)
        return self.found


def linked(url: str) -> str:
    return f"//duckduckgo.com/l/?uddg={quote(url, safe='')}&amp;rut=abc"


def result(url: str, title: str, snippet: str, more: str = "") -> str:
    """One result as DuckDuckGo writes it."""
    return (
        f'<div class="result results_links web-result {more}"><h2 class="result__title">'
        f'<a rel="nofollow" class="result__a" href="{url}">{title}</a></h2>'
        f'<div class="result__extras"><a class="result__url" href="{url}"> shown </a></div>'
        f'<a class="result__snippet" href="{url}">{snippet}</a></div>'
    )


ADVERT = result("//duckduckgo.com/y.js?ad_domain=x.example", "Buy!", "Now.", "result--ad")
PAGE = (
    "<html><body><form><input name=q></form>"
    + ADVERT
    + result(
        linked("https://docs.python.org/3/?a=1&b=2"), "The <b>Python</b> &amp; docs", "All  of\n<b>it</b>."
    )
    + result("https://a.example/x", "a &lt; b", "")
    + result(linked("http://127.0.0.1/"), "Here", "A machine nearby.")
    + "<div class=nav-link>Next</div></body></html>"
)
PYTHON = WebResult("The Python & docs", "https://docs.python.org/3/?a=1&b=2", "docs.python.org", "All of it.")
OTHER = WebResult("a < b", "https://a.example/x", "a.example")


def answered(value: Any, status: str = "200 OK") -> Act:
    return page(json.dumps(value).encode(), "Content-Type: application/json", status=status)


def web(*found: tuple[str, str, str]) -> dict[str, Any]:
    names = ("title", "url", "description")
    return {"query": {}, "web": {"results": [dict(zip(names, each, strict=True)) for each in found]}}


def results(*found: tuple[str, str, str]) -> dict[str, Any]:
    names = ("title", "url", "content")
    return {"answer": None, "results": [dict(zip(names, each, strict=True), score=0.9) for each in found]}


FOUND = ("<strong>Title</strong>", "https://a.example/", "Some &amp; <b>text</b>")
HIT = WebResult("Title", "https://a.example/", "a.example", "Some & text")
MAKE: dict[str, Callable[[Village], SearchEngine]] = {
    "Brave": lambda village: Brave(KEY, village, URL),
    "Tavily": lambda village: Tavily(KEY, village, URL),
    "DuckDuckGo": lambda village: DuckDuckGo(village, URL),
}


async def built(village: Village, act: Act) -> House:
    return await village.build(HOST, act, port=443, tls=True)


async def trouble(engine: SearchEngine) -> str:
    with pytest.raises(ToolError) as raised:
        await engine.search(WebQuery("words"))
    assert KEY not in str(raised.value)
    return str(raised.value)


async def use(desk: Desk, tool: Tool, **arguments: Any) -> str:
    return await desk.use(tool, query="words", **arguments)


async def test_results_are_numbered_with_address_and_snippet_and_nothing_else(desk: Desk) -> None:
    shelf = Shelf(PYTHON, OTHER, PYTHON)
    assert await desk.use(web_search(shelf), query=" two\n words ") == (
        "[Found by Shelf:]\n1. The Python & docs\n   https://docs.python.org/3/?a=1&b=2\n   All of it.\n"
        "2. a < b\n   https://a.example/x"
    )
    assert shelf.queries == [WebQuery("two words")]


async def test_there_are_never_more_results_than_wanted(desk: Desk) -> None:
    shelf = Shelf(
        *(WebResult(str(number), f"https://a.example/{number}", "a.example") for number in range(30))
    )
    text = await use(desk, web_search(shelf), max_results=2)
    assert text.splitlines()[1:] == ["1. 0", "   https://a.example/0", "2. 1", "   https://a.example/1"]
    with pytest.raises(ToolError, match="max_results"):
        await use(desk, web_search(shelf), max_results=21)


@pytest.mark.parametrize(
    ("domains", "titles"),
    [
        ({"allowed_domains": ["python.org"]}, [PYTHON.title]),
        ({"allowed_domains": ["https://Docs.Python.org/x", "*.a.example"]}, [PYTHON.title, OTHER.title]),
        ({"allowed_domains": ["ython.org"]}, []),
        ({"blocked_domains": ["python.org"]}, [OTHER.title]),
        ({"allowed_domains": ["python.org"], "blocked_domains": ["docs.python.org"]}, []),
    ],
)
async def test_domains_count_whatever_an_engine_makes_of_them(
    desk: Desk, domains: dict[str, Sequence[str]], titles: list[str]
) -> None:
    text = await use(desk, web_search(Shelf(PYTHON, OTHER)), **domains)
    found = [line.partition(". ")[2] for line in text.splitlines() if line[0].isdigit()]
    assert found == titles
    assert bool(titles) != (text == "Shelf found nothing for 'words' in these domains; try other words.")


@pytest.mark.parametrize(
    "domain", ["", "localhost", "a b.com", "x.org OR site:y.org", "-a.com", "münchen.de"]
)
async def test_what_is_no_domain_is_said(desk: Desk, domain: str) -> None:
    with pytest.raises(ToolError) as raised:
        await use(desk, web_search(Shelf()), blocked_domains=[domain])
    assert str(raised.value) == f"{domain!r} is not a domain; write it as `example.com`."


def test_engines_are_told_domains_in_words() -> None:
    assert WebQuery("x").spelled == "x"
    assert WebQuery("x", allowed=("a.org",), blocked=("b.org", "c.org")).spelled == (
        "x site:a.org -site:b.org -site:c.org"
    )
    assert WebQuery("x", allowed=("a.org", "b.org")).spelled == "x (site:a.org OR site:b.org)"


async def test_nothing_found_and_nothing_asked_are_said(desk: Desk) -> None:
    assert await use(desk, web_search(Shelf())) == "Shelf found nothing for 'words'; try other words."
    with pytest.raises(ToolError, match="The query is empty"):
        await desk.use(web_search(Shelf()), query=" \n")


async def test_duckduckgo_is_read_without_adverts_and_machines_nearby(village: Village) -> None:
    house = await built(village, page(PAGE.encode()))
    assert await DuckDuckGo(village, URL).search(WebQuery("é x", allowed=("a.org",))) == [PYTHON, OTHER]
    (visit,) = house.visits
    assert parse_qs(urlsplit(visit.path).query) == {"q": ["é x site:a.org"]}


def test_duckduckgos_other_page_is_read_too() -> None:
    lite = (
        "<table><tr><td>1.<td><a rel='nofollow' href='https://a.example/x' class='result-link'>a &lt; b</a>"
        "<tr><td><td class='result-snippet'> Some <b>text</b> </td></table>"
    )
    assert list(results_of(lite)) == [WebResult("a < b", "https://a.example/x", "a.example", "Some text")]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (
            page(b"<div class=anomaly-modal>", status="202 Accepted"),
            "DuckDuckGo asks for a CAPTCHA",
        ),
        (page(b"", status="403 Forbidden"), "DuckDuckGo asks for a CAPTCHA"),
        (
            page(b"<p>all new"),
            "The page of DuckDuckGo could not be read; set TAVILY_API_KEY, BRAVE_API_KEY or",
        ),
        (page(b"", status="500 No"), f"DuckDuckGo answered with status 500 and no results. {GO_ON}"),
    ],
)
async def test_what_duckduckgo_does_instead_of_answering_is_told(
    village: Village, act: Act, said: str
) -> None:
    await built(village, act)
    assert (await trouble(DuckDuckGo(village, URL))).startswith(said)


async def test_duckduckgo_may_find_nothing(village: Village) -> None:
    await built(village, page(b"<div class='no-results'>No results found</div>"))
    assert await DuckDuckGo(village, URL).search(WebQuery("x")) == []


@given(st.integers(0, len(PAGE)), st.integers(0, len(PAGE)), st.text(alphabet="<>\"'&/= axlit_", max_size=20))
def test_a_broken_page_of_results_is_read_as_far_as_it_goes(start: int, end: int, noise: str) -> None:
    found = list(results_of(PAGE[:start] + noise + PAGE[end:]))
    assert all(len(each.title) <= 201 and each.url.startswith("http") for each in found)


async def test_brave_gets_its_key_in_a_header(village: Village) -> None:
    house = await built(village, answered(web(FOUND, ("", "javascript:x", ""))))
    assert await Brave(KEY, village, URL).search(WebQuery("x y", 30, blocked=("b.org",))) == [HIT]
    (visit,) = house.visits
    assert visit.header("x-subscription-token") == KEY
    asked = parse_qs(urlsplit(visit.path).query)
    assert (asked["q"], asked["count"], KEY in visit.path) == (["x y -site:b.org"], ["20"], False)


async def test_tavily_gets_its_key_in_a_header_and_domains_in_fields(village: Village) -> None:
    house = await built(village, answered(results(FOUND)))
    assert await Tavily(KEY, village, URL).search(WebQuery("x", 3, ("a.org",), ("b.org",))) == [HIT]
    (visit,) = house.visits
    assert visit.header("authorization") == f"Bearer {KEY}"
    assert json.loads(visit.body) == {
        "query": "x",
        "max_results": 3,
        "include_domains": ["a.org"],
        "exclude_domains": ["b.org"],
    }


@pytest.mark.parametrize("name", ["Brave", "Tavily"])
@pytest.mark.parametrize(
    ("act", "said"),
    [
        (answered({"detail": KEY}, "401 No"), "refused the request (status 401): look at the key in"),
        (answered({}, "429 Slow"), "got too many requests (status 429)"),
        (answered({}, "503 No"), f"answered with status 503 and no results. {GO_ON}"),
        (page(b"<html>"), f"sent a response that cannot be read. {GO_ON}"),
        (answered({"results": KEY, "web": KEY}), f"sent a response that cannot be read. {GO_ON}"),
    ],
)
async def test_an_engine_that_fails_says_so_without_its_key(
    village: Village, name: str, act: Act, said: str
) -> None:
    await built(village, act)
    assert (await trouble(MAKE[name](village))).startswith(f"{name} {said}")


@pytest.mark.parametrize("name", list(MAKE))
async def test_without_a_network_a_plain_sentence_is_said(village: Village, name: str) -> None:
    said = await trouble(MAKE[name](village))
    assert said == f"{name} cannot be reached: {HOST} has no address. {GO_ON}"
    await built(village, page(b""))
    village.dead.add("151.101.1.1")
    assert await trouble(MAKE[name](village)) == (
        f"The search with {name} failed: {HOST} cannot be reached at port 443: nothing listens "
        f"there; try another page. {GO_ON}"
    )


@pytest.mark.parametrize("name", list(MAKE))
async def test_a_key_is_not_carried_to_another_host(village: Village, name: str) -> None:
    await built(village, redirect("https://other.example.net/", 301))
    other = await village.build("other.example.net", answered(web(FOUND)), port=443, tls=True)
    assert "it redirects to other.example.net." in await trouble(MAKE[name](village))
    assert other.connections == 0


async def test_a_searxng_on_this_machine_is_asked_because_the_user_named_it(village: Village) -> None:
    house = await village.build("a.example.net", answered(results(FOUND)))
    address, port = village.place("151.101.1.1", 80)
    for path in ("", "/", "/search"):
        engine = Searxng(f"http://{address}:{port}{path}")
        assert await engine.search(WebQuery("x", allowed=("a.example",))) == [HIT]
    asked = [urlsplit(visit.path) for visit in house.visits]
    assert [each.path for each in asked] == ["/search"] * 3
    assert parse_qs(asked[0].query) == {"q": ["x site:a.example"], "format": ["json"]}


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (
            answered({}, "403 No"),
            "SearXNG refused the request (status 403): its settings have to allow the format",
        ),
        (redirect("http://a.example/"), "SearXNG answered with status 302 and no results."),
        (page(b"<html>"), "SearXNG sent a response that cannot be read."),
        (
            page(b"x" * 3_000_000),
            "SearXNG (the address in SEARXNG_URL) answered with more than anybody can read.",
        ),
    ],
)
async def test_what_searxng_does_instead_of_answering_is_told(village: Village, act: Act, said: str) -> None:
    await village.build("a.example.net", act)
    address, port = village.place("151.101.1.1", 80)
    assert (await trouble(Searxng(f"http://user:{KEY}@{address}:{port}"))).startswith(said)


@pytest.mark.parametrize("url", [f"http://user:{KEY}@127.0.0.1:1/", f"http://[{KEY}/", f"http://x:{KEY}/"])
async def test_a_searxng_that_is_not_there_is_told_without_its_address(url: str) -> None:
    assert await trouble(Searxng(url)) == (
        "SearXNG (the address in SEARXNG_URL) cannot be reached; does it run?"
    )


async def test_a_searxng_address_that_is_none_is_said() -> None:
    said = "SEARXNG_URL is not an http:// or https:// address; correct it."
    assert await trouble(Searxng(f"file:///{KEY}")) == said


def test_the_engine_is_the_first_that_the_environment_has_what_it_needs_for() -> None:
    every = {tavily.VARIABLE: KEY, brave.VARIABLE: KEY, searxng.VARIABLE: "http://127.0.0.1:8888"}
    kinds = [type(choose_engine(every))]
    for name in list(every):
        del every[name]
        kinds.append(type(choose_engine(every)))
    assert kinds == [Tavily, Brave, Searxng, DuckDuckGo]
    assert type(choose_engine({tavily.VARIABLE: " ", brave.VARIABLE: ""})) is DuckDuckGo


async def test_the_built_in_tool_asks_the_engine_of_the_environment(
    desk: Desk, village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    await village.build("a.example.net", answered(results(FOUND)))
    address, port = village.place("151.101.1.1", 80)
    for name in (tavily.VARIABLE, brave.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(searxng.VARIABLE, f"http://{address}:{port}")
    assert (
        await use(desk, WEB_SEARCH) == "[Found by SearXNG:]\n1. Title\n   https://a.example/\n   Some & text"
    )


def test_the_tool_only_reads_and_is_known_by_both_names() -> None:
    assert (WEB_SEARCH.name, WEB_SEARCH.effect, WEB_SEARCH.aliases) == ("WebSearch", "read", ("web_search",))
