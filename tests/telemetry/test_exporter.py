"""Spans and metrics reach a real collector; one that is gone hurts nobody; off means nothing is loaded."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gencode import GenCode, UserMistake
from gencode.agent.trace_settings import TraceStatus, standing
from gencode.core.extras import installing
from gencode.core.messages import Usage
from gencode.providers.scripted import ScriptedProvider
from gencode.telemetry.otel_setup import Telemetry
from gencode.testing import call, says
from tests.interfaces.cli.running import gen, script
from tests.telemetry.collector import Collector, collecting
from tests.waiting import until

TASK = {"subagent_type": "Explore", "prompt": "look at hunter2", "isolation": "process"}
TURNS = {
    "main": [{"text": "", "calls": [{"name": "Task", "input": TASK}]}, {"text": "Done."}],
    "Explore": [{"text": "", "calls": [{"name": "Glob", "input": {"pattern": "*"}}]}, {"text": "Found."}],
}
EMBEDDED = """
import asyncio, json
from opentelemetry import trace, metrics
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from gencode import GenCode
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import says

spans, numbers = InMemorySpanExporter(), InMemoryMetricReader()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
metrics.set_meter_provider(MeterProvider([numbers]))

async def main():
    with trace.get_tracer("host").start_as_current_span("request") as request:
        script = ScriptedProvider.of({"*": [says("Found.")]})
        async with GenCode.open(model=script, settings={"telemetry": True}) as gen:
            await gen.task("Explore", "go")
        return request.get_span_context().span_id

asked = asyncio.run(main())
told = [
    {"name": span.name, "links": [link.context.span_id == asked for link in span.links]}
    for span in spans.get_finished_spans()
]
data = numbers.get_metrics_data()
names = [m.name for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
print(json.dumps({"spans": told, "metrics": names}))
"""
OFF = """
import asyncio, sys
from gencode import GenCode

async def main():
    async with GenCode.open(model="offline") as gen:
        await gen.task("Explore", "Where is it?")

asyncio.run(main())
print([name for name in sys.modules if name.startswith(("opentelemetry", "gencode.telemetry."))])
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def test_a_session_over_two_processes_arrives_as_one_tree(tmp_path: Path, collector: Collector) -> None:
    ended = gen(
        "-p",
        "Look for hunter2",
        "--model",
        script(tmp_path, **TURNS),
        "--output-format",
        "json",
        cwd=tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
        TRACEPARENT="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    assert (ended.code, ended.json["result"]) == (0, "Done."), ended.err
    found = collector.by_name()
    above = {"session": "", "invoke_agent main": "session", "execute_tool Task": "invoke_agent main"}
    above |= {"invoke_agent Explore": "execute_tool Task", "execute_tool Glob": "invoke_agent Explore"}
    names = {span.id: span.name for span in collector.spans}
    assert {name: names.get(found[name].parent, "") for name in above} == above
    assert len({span.trace for span in collector.spans}) == 1
    assert sorted(span.name for span in collector.spans) == sorted([*above, *["chat scripted"] * 4])
    child = ended.json["tasks"][0]
    assert found["invoke_agent Explore"].attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Explore",
        "gen_ai.agent.id": child["agentId"],
        "gen_ai.conversation.id": ended.json["sessionId"],
        "gen_ai.provider.name": "gencode",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": 0,
        "gen_ai.usage.output_tokens": 0,
        "gencode.task.status": "completed",
        "gencode.task.turns": 2,
    }
    assert (found["session"].links, found["invoke_agent main"].links) == (1, 0)
    assert collector.services == {"gencode"}
    assert b"hunter2" not in collector.raw
    assert str(tmp_path).encode() not in collector.raw


async def test_tokens_cost_and_time_are_counted(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    used = Usage(input_tokens=100, output_tokens=20, cached_tokens=60, usd=0.25)
    model = ScriptedProvider.of(
        {"*": [says("", call("Glob", pattern="*"), usage=used), says("It.", usage=used)]}
    )
    async with GenCode.open(tmp_path, model=model) as gen:
        await gen.task("Explore", "go")
    tokens = {
        each["gen_ai.token.type"]: each["value"] for each in collector.metrics["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": 200, "output": 40}
    assert [each["value"] for each in collector.metrics["gencode.cost.usd"]] == [0.5]
    [duration] = collector.metrics["gen_ai.client.operation.duration"]
    assert (duration["gen_ai.operation.name"], duration["value"] > 0) == ("chat", True)
    run = collector.by_name()["invoke_agent Explore"].attributes
    assert (run["gen_ai.usage.input_tokens"], run["gen_ai.usage.cache_read.input_tokens"]) == (200, 120)
    assert run["gencode.cost.usd"] == 0.5


async def test_a_collector_that_is_gone_hurts_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:  # nobody answers there: it is bound and does not listen
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        async with GenCode.open(tmp_path, model=ScriptedProvider.of({"*": [says("Found.")]})) as gen:
            outcome = await gen.task("Explore", "go")
        await until(lambda: not senders(), "nobody tries to send any more")
    assert (outcome.result, outcome.status) == ("Found.", "completed")


def senders() -> list[str]:
    """The threads of OpenTelemetry."""
    return [each.name for each in threading.enumerate() if each.name.startswith("Otel")]


def test_a_program_with_its_own_telemetry_gets_our_spans_there(tmp_path: Path) -> None:
    told = json.loads(run(EMBEDDED, tmp_path))
    assert told == {
        "spans": [
            {"name": told["spans"][0]["name"], "links": []},
            {"name": "invoke_agent Explore", "links": []},
            {"name": "session", "links": [True]},
            {"name": "request", "links": []},
        ],
        "metrics": ["gen_ai.client.operation.duration"],
    }
    assert told["spans"][0]["name"].startswith("chat ")


def test_off_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    assert run(OFF, tmp_path) == "[]\n"


@pytest.mark.parametrize(
    ("environ", "wanted", "on"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, False, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, False, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, False, False),
        ({"OTEL_SDK_DISABLED": "TRUE"}, True, False),
    ],
)
def test_a_setting_or_an_endpoint_switches_it_on(environ: dict[str, str], wanted: bool, on: bool) -> None:
    assert Telemetry(wanted, environ=environ).on is on


def test_a_missing_extra_is_said_only_to_who_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gencode.agent.trace_settings.NEEDED", ("not_there_at_all.sdk",))
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    assert Telemetry(False, environ=endpoint).on is False
    with pytest.raises(UserMistake) as mistake:
        Telemetry(True)
    assert str(mistake.value).endswith(installing("otel"))


@pytest.mark.parametrize("said", ["nonsense", "127.0.0.1:4318", "ftp://host", "http://", "http://[::1"])
def test_an_endpoint_that_is_no_address_is_named(said: str) -> None:
    name = "OTEL_EXPORTER_OTLP_ENDPOINT"
    why = f"{name} is no address that begins with http:// or https:// and names a host"
    assert standing(False, {name: said}) == TraceStatus(
        on=False, trouble=f"No traces arrive anywhere: {why}.", fix=f"correct {name}"
    )


def test_what_keeps_traces_from_being_sent_is_one_line_and_a_row_of_the_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = gen(
        "-p",
        "hi",
        "--model",
        script(tmp_path, main=[{"text": "ok"}]),
        cwd=tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT="nonsense",
    )
    assert (ended.code, ended.out) == (0, "ok\n")
    assert [line for line in ended.err.splitlines() if "No traces arrive anywhere" in line] != []
    shown = gen("doctor", "--json", cwd=tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://user:pw@127.0.0.1:1/v1")
    [row] = [each for each in shown.json["checks"] if each["name"] == "traces"]
    assert "pw" not in str(row)
    monkeypatch.setattr("gencode.agent.trace_settings.NEEDED", ("not_there_at_all.sdk",))
    found = standing(False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert (found.on, found.fix) == (False, installing("otel"))


def run(code: str, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
