"""The OpenAPI document says what is there, and every answer is what it says."""

import re
from pathlib import Path
from typing import Any

import jsonschema_rs
from starlette.routing import Route

from gencode.interfaces.http.application import ENDPOINTS, web_app
from gencode.interfaces.http.openapi import event_types
from gencode.testing import call, says
from tests.interfaces.http.serving import Answer, Client, Served, served, take

LOOK = [says("", call("LS", path=".")), says("I have looked.")]
SCHEMA = "https://json-schema.org/draft/2020-12/schema"
BESIDE_THE_API = {("GET", "/"), ("GET", "/openapi.json"), ("GET", "/static/{name}")}


def spelled(path: str) -> str:
    return re.sub(r":\w+}", "}", path)


class Checked:
    """A client that holds every answer against the document, and remembers what was asked."""

    def __init__(self, client: Client, document: dict[str, Any]) -> None:
        self._client = client
        self._document = document
        self.asked: set[str] = set()

    async def ask(self, name: str, path: dict[str, str] | None = None, **more: Any) -> Answer:
        """Ask by the name of an operation."""
        spot, method, operation = next(
            (spot, method, operation)
            for spot, several in self._document["paths"].items()
            for method, operation in several.items()
            if operation["operationId"] == name
        )
        answer = await self._client.ask(method.upper(), spot.format(**(path or {})), **more)
        told = operation["responses"].get(str(answer.status), operation["responses"]["default"])
        schema = {
            **told["content"]["application/json"]["schema"],
            "components": self._document["components"],
        }
        jsonschema_rs.validator_for(schema).validate(answer.json)
        if answer.status < 400:
            self.asked.add(name)
        return answer


async def test_the_document_has_every_route_and_no_other(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        document = (await site.client.get("/openapi.json")).json
        described = {
            (method.upper(), path) for path, several in document["paths"].items() for method in several
        }
        routes = web_app(site.serving.context).routes
        served_by_routes = {
            (method, spelled(route.path))
            for route in routes
            if isinstance(route, Route)
            for method in (route.methods or set()) - {"HEAD"}
        }
        assert described == served_by_routes - BESIDE_THE_API
        assert document["openapi"] == "3.1.0"
        names = [each.name for each in ENDPOINTS]
        assert len(names) == len(set(names))


async def test_the_schemas_are_json_schemas(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        document = (await site.client.get("/openapi.json")).json
        for schema in document["components"]["schemas"].values():
            assert jsonschema_rs.meta.is_valid({**schema, "$schema": SCHEMA})
        parameters = [
            parameter["schema"]
            for several in document["paths"].values()
            for operation in several.values()
            for parameter in operation["parameters"]
        ]
        assert all(jsonschema_rs.meta.is_valid({**each, "$schema": SCHEMA}) for each in parameters)


async def test_every_answer_is_what_the_document_says(tmp_path: Path) -> None:
    turns = [*LOOK, says("more"), says("more"), says("more")]
    ask = [says("", call("Bash", command="touch x")), says("asked")]
    async with served(
        tmp_path, main=[says("hello"), says("again")], Explore=turns, general_purpose=ask
    ) as site:
        document = (await site.client.get("/openapi.json")).json
        checked = Checked(site.client, document)
        await _look(checked)
        task = await _live(checked, site)
        await _answer(checked, site)
        await _chat(checked)
        await _refused(checked)
        streams = {"stream_all", "stream_task"}
        assert checked.asked | streams == {each.name for each in ENDPOINTS} - {"send_to_background"}
        assert (await site.client.get(f"/api/tasks/{task}")).json["success"]


async def _look(checked: Checked) -> None:
    for name in ("get_health", "list_models", "list_tools", "list_agents", "list_questions", "lint_files"):
        assert (await checked.ask(name)).status == 200
    assert (await checked.ask("get_agent", {"name": "explore"})).json["name"] == "Explore"
    assert (await checked.ask("lint_draft", json={"text": "---\nname: x\n---\n"})).status == 200
    made = {"name": "tester", "description": "Runs tests.", "tools": ["Read"], "maxTurns": 3}
    assert (await checked.ask("create_agent", json=made)).status == 201
    file = await checked.ask("get_agent_file", {"name": "tester"})
    text = {"text": file.json["text"] + "Be quick.\n", "sha256": file.json["sha256"]}
    assert (await checked.ask("put_agent_file", {"name": "tester"}, json=text)).status == 200
    bound = await checked.ask("set_budget", json={"tokens": 1_000_000})
    assert (bound.status, bound.json["lasts"]) == (200, "until the server ends")


async def _live(checked: Checked, site: Served) -> str:
    begun = await checked.ask("start_task", json={"agent": "Explore", "prompt": "look"})
    task = begun.json["agentId"]
    path = {"id": task}
    await checked.ask("get_output", path, params={"block": "true"})
    for name in ("get_task", "get_tree", "get_transcript", "get_events", "replay_task", "get_hits"):
        assert (await checked.ask(name, path)).status == 200
    assert (await checked.ask("resume_task", path, json={"prompt": "more"})).status == 200
    await site.client.ended(task)
    assert (await checked.ask("send_to_task", path, json={"message": "more"})).status == 200
    await site.client.ended(task)
    raised = await checked.ask("set_task_budget", path, json={"turns": 40})
    assert (raised.status, raised.json["budget"], raised.json["spent"]["turns"]) == (200, {"turns": 40}, 4)
    fork = await checked.ask("fork_task", path, json={"prompt": "else"})
    await site.client.ended(fork.json["agentId"])
    assert (await checked.ask("stop_task", path, json={"how": "tree"})).status == 200
    assert (await checked.ask("interrupt_task", path, json={})).status == 200
    for name in ("list_tasks", "list_states", "list_events", "get_usage"):
        assert (await checked.ask(name)).status == 200
    assert (await checked.ask("list_times", params={"id": task})).json["tasks"][0]["spans"]
    assert (await checked.ask("get_task", path, params={"at": 1})).json["turns"] == 0
    assert (await checked.ask("get_usage", params={"task": task})).json["spent"]["turns"] > 2
    assert len((await checked.ask("list_events", params={"after": "0"})).json["events"]) > 10
    return task


async def _answer(checked: Checked, site: Served) -> None:
    await checked.ask("start_task", json={"agent": "general-purpose", "prompt": "touch"})
    waiting = await site.client.until("/api/questions", lambda told: bool(told["questions"]))
    number = str(waiting["questions"][0]["number"])
    assert (await checked.ask("list_questions")).json == waiting
    assert (await checked.ask("answer_question", {"number": number}, json={"allow": False})).status == 200


async def _chat(checked: Checked) -> None:
    chat = {"channel": "web", "chat": "a room"}
    assert (await checked.ask("say_in_conversation", chat, json={"text": "hello"})).status == 202
    assert (await checked.ask("get_conversation", chat)).json["address"] == "web:a room"
    assert (await checked.ask("list_conversations")).status == 200
    assert (await checked.ask("choose_session", json={"mode": "default"})).json["mode"] == "default"
    session = (await checked.ask("get_conversation", chat)).json["session"]["agentId"]
    assert (await checked.ask("get_output", {"id": session}, params={"block": "true"})).status == 200
    (point, *_) = (await checked.ask("list_prompts", {"id": session})).json["points"]
    to = {"to": point["to"]}
    assert (await checked.ask("preview_rewind", {"id": session}, params=to)).json["files"] == []
    assert (await checked.ask("rewind_task", {"id": session}, json=to)).json["conversation"]


async def _refused(checked: Checked) -> None:
    refused: list[tuple[str, dict[str, str], dict[str, Any]]] = [
        ("get_task", {"id": "ffffffff"}, {}),
        ("list_tasks", {}, {"params": {"limit": "0"}}),
        ("list_tasks", {}, {"params": {"colour": "blue"}}),
        ("start_task", {}, {"json": {}}),
        ("answer_question", {"number": "99"}, {"json": {"allow": True}}),
        ("send_to_background", {"id": "ffffffff"}, {"json": {}}),
    ]
    for name, path, more in refused:
        assert (await checked.ask(name, path, **more)).status in (400, 404)


async def test_every_event_has_a_name_of_the_document(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        task = (await site.client.post("/api/tasks", {"agent": "Explore", "prompt": "x"})).json["agentId"]
        async with site.client.stream(f"/api/tasks/{task}/stream") as stream:
            found = await take(stream, lambda frame: frame.type == "SubSessionCompleted")
        document = (await site.client.get("/openapi.json")).json
        schema = {
            **document["components"]["schemas"]["StreamEvent"],
            "components": document["components"],
        }
        for frame in found:
            jsonschema_rs.validator_for(schema).validate(frame.data)
            assert frame.type == frame.data["type"]
        assert {frame.type for frame in found} <= set(event_types())
