"""Writes a new agent file that reads back as exactly what was asked for."""

import json
import os
import re
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from gencode.agents.agent_file import read_agent_file
from gencode.agents.dialect import AgentFile
from gencode.agents.tool_lists import EVERY, named
from gencode.agents.tool_names import known_tools, tools_called
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import same_name
from gencode.core.structs import replace

_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 ./_-]*[A-Za-z0-9.])?")
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "n", "y")
_INSTRUCTIONS = """\
You are the agent "{name}". Your purpose: {task}

1. Find out what is there before you act: search widely, then read what matters.
2. Do the whole job and nothing beside it.
3. Check the result, and say what you could not check.

Reply with: the result, the places it rests on as `path:line`, and what is left.
"""


class NewAgentFile(Struct, frozen=True):
    """The wished fields of a new agent; empty ones take their default."""

    name: str
    description: str
    tools: tuple[str, ...] | None = None
    model: str = ""
    mode: str = ""
    max_turns: int | None = None
    prompt: str = ""


def write_agent(new: NewAgentFile, folder: Path) -> AgentFile:
    """Write a file that was not there, and read it back; UserMistake when it would not be an agent."""
    slug = re.sub(r"[^\w-]+", "-", new.name.strip()).strip("-").lower()
    if not same_name(slug):
        raise UserMistake(f"{new.name!r} cannot be a name; use letters, digits, spaces, - and _.")
    _check_tools(new.tools)
    path = folder / f"{slug}.md"
    text = _text(new)
    read = read_agent_file(text.encode(), str(path), "gencode")
    if read.spec is None:
        raise UserMistake(read.why_not)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
    except FileExistsError:
        raise UserMistake(f"{path} is already there; choose another name, or edit that file.") from None
    except OSError as error:
        raise UserMistake(f"{path} cannot be written: {error.strerror}.") from None
    return replace(read, written=sha256(text.encode()).hexdigest())


def _check_tools(tools: tuple[str, ...] | None) -> None:
    """UserMistake for a list without tools, and for a tool that is not there."""
    if tools is None:
        return
    if not tools:
        raise UserMistake("No tool is named, so the agent could do nothing; name some, such as Read,Grep.")
    for entry in tools:
        name = named(entry).name
        if name != EVERY and not tools_called(name):
            raise UnknownName("tool", name, known_tools())


def _text(new: NewAgentFile) -> str:
    lines = ["---", f"name: {_value(new.name.strip())}", f"description: {_value(new.description.strip())}"]
    lines.append(f"model: {_value(new.model or 'inherit')}")
    if new.mode:
        lines.append(f"permission-mode: {_value(new.mode)}")
    if new.max_turns is not None:
        lines.append(f"max-turns: {new.max_turns}")
    if new.tools is not None:
        lines += ["tools:", "  mode: allowlist", f"  allow: [{', '.join(map(_value, new.tools))}]"]
    described = new.description.strip()
    task = described if described.endswith((".", "!", "?")) else f"{described}."
    body = new.prompt.strip() or _INSTRUCTIONS.format(name=new.name.strip(), task=task).strip()
    return "\n".join([*lines, "---", "", body, ""])


def _value(text: str) -> str:
    """A text as YAML reads it back: plain where nothing can be mistaken in it, else in quotes."""
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)
