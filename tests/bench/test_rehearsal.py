"""The rehearsal kit: recorded stories still play, and what they measure stays within its bounds."""

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from bench.rehearsal.endpoint import JSON, Recorder, WrittenReplies, endpoint
from bench.rehearsal.sizes import changes, of_kind, table
from bench.rehearsal.story import STORIES, Played, Story
from tests.waiting import until

FIRST_REQUEST = 4_000
READ_ONLY_AGENT = 1_600
ANSWERS = {
    "hello": ["Hello."],
    "delegation": ["`src/a.py:1` defines it; rename it there."],
    "refusals": ["Nothing was changed"],
    "change": ["`a.py:2` returns 2 now.", "The number that first returns."],
}


@pytest.fixture(scope="module")
def played() -> dict[str, Played]:
    return {name: Story(STORIES / name).play() for name in ANSWERS}


def test_every_recorded_story_still_plays(played: dict[str, Played]) -> None:
    assert sorted(ANSWERS) == sorted(path.name for path in STORIES.iterdir())
    for name, answers in ANSWERS.items():
        story, play = Story(STORIES / name), played[name]
        assert play.codes == [3 if name == "refusals" else 0] * len(answers)
        assert all(text in output for text, output in zip(answers, play.outputs, strict=True))
        assert sorted(play.requests) == sorted(story.replies()) == sorted(story.requests())


def test_the_first_request_of_gen_p_hi_has_at_most_4_000_tokens(played: dict[str, Played]) -> None:
    assert of_kind(played["hello"].requests[1])["request"] <= FIRST_REQUEST


def test_each_read_only_agent_has_at_most_1_600_tokens_with_its_tools(played: dict[str, Played]) -> None:
    sizes = [of_kind(played["delegation"].requests[number]) for number in (2, 3, 4, 5)]
    assert all(size["system"] + size["tools"] <= READ_ONLY_AGENT for size in sizes)


def test_sizes_and_changes_are_told_by_section() -> None:
    before: dict[str, Any] = {
        "messages": [
            {"role": "system", "content": "I am.\n\n## Mode: Plan\nRead."},
            {"role": "user", "content": "hi"},
        ],
        "tools": [{"type": "function", "function": {"name": "Read", "parameters": {}}}],
    }
    after = json.loads(json.dumps(before).replace("Read.", "Only read.").replace('"Read"', '"Look"'))
    assert [line[9:] for line in table(before).splitlines()] == [
        *("system: identity", "system: Mode: Plan", "message 1: user", "tool: Read"),
        *("system", "tools", "messages", "request"),
    ]
    assert changes(before, before) == ""
    reordered: list[Any] = [{"type": "function", "function": {"parameters": {}, "name": "Read"}}]
    assert changes(before, {**before, "tools": reordered}) == ""
    assert changes(before, after).splitlines()[:3] == [
        "system: Mode: Plan: 4 -> 6",
        "    -Read.",
        "    +Only read.",
    ]
    assert "tool: Read: 7 -> 0" in changes(before, after) and "tool: Look: 0 -> 7" in changes(before, after)


def asked(url: str, body: JSON) -> JSON:
    """The message with which an endpoint replies."""
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode())  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 – our own endpoint
        return json.load(answer)["choices"][0]["message"]


async def test_a_reply_is_written_by_hand_while_the_endpoint_waits(tmp_path: Path) -> None:
    request, reply = tmp_path / "requests/001.json", tmp_path / "replies/001.json"
    reply.parent.mkdir()
    with endpoint(Recorder(WrittenReplies(tmp_path), tmp_path)) as url:
        asking = asyncio.create_task(asyncio.to_thread(asked, url, {"messages": []}))
        await until(request.exists, "it is recorded")
        (tmp_path / "new").write_text('{"text": "by hand"}')
        (tmp_path / "new").rename(reply)
        assert await asking == {"role": "assistant", "content": "by hand"}
    assert json.loads(request.read_text()) == {"messages": []}


def test_a_reply_that_another_author_wrote_is_kept(tmp_path: Path) -> None:
    def author(number: int, request: JSON) -> JSON:
        return {"text": f"{number} {request['model']}"}

    written = WrittenReplies(tmp_path, author)
    with endpoint(Recorder(written, tmp_path)) as url:
        assert asked(url, {"model": "m", "messages": []})["content"] == "1 m"
    assert json.loads((tmp_path / "replies/001.json").read_text()) == {"text": "1 m"}
