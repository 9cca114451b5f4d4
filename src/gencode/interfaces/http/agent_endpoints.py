"""Endpoints for agents: the list, details, linting, and creating and editing agent files."""

import asyncio
import os
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from gencode.app import AgentEntry, Registry
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import same_name
from gencode.core.structs import replace
from gencode.interfaces.chat.agent_info import (
    AgentDetails,
    AgentLine,
    LintedFile,
    agent_details,
    agent_line,
    linted_file,
    own_files,
)
from gencode.interfaces.http.endpoints import ApiRequest, Name, Nothing, ServerContext, endpoint
from gencode.interfaces.http.guard import HttpRefusal
from gencode.interfaces.http.task_schemas import Turns
from gencode.permissions.whole_files import FileDraft
from gencode.settings import gen_home

FILE = "agent.md"
_LINTERS = ThreadPoolExecutor(2, "gencode-lint")
"""Linting a large folder takes long; it delays nothing but other linting."""


class AgentsPage(Struct, frozen=True):
    """All agent files."""

    agents: list[AgentLine]


class LintQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Files or folders below the server's folder; without any, its agent files."""

    path: tuple[Annotated[str, Meta(max_length=400)], ...] = ()


class AgentClash(Struct, frozen=True):
    """Files of one dialect in one place whose agents have the same name; the first one is used."""

    name: str
    dialect: str
    paths: list[str]


class LintResults(Struct, frozen=True):
    """What the linter has found."""

    files: list[LintedFile]
    clashes: list[AgentClash]


class AgentDraft(Struct, frozen=True, forbid_unknown_fields=True):
    """The text of an agent file that is not saved yet."""

    text: Annotated[str, Meta(max_length=200_000)]


AgentName = Annotated[
    Name, Meta(extra_json_schema={"maxLength": 64, "pattern": r"^[^/\\]*[^\s/\\_.-][^/\\]*$"})
]
"""Checked where the file is written, which gives the reason; repeated here for the OpenAPI document."""


class NewAgent(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A new agent: for this folder, or with `user` for all folders."""

    name: AgentName
    description: Annotated[str, Meta(max_length=2_000)]
    tools: tuple[Name, ...] | None = None
    model: Name = ""
    mode: Name = ""
    max_turns: Turns | None = None
    prompt: Annotated[str, Meta(max_length=200_000)] = ""
    user: bool = False


@endpoint("GET /api/agents", "view", "List agents", answer=AgentsPage)
async def list_agents(context: ServerContext, request: ApiRequest[Nothing, Nothing]) -> AgentsPage:
    return AgentsPage([agent_line(each, context.gen.toolbox) for each in context.gen.agents.listing()])


@endpoint("GET /api/agents/{name}", "view", "Get an agent", answer=AgentDetails)
async def get_agent(context: ServerContext, request: ApiRequest[Nothing, Nothing]) -> AgentDetails:
    return agent_details(context.gen, request.path["name"])


@endpoint("GET /api/lint", "view", "Lint agent files", query=LintQuery, answer=LintResults)
async def lint_files(context: ServerContext, request: ApiRequest[LintQuery, Nothing]) -> LintResults:
    paths = [_inside(context, each) for each in request.query.path] or own_files(context.gen)
    looking = asyncio.get_running_loop().run_in_executor(_LINTERS, Registry.lint, paths)
    return _linted(context, await looking)


@endpoint("POST /api/lint", "view", "Lint the text of an agent file", body=AgentDraft, answer=LintResults)
async def lint_draft(context: ServerContext, request: ApiRequest[Nothing, AgentDraft]) -> LintResults:
    report = await asyncio.get_running_loop().run_in_executor(_LINTERS, lint_text, request.body.text)
    linted = _linted(context, report)
    return replace(linted, files=[replace(file, path=FILE) for file in linted.files])


@endpoint("POST /api/agents", "act", "Create an agent", body=NewAgent, answer=LintedFile, status=201)
async def create_agent(context: ServerContext, request: ApiRequest[Nothing, NewAgent]) -> LintedFile:
    wanted = request.body
    if wanted.user:
        request.needs("answer")  # it is enabled at once, in every folder
    folder = gen_home() if wanted.user else context.gen.workspace.root / ".gen"
    fields = {
        "name": wanted.name,
        "description": wanted.description,
        "tools": wanted.tools,
        "model": wanted.model,
        "mode": wanted.mode,
        "max_turns": wanted.max_turns,
        "prompt": wanted.prompt,
    }
    write = partial(Registry.write, folder / "agents", fields, project=not wanted.user)
    return linted_file(await asyncio.to_thread(write), context.gen.toolbox)


def _inside(context: ServerContext, path: str) -> Path:
    """A path below the server's folder; nothing else is read for a read-only token."""
    root = context.gen.workspace.root
    if "\0" in path:
        raise UserMistake("A path cannot contain a NUL character.")
    place = (root / path).resolve()
    if not place.is_relative_to(root):
        raise UserMistake("Only files below the folder of the server can be linted.")
    return place


def lint_text(text: str) -> Any:
    """What the linter finds in a text that is not a file yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, ".gen", "agents", FILE)
        path.parent.mkdir(parents=True)
        path.write_bytes(text.encode("utf-8", "replace"))
        return Registry.lint([path])


def _linted(context: ServerContext, report: Any) -> LintResults:
    files = [linted_file(each, context.gen.toolbox) for each in report.files]
    return LintResults(
        files, [AgentClash(each.name, each.dialect, list(each.paths)) for each in report.clashes]
    )


LARGEST = 200_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class AgentText(Struct, frozen=True):
    """The text of an agent file; only files in `.gen/agents` of the folder or the user are editable."""

    path: str
    text: str
    sha256: str
    editable: bool


class NewText(Struct, frozen=True, forbid_unknown_fields=True):
    """The new text of an agent file; `sha256` is that of the text it replaces."""

    text: Annotated[str, Meta(max_length=LARGEST)]
    sha256: Annotated[str, Meta(max_length=64)]


@endpoint("GET /api/agents/{name}/file", "view", "Get the text of an agent file", answer=AgentText)
async def get_agent_file(context: ServerContext, request: ApiRequest[Nothing, Nothing]) -> AgentText:
    entry = _entry(context, request.path["name"])
    path = Path(entry.path)
    content = await asyncio.to_thread(_content, path, entry.project)
    text = content.decode("utf-8", "replace")
    return AgentText(str(path), text, sha256(content).hexdigest(), _folder(context, path) is not None)


@endpoint("PUT /api/agents/{name}/file", "act", "Replace an agent file", body=NewText, answer=LintedFile)
async def put_agent_file(context: ServerContext, request: ApiRequest[Nothing, NewText]) -> LintedFile:
    path = Path(_entry(context, request.path["name"]).path)
    folder = _folder(context, path)
    if folder is None:
        raise UserMistake(f"{path} cannot be edited here: it is not in a .gen/agents of yours.")
    if folder != context.gen.workspace.root / ".gen" / "agents":
        request.needs("answer")  # it is enabled at once, in every folder
    report = await asyncio.to_thread(lint_text, request.body.text)
    read = report.files[0]
    if read.spec is None:
        raise UserMistake(f"Not saved, because this is not a valid agent: {read.why_not}")
    await asyncio.to_thread(_replace, folder, path.name, request.body)
    return replace(linted_file(read, context.gen.toolbox), path=str(path))


def _entry(context: ServerContext, name: str) -> AgentEntry:
    """The file of an agent, also of a disabled one."""
    wanted = same_name(name)
    entries = context.gen.agents.listing()
    for entry in sorted(entries, key=lambda each: bool(each.shadowed_by)):
        if wanted in (same_name(entry.spec.name) if entry.spec else "", same_name(Path(entry.path).stem)):
            return entry
    raise UnknownName("agent", name, [each.spec.name for each in entries if each.spec])


def _folder(context: ServerContext, path: Path) -> Path | None:
    """The folder of a file that may be edited; symbolic links are refused."""
    for folder in (context.gen.workspace.root / ".gen" / "agents", gen_home() / "agents"):
        if path.parent == folder and folder.resolve() == folder and path.suffix == ".md":
            return folder
    return None


def _content(path: Path, brought: bool) -> bytes:
    """The content of a file; for one of the project, symbolic links are refused."""
    if brought and path.resolve() != path:
        raise UserMistake(f"{path} is a symbolic link, or behind one, and is not read.")
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
                raise UserMistake(f"{path} is not a file of at most {LARGEST:,} bytes.")
            return file.read(LARGEST)
    except OSError as error:
        raise UserMistake(f"{path} cannot be read: {error.strerror}.") from None


def _replace(folder: Path, name: str, new: NewText) -> None:
    """Replace a file atomically, if it is still the one that was read."""
    content = new.text.encode("utf-8", "replace")
    try:
        inside = os.open(folder, _FOLDER)
        try:
            with os.fdopen(os.open(name, _READ, dir_fd=inside), "rb") as file:
                if sha256(file.read(LARGEST + 1)).hexdigest() != new.sha256:
                    raise HttpRefusal(409, f"{folder / name} has changed meanwhile. Load it again.")
            with FileDraft(inside, 0o644) as draft:
                draft.write(content)
                draft.rename(name)
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
