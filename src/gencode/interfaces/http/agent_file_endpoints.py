"""Endpoints of the server: the text of one agent file, looked at and written anew."""

import asyncio
import os
import secrets
import stat
from hashlib import sha256
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from gencode.app import AgentEntry
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import same_name
from gencode.interfaces.chat.agent_info import LintedFile, linted_file
from gencode.interfaces.http.agent_endpoints import lint_text
from gencode.interfaces.http.endpoints import Asked, Nothing, endpoint
from gencode.interfaces.http.guard import Refused
from gencode.interfaces.http.server_state import Site
from gencode.settings import gen_home

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


ENDPOINTS = (get_agent_file, put_agent_file)
