"""opencode's settings: JSON with comments that may hold agents, and permissions that apply to them all."""

import re
from pathlib import PurePath
from posixpath import dirname, join, normpath
from typing import Any, cast

from gencode.agents.agent_builder import build_agent
from gencode.agents.dialect import AgentFile, Near, ParsedFile, alone
from gencode.agents.dialects.table import OPENCODE
from gencode.agents.file_errors import mistake
from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.core.text import one_line
from gencode.permissions.agent_folders import FILE_INSIDE, beside
from gencode.permissions.project_files import LARGEST_KEPT

MOST_AGENTS = 200
_THEIRS = frozenset(("build", "plan", "general", "explore", "title", "summary", "compaction", "scout"))
"""Agents of opencode itself: settings change them there, and nothing of ours."""
_HOLDERS = ("agent", "agents")
_FOR_ALL = ("permission", "tools")
_OWN_FOLDER = ".opencode"
"""Settings in it may name files of the folder around it, others only those beside and below them."""
LARGEST_INCLUDED = 4 * LARGEST_KEPT
"""So many bytes of other files become part of prompts in all."""
_TOKEN = re.compile(r'"|/[/*]')
_COMMA = re.compile(r'"|,(?=\s*+[}\]])')
_TEXT = re.compile(r'"(?:[^"\\\n]++|\\.)*+"')


def plain_json(text: str) -> str:
    """JSON without its comments, and without commas before a closing bracket."""
    return _without(_COMMA, _without(_TOKEN, text))


def agents_inside(fields: dict[str, Any], path: str, near: Near = alone) -> list[AgentFile]:
    """The agents that settings hold, each with what went wrong with it. `near` gives texts of other files."""
    found: list[AgentFile] = []
    texts = _IncludedTexts(path, near)
    for holder in _HOLDERS:
        given = fields.get(holder)
        for name, one in cast("dict[str, Any]", given).items() if isinstance(given, dict) else ():
            if name.casefold() in _THEIRS:
                continue
            if len(found) == MOST_AGENTS:
                return found
            found.append(_agent(name, one, fields, path, texts))
    return found


class _IncludedTexts:
    """The texts of other files that prompts are made of, up to a bound for all of them."""

    def __init__(self, path: str, near: Near) -> None:
        self._path = path
        self._near = near
        folder, file = PurePath(path).parts[-2:] if dirname(path) else ("", path)
        self._inside = f"{folder}/{file}" if folder == _OWN_FOLDER else file
        self._left = LARGEST_INCLUDED

    def filled(self, prompt: str) -> str:
        """A prompt with the texts that it names; the agent has to read those that are not available here."""
        return FILE_INSIDE.sub(self._text, prompt)

    def _text(self, found: re.Match[str]) -> str:
        name = found[1].strip()
        content = self._near(name) if beside(self._inside, name) else None
        if content is not None and len(content) <= min(LARGEST_KEPT, self._left):
            self._left -= len(content)
            return content.decode(errors="replace").strip()
        where = name if name.startswith(("/", "~")) else normpath(join(dirname(self._path), name))
        return f"Your instructions are in the file {where}; read it before you do anything else."


def _agent(name: str, given: Any, settings: dict[str, Any], path: str, texts: _IncludedTexts) -> AgentFile:
    try:
        if not isinstance(given, dict):
            raise mistake(path, f"the agent {one_line(name, 64)!r} must hold fields")
        fields = {**cast("dict[str, Any]", given), "name": name}
        for field in _FOR_ALL:
            fields.update(_for_all(field, settings.get(field), fields))
        prompt = fields.get("prompt")
        if isinstance(prompt, str):
            fields["prompt"] = texts.filled(prompt)
        file = build_agent(ParsedFile(fields), OPENCODE, path)[1]
    except UserMistake as error:
        return AgentFile(path, OPENCODE.name, why_not=str(error))
    kept = tuple(each for each in file.findings if each.code not in ("name-differs", "empty-body"))
    return replace(file, findings=kept)


def _for_all(field: str, everywhere: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The rules for all agents, before those of this one: in opencode the last match applies."""
    own = fields.get(field)
    if everywhere is None:
        return {}
    if own is None:
        return {field: everywhere}
    if not isinstance(own, dict):  # one word for every tool, which comes after everything
        return {}
    wide = cast("dict[str, Any]", everywhere) if isinstance(everywhere, dict) else {"*": everywhere}
    mine = cast("dict[str, Any]", own)
    return {field: {**{key: value for key, value in wide.items() if key not in mine}, **mine}}


def _without(token: re.Pattern[str], text: str) -> str:
    """A text without what a token begins; texts in quotes stay as they are. One pass, whatever it holds."""
    kept: list[str] = []
    at = 0
    while found := token.search(text, at):
        kept.append(text[at : found.start()])
        if found[0] == '"':
            quoted = _TEXT.match(text, found.start())
            if quoted is None:  # it is not closed, and the JSON parser will say so
                return "".join((*kept, text[found.start() :]))
            kept.append(quoted[0])
            at = quoted.end()
            continue
        end = {"//": "\n", "/*": "*/", ",": ""}[found[0]]
        close = text.find(end, found.end())
        after = close if end == "\n" else close + len(end)
        at = len(text) if close < 0 else after
    return "".join((*kept, text[at:]))
