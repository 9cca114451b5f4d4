"""Endpoints of the server: the agents there are, what each gets, what is wrong with files, and new ones."""

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from gencode.app import Registry
from gencode.core.errors import UserMistake
from gencode.interfaces.chat.agent_info import (
    AgentDetails,
    AgentLine,
    LintedFile,
    agent_line,
    agent_page,
    linted_file,
    own_files,
)
from gencode.interfaces.http.endpoints import Asked, Name, Nothing, endpoint
from gencode.interfaces.http.server_state import Site
from gencode.interfaces.http.task_schemas import Turns
from gencode.settings import gen_home

FILE = "agent.md"
_LINTERS = ThreadPoolExecutor(2, "gencode-lint")
"""A folder may be large; whoever lets many be looked at keeps only others like that waiting."""


class Agents(Struct, frozen=True):
    """Every agent file that was looked at."""

    agents: list[AgentLine]


class LintWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Files or folders below the server's folder; without any, what counts there."""

    path: tuple[Annotated[str, Meta(max_length=400)], ...] = ()


class Clash(Struct, frozen=True):
    """Files of one dialect in one place whose agents have the same name; the first one counts."""

    name: str
    dialect: str
    paths: list[str]


class Linted(Struct, frozen=True):
    """What the linter says."""

    files: list[LintedFile]
    clashes: list[Clash]


class Draft(Struct, frozen=True, forbid_unknown_fields=True):
    """The text of an agent file that is not written yet."""

    text: Annotated[str, Meta(max_length=200_000)]


AgentName = Annotated[
    Name, Meta(extra_json_schema={"maxLength": 64, "pattern": r"^[^/\\]*[^\s/\\_.-][^/\\]*$"})
]
"""What may be a name is decided where the file is written, which says why not; the document has it too."""


class NewAgent(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An agent to be written down: for this folder, or with `user` for all of the user's."""

    name: AgentName
    description: Annotated[str, Meta(max_length=2_000)]
    tools: tuple[Name, ...] | None = None
    model: Name = ""
    mode: Name = ""
    max_turns: Turns | None = None
    prompt: Annotated[str, Meta(max_length=200_000)] = ""
    user: bool = False


@endpoint("GET /api/agents", "view", "The agents", answer=Agents)
async def list_agents(site: Site, asked: Asked[Nothing, Nothing]) -> Agents:
    return Agents([agent_line(each, site.gen.toolbox) for each in site.gen.agents.listing()])


@endpoint("GET /api/agents/{name}", "view", "Everything about one agent", answer=AgentDetails)
async def get_agent(site: Site, asked: Asked[Nothing, Nothing]) -> AgentDetails:
    return agent_page(site.gen, asked.path["name"])


@endpoint("GET /api/lint", "view", "What is wrong with agent files", query=LintWish, answer=Linted)
async def lint_files(site: Site, asked: Asked[LintWish, Nothing]) -> Linted:
    paths = [_inside(site, each) for each in asked.query.path] or own_files(site.gen)
    looking = asyncio.get_running_loop().run_in_executor(_LINTERS, Registry.lint, paths)
    return _linted(site, await looking)


@endpoint("POST /api/lint", "view", "What would be wrong with an agent file", body=Draft, answer=Linted)
async def lint_draft(site: Site, asked: Asked[Nothing, Draft]) -> Linted:
    report = await asyncio.get_running_loop().run_in_executor(_LINTERS, lint_text, asked.body.text)
    linted = _linted(site, report)
    return replace(linted, files=[replace(file, path=FILE) for file in linted.files])


@endpoint("POST /api/agents", "act", "Write a new agent", body=NewAgent, answer=LintedFile, status=201)
async def create_agent(site: Site, asked: Asked[Nothing, NewAgent]) -> LintedFile:
    wish = asked.body
    if wish.user:
        asked.needs("answer")  # it counts at once, in every folder
    folder = gen_home() if wish.user else site.gen.workspace.root / ".gen"
    wishes = {
        "name": wish.name,
        "description": wish.description,
        "tools": wish.tools,
        "model": wish.model,
        "mode": wish.mode,
        "max_turns": wish.max_turns,
        "prompt": wish.prompt,
    }
    return linted_file(await asyncio.to_thread(Registry.write, folder / "agents", wishes), site.gen.toolbox)


def _inside(site: Site, path: str) -> Path:
    """A path below the server's folder; nothing else is read for whoever only looks."""
    root = site.gen.workspace.root
    if "\0" in path:
        raise UserMistake("A path has no NUL in it.")
    place = (root / path).resolve()
    if not place.is_relative_to(root):
        raise UserMistake("Only files below the folder of the server are looked at.")
    return place


def lint_text(text: str) -> Any:
    """What the linter says about a text that is not a file yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, ".gen", "agents", FILE)
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode("utf-8", "replace"))
        return Registry.lint([path])


def _linted(site: Site, report: Any) -> Linted:
    files = [linted_file(each, site.gen.toolbox) for each in report.files]
    return Linted(files, [Clash(each.name, each.dialect, list(each.paths)) for each in report.clashes])


ENDPOINTS = (list_agents, get_agent, lint_files, lint_draft, create_agent)
