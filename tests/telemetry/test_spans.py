"""Facts become spans that fit together, whichever process tells them."""

from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct
from msgspec.json import decode

from gencode import GenCode
from gencode.core.events import Event, TaskEnded
from gencode.core.messages import AssistantMessage, UserMessage
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.telemetry import attributes
from gencode.telemetry.attributes import ContentAttributes, chat_attributes
from gencode.telemetry.spans import Span, SpanBuilder, TracedTask, nanoseconds, span_number
from gencode.testing import call, says

SECRET = "the password is hunter2"


async def work(store: MemoryStore, folder: Path) -> list[Event]:
    """A conversation that sends two agents, one of which is refused something; all facts in their order."""
    (folder / "notes.txt").write_text(SECRET)
    script = ScriptedProvider.of(
        {
            "main": [
                says(
                    "",
                    call("Task", subagent_type="Explore", prompt=SECRET),
                    call("Task", subagent_type="Plan", prompt="plan it"),
                ),
                says(SECRET),
            ],
            "Explore": [says("", call("Read", file_path="notes.txt")), says("Found.")],
            "Plan": [says("", call("Write", file_path="x", content=SECRET)), says("Planned.")],
        }
    )
    heard: list[Event] = []
    async with GenCode.open(folder, model=script, store=store) as gen:
        async for event in gen.ask("go"):
            heard.append(event)
    return heard


async def told(builder: SpanBuilder, events: list[Event]) -> list[Span]:
    return [span for event in events for span in await builder.add(event)]


def tree(spans: list[Span]) -> list[tuple[str, str]]:
    """Every span with the name of the one above it."""
    names = {span.id: span.name for span in spans}
    return sorted((span.name, names.get(span.parent, "")) for span in spans)


async def test_session_agents_model_calls_and_tools_are_one_tree(tmp_path: Path) -> None:
    store = MemoryStore()
    spans = await told(SpanBuilder(store, lambda _: False), await work(store, tmp_path))
    chats = [(chat_of(spans), f"invoke_agent {agent}") for agent in ("Explore", "Plan", "main") for _ in "12"]
    assert tree(spans) == [
        *chats,
        ("execute_tool Read", "invoke_agent Explore"),
        ("execute_tool Task", "invoke_agent main"),
        ("execute_tool Task", "invoke_agent main"),
        ("execute_tool Write", "invoke_agent Plan"),
        ("invoke_agent Explore", "execute_tool Task"),
        ("invoke_agent Plan", "execute_tool Task"),
        ("invoke_agent main", "session"),
        ("session", ""),
    ]
    assert len({span.trace for span in spans}) == 1
    assert len({span.id for span in spans}) == len(spans)
    assert all(span.seconds >= 0 for span in spans)


def chat_of(spans: list[Span]) -> str:
    [name] = {span.name for span in spans if span.operation == "chat"}
    return name


async def test_each_process_tells_its_part_and_the_parts_fit(tmp_path: Path) -> None:
    """One hears everything; of two others one does the children and the other the rest."""
    store = MemoryStore()
    heard = await work(store, tmp_path)
    durable = [event for event in heard if event.seq is not None]
    whole = await told(SpanBuilder(store, lambda _: False), durable)
    root = durable[0].task
    child = await told(SpanBuilder(store, lambda task: task == root), [e for e in durable if e.task != root])
    sender = await told(SpanBuilder(store, lambda task: task != root), durable)
    ids = sorted((span.name, span.id, span.parent, span.trace) for span in whole)
    assert sorted((span.name, span.id, span.parent, span.trace) for span in (*child, *sender)) == ids
    assert {span.operation for span in sender} == {"session", "invoke_agent", "chat", "execute_tool"}


async def test_no_content_is_told_unless_it_is_switched_on(tmp_path: Path) -> None:
    store = MemoryStore()
    heard = await work(store, tmp_path)
    quiet = await told(SpanBuilder(store, lambda _: False), heard)
    assert SECRET not in str(quiet)
    assert str(tmp_path) not in str(quiet)
    assert "notes.txt" not in str(quiet)
    [reading] = [
        span
        for span in await told(SpanBuilder(store, lambda _: False, content=True), heard)
        if span.name == "execute_tool Read"
    ]
    assert SECRET in reading.attributes["gen_ai.tool.call.result"]
    assert reading.attributes["gen_ai.tool.call.arguments"] == '{"file_path": "notes.txt"}'


class TextPart(Struct, tag="text", tag_field="type", forbid_unknown_fields=True):
    """As the schemas of the conventions have it, where all fields are required."""

    content: str


class CallPart(Struct, tag="tool_call", tag_field="type", forbid_unknown_fields=True):
    id: str
    name: str
    arguments: Any


class ResponsePart(Struct, tag="tool_call_response", tag_field="type", forbid_unknown_fields=True):
    id: str
    response: Any


Part = TextPart | CallPart | ResponsePart


class Input(Struct, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant", "tool"]
    parts: list[Part]


class Output(Struct, forbid_unknown_fields=True):
    role: Literal["assistant"]
    parts: list[Part]
    finish_reason: Literal["stop", "length", "content_filter", "tool_call", "error"]


def conversation(span: Span) -> tuple[list[Input], list[Output]]:
    """What went in and came out, read as the conventions demand it."""
    return (
        decode(span.attributes["gen_ai.input.messages"], type=list[Input]),
        decode(span.attributes["gen_ai.output.messages"], type=list[Output]),
    )


async def test_content_is_told_in_the_form_of_the_conventions(tmp_path: Path) -> None:
    store = MemoryStore()
    heard = await work(store, tmp_path)
    spans = await told(SpanBuilder(store, lambda _: False, content=True), heard)
    told_all = {
        (span.attributes["gen_ai.agent.name"], span.operation): conversation(span)
        for span in spans
        if span.operation in ("chat", "invoke_agent")
    }
    prompt, answer = Input("user", [TextPart(SECRET)]), Output("assistant", [TextPart("Found.")], "stop")
    (first,) = [
        conversation(span)
        for span in spans
        if span.operation == "chat" and span.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
        if span.attributes["gen_ai.agent.name"] == "Explore"
    ]
    inputs, outputs = first
    assert inputs == [prompt]
    assert [(each.parts[0], each.finish_reason) for each in outputs] == [
        (CallPart(_id(outputs), "Read", {"file_path": "notes.txt"}), "tool_call")
    ]
    inputs, outputs = told_all["Explore", "chat"]
    assert (inputs[0], [each.role for each in inputs], outputs) == (
        prompt,
        ["user", "assistant", "tool"],
        [answer],
    )
    response = inputs[2].parts[0]
    assert isinstance(response, ResponsePart)
    assert (response.id, SECRET in response.response) == (_id(first[1]), True)
    assert told_all["Explore", "invoke_agent"] == ([prompt], [answer])


def _id(outputs: list[Output]) -> str:
    part = outputs[0].parts[0]
    assert isinstance(part, CallPart)
    return part.id


async def test_a_task_that_goes_on_tells_what_its_model_was_told_before(tmp_path: Path) -> None:
    store = MemoryStore()
    script = ScriptedProvider.of({"*": [says("One."), says("Two.")]})
    async with GenCode.open(tmp_path, model=script, store=store) as gen:
        first = await gen.task("Explore", "go")
        await gen.resume(first.agent_id, "go on")
    events = await store.events(first.agent_id)
    again = next(place for place, event in enumerate(events) if isinstance(event.fact, TaskEnded)) + 1
    spans = await told(SpanBuilder(store, lambda _: False, content=True), events[again:])
    (chat,) = [span for span in spans if span.operation == "chat"]
    inputs, outputs = conversation(chat)
    texts = [part.content for each in inputs for part in each.parts if isinstance(part, TextPart)]
    assert (texts, outputs[0].parts) == (["go", "One.", "go on"], [TextPart("Two.")])


async def test_a_long_history_is_told_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "LONGEST_HISTORY", 1_000)
    messages = [UserMessage(f"{number} {'x' * 300}") for number in range(9)]
    said = ContentAttributes(True).input_messages(messages)["gen_ai.input.messages"]
    inputs = decode(said, type=list[Input])
    texts = [part.content for each in inputs for part in each.parts if isinstance(part, TextPart)]
    assert [text[0] for text in texts] == ["7", "8"]
    assert ContentAttributes(False).input_messages(messages) == {}


@pytest.mark.parametrize(
    ("model", "provider", "named"),
    [
        ("anthropic/claude-sonnet-5", "anthropic", "claude-sonnet-5"),
        ("openrouter/anthropic/claude-sonnet-5", "openrouter", "anthropic/claude-sonnet-5"),
        ("local//home/me/secret/tiny.gguf", "local", "tiny.gguf"),
        ("local/tiny.gguf", "local", "tiny.gguf"),
        ("scripted:/home/me/secret/x.jsonl", "gencode", "scripted"),
        ("offline", "gencode", "offline"),
    ],
)
def test_a_model_has_the_name_that_its_provider_knows(model: str, provider: str, named: str) -> None:
    whose = TracedTask("t", "", "Explore", "t", 1, 2, 3)
    words = chat_attributes(whose, model, (), AssistantMessage("hi", model=model), ContentAttributes(False))
    assert [words[f"gen_ai.{name}"] for name in ("provider.name", "request.model", "response.model")] == [
        provider,
        named,
        named,
    ]


async def test_a_refused_call_and_a_task_that_did_not_complete_are_errors(tmp_path: Path) -> None:
    store = MemoryStore()
    spans = await told(SpanBuilder(store, lambda _: False), await work(store, tmp_path))
    errors = {span.name: span.error for span in spans if span.error}
    assert errors in ({"execute_tool Write": "denied"}, {"execute_tool Write": "tool_error"})
    script = ScriptedProvider.of({"*": []})
    async with GenCode.open(tmp_path, model=script, store=store) as gen:
        outcome = await gen.task("Explore", "go")
    failed = await told(SpanBuilder(store, lambda _: False), await store.events(outcome.agent_id))
    assert [(span.name, span.error) for span in failed] == [
        ("invoke_agent Explore", "failed"),
        ("session", "failed"),
    ]


async def test_a_task_that_goes_on_gets_another_span_below_the_same_session(tmp_path: Path) -> None:
    store = MemoryStore()
    script = ScriptedProvider.of({"*": [says("One."), says("Two.")]})
    async with GenCode.open(tmp_path, model=script, store=store) as gen:
        first = await gen.task("Explore", "go")
        await gen.resume(first.agent_id, "go on")
    events = await store.events(first.agent_id)
    spans = await told(SpanBuilder(store, lambda _: False), events)
    runs = [span for span in spans if span.operation == "invoke_agent"]
    [session] = [span for span in spans if span.operation == "session"]
    assert [run.parent for run in runs] == [session.id] * 2
    assert runs[0].id != runs[1].id
    again = [event for event in events if (event.seq or 0) > 4]
    later = await told(SpanBuilder(store, lambda _: False), again)
    assert [span for span in later if span.operation == "invoke_agent"] == runs[1:]


async def test_facts_of_tasks_nobody_knows_are_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    heard = await work(store, tmp_path)
    assert await told(SpanBuilder(MemoryStore(), lambda _: False), heard[3:4]) == []


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [("1970-01-01T00:00:00.000001Z", 1_000), ("2026-11-15T02:32:00.123456Z", 1_794_709_920_123_456_000)],
)
def test_times_are_told_to_the_microsecond(stamp: str, expected: int) -> None:
    assert nanoseconds(stamp) == expected


def test_numbers_are_the_same_everywhere_and_never_nothing() -> None:
    assert span_number("9f3a1c2e", "session") == span_number("9f3a1c2e", "session")
    parts: list[Any] = [("a", "b"), ("ab",), ("a\0b",), ("b", "a")]
    assert len({span_number(*each) for each in parts}) == 3  # only what is joined alike is alike
    assert all(0 < span_number(str(each), size=16) < 2**128 for each in range(100))
