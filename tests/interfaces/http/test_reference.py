"""The page about the HTTP API names every event that comes over a stream."""

from pathlib import Path

from gencode.interfaces.http.openapi import event_types

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "http.md"


def test_the_reference_names_what_comes_over_a_stream() -> None:
    text = PAGE.read_text("utf-8")
    named = {name for name in event_types() if name.startswith(("SubSession", "Stream", "Questions", "Chat"))}
    assert {name for name in named if f"`{name}`" not in text} == set()
