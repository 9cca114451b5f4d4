"""The example cases of the specification for URLs, run exactly as they are written."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gencode.permissions.urls import Hop, RedirectChain, Target, walk

CASES = Path(__file__).parent.parent / "cases" / "ssrf.jsonl"
REBOUND: dict[str, Any] = {
    "id": "rebinding",
    "url": "http://flip.example.net/a",
    "dns": {"flip.example.net": ["151.101.1.69"]},
    "redirects": ["/b"],
    "rebind": {"flip.example.net": ["127.0.0.1"]},
    "connect_ip": "151.101.1.69",
    "expect": "allow",
}


def written_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text("utf-8").splitlines() if line.strip()]


def names(case: dict[str, Any]) -> Callable[[str], Sequence[str]]:
    """A name server that gives another answer to whoever asks a second time."""
    asked: set[str] = set()

    def lookup(host: str) -> Sequence[str]:
        again = host in asked and "rebind" in case
        asked.add(host)
        answers: Any = case["rebind"] if again else case["dns"]
        return answers.get(host, ())

    return lookup


@pytest.mark.parametrize("case", [*written_cases(), REBOUND], ids=lambda case: case["id"])
def test_the_case_is_decided_as_it_expects(case: dict[str, Any]) -> None:
    found = walk(case["url"], case.get("redirects", []), names(case))
    assert found.allowed == (case["expect"] == "allow"), found.why
    if "connect_ip" in case:
        assert {hop.addresses for hop in found.hops} == {(case["connect_ip"],)}


def test_a_walk_keeps_every_step_and_the_addresses_it_may_go_to() -> None:
    answers = {"one.example.net": ["151.101.1.69", "151.101.1.69"], "two.example.net": ["2606:4700::0:1"]}
    found = walk("http://ONE.example.net./a?b#c", ["//two.example.net:8080/d"], answers.__getitem__)
    assert found == RedirectChain(
        (
            Hop(Target("http", "one.example.net", 80, "/a?b"), ("151.101.1.69",)),
            Hop(Target("http", "two.example.net", 8080, "/d"), ("2606:4700::1",)),
        )
    )
    assert found.why == "'http://two.example.net:8080/d' is on the public internet, at 2606:4700::1."


def test_a_walk_ends_where_it_is_refused_and_asks_no_name_beyond() -> None:
    asked: list[str] = []

    def lookup(host: str) -> list[str]:
        asked.append(host)
        return ["10.1.2.3"] if host == "b.example.net" else ["1.1.1.1"]

    found = walk("https://a.example.net", ["/x", "https://b.example.net/", "https://c.example.net/"], lookup)
    why = "b.example.net leads to 10.1.2.3, which is no public address."
    refusal = f"'https://b.example.net/' is not fetched: {why}"
    assert found == RedirectChain(
        (
            Hop(Target("https", "a.example.net", 443, "/"), ("1.1.1.1",)),
            Hop(Target("https", "a.example.net", 443, "/x"), ("1.1.1.1",)),
        ),
        refusal,
    )
    assert (found.allowed, found.why, asked) == (False, refusal, ["a.example.net", "b.example.net"])
