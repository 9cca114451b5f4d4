"""An agent reads the web: only hosts that a rule or a person allows, and never a machine nearby."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.workspaces.village import Village, page, redirect, village_in

from gencode.app import GenCode
from gencode.core.events import CallDecided
from gencode.core.messages import ToolMessage, ToolResult
from gencode.core.questions import Answer, Question
from gencode.core.rules import Action, Remedy
from gencode.core.task import transcript_of
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Turns, call, says
from gencode.tools.web_fetch import web_fetch

DOCS = "http://docs.example.net/"


@pytest.fixture
async def village(tmp_path: Path) -> AsyncGenerator[Village, None]:
    async with village_in(tmp_path) as built:
        await built.build("docs.example.net", page(b"<h1>Docs</h1>", "Content-Type: text/html"))
        yield built


class Yes:
    """A person who says yes and counts how often they were asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question.call.input["url"])
        return Answer(allow=True)


@asynccontextmanager
async def opened(
    folder: Path, village: Village, agents: Mapping[str, Turns], person: Yes | None = None, **settings: Any
) -> AsyncGenerator[GenCode, None]:
    (folder / "ws").mkdir()
    async with GenCode.open(
        folder / "ws",
        model=ScriptedProvider.of(agents),
        tools=[web_fetch(village)],
        settings=settings,
        store=MemoryStore(),
        asker=person,
    ) as gen:
        yield gen


async def results(gen: GenCode, task: str) -> list[ToolResult]:
    told = transcript_of(await gen.history.events(task))
    return [each for message in told if isinstance(message, ToolMessage) for each in message.results]


def fetches(*urls: str) -> dict[str, Any]:
    return says("", *(call("WebFetch", url=url) for url in urls))


async def test_a_host_that_a_rule_allows_is_read_and_a_redirect_leads_no_further(
    tmp_path: Path, village: Village
) -> None:
    await village.build("old.example.net", redirect(DOCS))
    allow = ["WebFetch(domain:docs.example.net)", "WebFetch(domain:old.example.net)"]
    script = {"main": [fetches(DOCS, "http://old.example.net/", "http://other.example.net/"), says("read")]}
    async with opened(tmp_path, village, script, allow=allow) as gen:
        outcome = await gen.ask("go").outcome()
        read, moved, other = await results(gen, outcome.agent_id)
    assert (outcome.result, read.error, read.text.startswith("# Docs")) == ("read", False, True)
    assert (moved.error, f"call WebFetch with {DOCS} if" in moved.text) == (True, True)
    assert (other.error, "nobody can approve it in this run" in other.text) == (True, True)
    assert village.looked_up == ["docs.example.net", "old.example.net"]


async def test_a_machine_nearby_is_denied_at_the_gate_in_every_mode(tmp_path: Path, village: Village) -> None:
    script = {"main": [fetches("http://127.0.0.1/", "http://metadata.internal/"), says("no")]}
    person = Yes()
    async with opened(
        tmp_path, village, script, person, permission_mode="dontAsk", allow=["WebFetch"]
    ) as gen:
        outcome = await gen.ask("go").outcome()
        events = await gen.history.events(outcome.agent_id)
    decided = [event.fact.decision for event in events if isinstance(event.fact, CallDecided)]
    assert [(each.action, each.remedy) for each in decided] == [(Action.DENY, Remedy.NOTHING)] * 2
    assert (person.asked, village.looked_up) == ([], [])


async def test_a_person_is_asked_once_per_host_also_for_the_agents_below(
    tmp_path: Path, village: Village
) -> None:
    script = {
        "main": [fetches(DOCS), says("", call("Task", subagent_type="researcher", prompt="go")), says("ok")],
        "researcher": [fetches(f"{DOCS}more"), says("found")],
    }
    person = Yes()
    async with opened(tmp_path, village, script, person) as gen:
        outcome = await gen.ask("go").outcome()
        (child,) = await gen.tasks(parent=outcome.agent_id)
        (read,) = await results(gen, child.agent_id)
    assert (person.asked, read.error, read.for_model.startswith(f"[{DOCS}more (text/html, 13 bytes)]")) == (
        [DOCS],
        False,
        True,
    )
