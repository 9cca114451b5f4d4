"""Endpoints of the server: the agents there are, what each gets, what is wrong with files, and new ones."""

import asyncio
import os
import secrets
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from gencode.app import AgentEntry, Registry
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import same_name
from gencode.interfaces.chat.agent_info import (
    AgentDetails,
    AgentLine,
    LintedFile,
    agent_details,
    agent_line,
    linted_file,
    own_files,
)
from gencode.interfaces.http.endpoints import Asked, Name, Nothing, Site, endpoint
from gencode.interfaces.http.guard import Refused
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
    return agent_details(site.gen, asked.path["name"])


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


LARGEST = 200_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class AgentText(Struct, frozen=True):
    """An agent file as it lies there; only files of `.gen/agents`, of the folder or the user, are written."""

    path: str
    text: str
    sha256: str
    editable: bool


class NewText(Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent file is to say; `sha256` is that of the text it takes the place of."""

    text: Annotated[str, Meta(max_length=LARGEST)]
    sha256: Annotated[str, Meta(max_length=64)]


@endpoint("GET /api/agents/{name}/file", "view", "The text of an agent file", answer=AgentText)
async def get_agent_file(site: Site, asked: Asked[Nothing, Nothing]) -> AgentText:
    entry = _entry(site, asked.path["name"])
    path = Path(entry.path)
    content = await asyncio.to_thread(_content, path, entry.project)
    text = content.decode("utf-8", "replace")
    return AgentText(str(path), text, sha256(content).hexdigest(), _folder(site, path) is not None)


@endpoint("PUT /api/agents/{name}/file", "act", "Write an agent file anew", body=NewText, answer=LintedFile)
async def put_agent_file(site: Site, asked: Asked[Nothing, NewText]) -> LintedFile:
    path = Path(_entry(site, asked.path["name"]).path)
    folder = _folder(site, path)
    if folder is None:
        raise UserMistake(f"{path} is not written from here; it lies in no .gen/agents of yours.")
    if folder != site.gen.workspace.root / ".gen" / "agents":
        asked.needs("answer")  # it counts at once, in every folder
    report = await asyncio.to_thread(lint_text, asked.body.text)
    read = report.files[0]
    if read.spec is None:
        raise UserMistake(f"Nothing was written, because that would be no agent: {read.why_not}")
    await asyncio.to_thread(_replace, folder, path.name, asked.body)
    return replace(linted_file(read, site.gen.toolbox), path=str(path))


def _entry(site: Site, name: str) -> AgentEntry:
    """The file of an agent, also of one that does not count."""
    wanted = same_name(name)
    entries = site.gen.agents.listing()
    for entry in sorted(entries, key=lambda each: bool(each.shadowed_by)):
        if wanted in (same_name(entry.spec.name) if entry.spec else "", same_name(Path(entry.path).stem)):
            return entry
    raise UnknownName("agent", name, [each.spec.name for each in entries if each.spec])


def _folder(site: Site, path: Path) -> Path | None:
    """The folder of a file that may be written; no link leads there."""
    for folder in (site.gen.workspace.root / ".gen" / "agents", gen_home() / "agents"):
        if path.parent == folder and folder.resolve() == folder and path.suffix == ".md":
            return folder
    return None


def _content(path: Path, brought: bool) -> bytes:
    """What a file holds; one that a folder brought is read where it lies and nowhere else."""
    if brought and path.resolve() != path:
        raise UserMistake(f"{path} is a link, or lies behind one; it is not read.")
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
                raise UserMistake(f"{path} is no file of at most {LARGEST:,} bytes.")
            return file.read(LARGEST)
    except OSError as error:
        raise UserMistake(f"{path} cannot be read: {error.strerror}.") from None


def _replace(folder: Path, name: str, new: NewText) -> None:
    """Put a whole new file in the place of one that is as whoever edits it saw it."""
    content = new.text.encode("utf-8", "replace")
    fresh = f".{secrets.token_hex(8)}.new"
    try:
        inside = os.open(folder, _FOLDER)
        try:
            with os.fdopen(os.open(name, _READ, dir_fd=inside), "rb") as file:
                if sha256(file.read(LARGEST + 1)).hexdigest() != new.sha256:
                    raise Refused(409, f"{folder / name} has changed since; look at it again.")
            with os.fdopen(os.open(fresh, _NEW, 0o644, dir_fd=inside), "wb") as file:
                file.write(content)
            os.replace(fresh, name, src_dir_fd=inside, dst_dir_fd=inside)
        finally:
            os.close(inside)
    except OSError as error:
        raise UserMistake(f"{folder / name} cannot be written: {error.strerror}.") from None


ENDPOINTS = (
    list_agents,
    get_agent,
    lint_files,
    lint_draft,
    create_agent,
    get_agent_file,
    put_agent_file,
)
