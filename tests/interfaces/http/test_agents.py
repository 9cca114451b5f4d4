"""Agents over HTTP: looked at, checked, written and edited, and nothing else on the disk."""

from pathlib import Path
from typing import Any

import pytest

from gencode.testing import says
from tests.interfaces.http.serving import Served, served

SCRIPT = "script.json"
NEW = {"name": "tester", "description": "Runs the tests.", "tools": ["Bash", "Read"]}


async def made(site: Served, **more: Any) -> Any:
    answer = await site.client.post("/api/agents", {**NEW, **more})
    assert answer.status == 201, answer.json
    return answer.json


def texts(folder: Path) -> dict[str, str]:
    """Every file below a folder that could be an agent, hidden ones too."""
    return {
        str(path): path.read_text() for path in folder.rglob("*") if path.is_file() and path.name != SCRIPT
    }


async def test_agents_are_listed_and_shown(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("x")]) as site:
        listed = (await site.client.get("/api/agents")).json["agents"]
        assert {"Explore", "Plan", "Review", "general-purpose"} <= {agent["name"] for agent in listed}
        shown = (await site.client.get("/api/agents/EXPLORE")).json
        assert (shown["name"], shown["builtin"], shown["mode"]) == ("Explore", True, "plan")
        assert "Write" not in shown["resolvedTools"]
        assert (await site.client.get("/api/agents/nobody")).status == 404


async def test_a_new_agent_is_a_file_that_counts_once_it_is_trusted(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("x")]) as site:
        written = await made(site)
        assert written["path"] == str(tmp_path / ".gen" / "agents" / "tester.md")
        assert (written["loadable"], written["resolvedTools"]) == (True, ["Bash", "Read"])
        again = await site.client.post("/api/agents", NEW)
        assert again.status == 400 and "already there" in again.json["error"]
        begun = await site.client.post("/api/tasks", {"agent": "tester", "prompt": "x"})
        assert begun.status in (400, 404)


async def test_an_agent_for_every_folder_needs_the_right_to_answer(tmp_path: Path, home: Path) -> None:
    async with served(tmp_path, share=["act"], main=[says("x")]) as site:
        refused = await site.shared().post("/api/agents", {**NEW, "user": True})
        assert refused.status == 403
        assert not (home / ".gen" / "agents").exists()
        written = await made(site, user=True)
        assert written["path"] == str(home / ".gen" / "agents" / "tester.md")
        assert (await site.client.get("/api/agents/tester")).json["source"] == written["path"]


@pytest.mark.parametrize("link", [".gen", ".gen/agents"])
async def test_no_agent_is_made_through_a_link_of_the_folder(tmp_path: Path, home: Path, link: str) -> None:
    folder, mine = tmp_path / "ws", home / ".gen" / "agents"
    mine.mkdir(parents=True)
    (folder / link).parent.mkdir(parents=True)
    (folder / link).symlink_to(mine if link.endswith("agents") else mine.parent)
    async with served(folder, share=["act"], main=[says("x")]) as site:
        assert (await site.shared().post("/api/agents", NEW)).status == 400
    assert list(mine.iterdir()) == []


def agent_files(folder: Path) -> list[Path]:
    return [*folder.rglob("*.md")]


async def test_names_lead_out_of_no_folder(tmp_path: Path) -> None:
    project = tmp_path / "far" / "down" / "project"
    project.mkdir(parents=True)
    async with served(project, main=[says("x")]) as site:
        for name in ("../evil", "../../../../evil", "/etc/evil", "a/../../b", "..", "\0"):
            answer = await site.client.post("/api/agents", {**NEW, "name": name})
            assert answer.status in (201, 400)
    assert {path.parent for path in agent_files(tmp_path)} <= {project / ".gen" / "agents"}


async def test_only_files_below_the_folder_are_checked(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("x")]) as site:
        await made(site)
        (tmp_path / "link").symlink_to("/etc")
        linted = (await site.client.ask("GET", "/api/lint?path=.gen")).json["files"]
        assert [(file["name"], file["loadable"]) for file in linted] == [("tester", True)]
        for path in ("/etc/passwd", "..", "../..", "link/passwd", "x\0y"):
            assert (await site.client.ask("GET", "/api/lint", params={"path": path})).status == 400


async def test_a_text_is_checked_without_being_written(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("x")]) as site:
        good = "---\nname: tester\ndescription: Runs tests.\ntools: Read, Nonsense\n---\nDo it.\n"
        linted = (await site.client.post("/api/lint", {"text": good})).json["files"]
        assert [(file["path"], file["loadable"]) for file in linted] == [("agent.md", True)]
        bad = (await site.client.post("/api/lint", {"text": "no agent"})).json["files"]
        assert bad[0]["loadable"] is False and bad[0]["why_not"]
        assert texts(tmp_path) == {}


async def test_a_file_is_edited_only_as_it_was_seen(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("x")]) as site:
        path = Path((await made(site))["path"])
        seen = (await site.client.get("/api/agents/tester/file")).json
        assert {seen["path"]: seen["text"]} == texts(tmp_path) and seen["editable"]
        text = seen["text"].replace("Runs the tests.", "Runs every test.")
        body = {"text": text, "sha256": seen["sha256"]}
        broken = {**body, "text": "no agent at all"}
        assert (await site.client.ask("PUT", "/api/agents/tester/file", json=broken)).status == 400
        edited = await site.client.ask("PUT", "/api/agents/tester/file", json=body)
        assert (edited.status, edited.json["description"]) == (200, "Runs every test.")
        assert texts(tmp_path) == {str(path): text}
        late = await site.client.ask("PUT", "/api/agents/tester/file", json=body)
        assert late.status == 409
        assert texts(tmp_path) == {str(path): text}


async def test_a_link_that_a_folder_brings_is_not_followed(tmp_path: Path, home: Path) -> None:
    secret = home / "secret.md"
    secret.write_text("---\nname: secret\ndescription: Hidden.\n---\nsesame\n")
    (tmp_path / ".gen" / "agents").mkdir(parents=True)
    (tmp_path / ".gen" / "agents" / "open.md").symlink_to(secret)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "agents").symlink_to(home)
    async with served(tmp_path, main=[says("x")]) as site:
        for name in ("open", "secret"):
            answer = await site.client.get(f"/api/agents/{name}/file")
            assert answer.status in (400, 404) and "sesame" not in str(answer.json)


async def test_built_in_and_foreign_files_are_not_written(tmp_path: Path, home: Path) -> None:
    foreign = tmp_path / ".claude" / "agents" / "helper.md"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("---\nname: helper\ndescription: Helps.\n---\nHelp.\n")
    async with served(tmp_path, share=["act"], main=[says("x")]) as site:
        for name in ("Explore", "helper"):
            seen = (await site.client.get(f"/api/agents/{name}/file")).json
            assert seen["editable"] is False
            body = {"text": seen["text"], "sha256": seen["sha256"]}
            answer = await site.client.ask("PUT", f"/api/agents/{name}/file", json=body)
            assert answer.status == 400
        users = await made(site, user=True, name="mine")
        seen = (await site.client.get("/api/agents/mine/file")).json
        body = {"text": seen["text"], "sha256": seen["sha256"]}
        assert (await site.shared().ask("PUT", "/api/agents/mine/file", json=body)).status == 403
        assert texts(home / ".gen" / "agents")[users["path"]] == seen["text"]
