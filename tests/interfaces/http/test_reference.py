"""The reference page has every route with its right, and no other."""

import re
from pathlib import Path

from gencode.interfaces.http.application import ENDPOINTS
from gencode.interfaces.http.openapi import event_types

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "http.md"
ROW = re.compile(r"^\| `((?:GET|POST|PUT) /api/\S+)` \| ([a-z ]+) \|", re.MULTILINE)


def spelled(path: str) -> str:
    return re.sub(r":\w+}", "}", path)


def test_the_reference_has_every_route_with_its_right() -> None:
    told = dict(ROW.findall(PAGE.read_text("utf-8")))
    real = {f"{each.method} {spelled(each.path)}": each.right for each in ENDPOINTS}
    assert {route: rights.split()[0] for route, rights in told.items()} == real


def test_the_reference_names_what_comes_over_a_stream() -> None:
    text = PAGE.read_text("utf-8")
    named = {name for name in event_types() if name.startswith(("SubSession", "Stream", "Questions", "Chat"))}
    assert {name for name in named if f"`{name}`" not in text} == set()
