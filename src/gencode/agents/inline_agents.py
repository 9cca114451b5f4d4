"""Agents given on the command line with `--agents`, as Claude Code takes them.

They apply for one session and come before all files. Like every agent they never may do more than their
parent. A mistake is an error and not a warning, since a warning about something just typed would be missed.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from gencode.agent.model_names import is_known, model_called
from gencode.agents.agent_builder import build_agent
from gencode.agents.dialect import CLAUDE_MODES, COMMON, ParsedFile, mode_called
from gencode.agents.dialects.table import GENCODE
from gencode.agents.file_errors import mistake
from gencode.agents.registry import AgentEntry, Registry
from gencode.core.errors import UserMistake, nearest
from gencode.core.spec import MAIN, AgentSpec, same_name
from gencode.core.structs import replace
from gencode.core.text import one_line
from gencode.permissions.project_files import LARGEST_KEPT

FLAG = "--agents"
MOST_AGENTS = 100
_NOT_HERE = ("name", "when-to-use", "override", "hidden")
"""Fields of files that have no meaning here."""
_PROMPT = same_name("prompt")
_FIELDS = {spelled: field for spelled, field in COMMON.items() if field not in _NOT_HERE}


class InlineRegistry(Registry):
    """The agents of all files, preceded by those given on the command line."""

    __slots__ = ()

    def __init__(self, typed: tuple[AgentEntry, ...], files: Registry) -> None:
        super().__init__(files.listing())
        self._agents.update({same_name(entry.spec.name): entry.spec for entry in typed if entry.spec})
        self._entries = (*typed, *map(self._judged, self._entries))


def with_typed(table: Mapping[str, Any]) -> Callable[[Registry], Registry]:
    """Puts the agents of a table before those of files, once for each state of the files."""
    typed = typed_agents(table)
    latest: list[tuple[Registry, Registry]] = []

    def together(files: Registry) -> Registry:
        if not latest or latest[0][0] is not files:
            latest[:] = [(files, InlineRegistry(typed, files))]
        return latest[0][1]

    return together


def typed_agents(table: Mapping[str, Any]) -> tuple[AgentEntry, ...]:
    """The agents of `{name: {field: value}}`; UserMistake says what is wrong with the first invalid one."""
    if len(table) > MOST_AGENTS:
        raise UserMistake(f"{FLAG} holds more than {MOST_AGENTS} agents; write files for some of them.")
    found: dict[str, AgentEntry] = {}
    for name, fields in table.items():
        path = f"{FLAG} {one_line(name, 64)}"
        spec = _agent(name, fields, path)
        if same_name(spec.name) in found:
            raise mistake(path, "an agent of this name is there already; names differ by more than case")
        found[same_name(spec.name)] = AgentEntry(path, spec)
    return tuple(found.values())


def _agent(name: str, fields: Any, path: str) -> AgentSpec:
    if not isinstance(fields, dict):
        raise mistake(path, "it must hold fields, such as description and prompt")
    if not name.strip():
        raise mistake(path, "an agent needs a name")
    if same_name(name) == MAIN:
        raise mistake(path, "the name main belongs to the conversation itself; choose another")
    given = _known(cast("dict[str, Any]", fields), path)
    prompt = given.pop(_PROMPT, None)
    for field, value in (("description", given.get("description")), ("prompt", prompt)):
        if not isinstance(value, str) or not value.strip():
            raise mistake(path, f"it needs a {field}, which is a text")
        if len(value) > LARGEST_KEPT:
            raise mistake(path, f"its {field} is longer than {LARGEST_KEPT:,} characters")
    given["permission-mode"] = _mode(given.get("permission-mode"), path)
    given["model"] = _model(given.get("model"), path)
    present = {field: value for field, value in given.items() if value is not None}
    spec, _ = build_agent(ParsedFile({"name": name, **present}, body=str(prompt)), GENCODE, path)
    return replace(spec, extra={})


def _known(fields: dict[str, Any], path: str) -> dict[str, Any]:
    """The fields by our names for them. An unknown field may be a misspelt restriction."""
    found: dict[str, Any] = {}
    for spelled, value in fields.items():
        field = _PROMPT if same_name(spelled) == _PROMPT else _FIELDS.get(same_name(spelled))
        if field is None:
            near = nearest(spelled[:64], {"prompt", *_FIELDS.values()})
            raise mistake(path, f"there is no field {one_line(spelled, 64)!r}. {near}")
        if field in found:
            raise mistake(path, f"{field} is given twice")
        found[field] = value
    return found


def _mode(written: Any, path: str) -> str | None:
    """A mode in Claude Code's words, where dontAsk is who cannot ask, or `unattended`."""
    if written is None:
        return None
    mode, known = mode_called(written, CLAUDE_MODES) if isinstance(written, str) else (None, False)
    if isinstance(written, str) and same_name(written) == "unattended":
        return written
    if not known or mode is None:
        words = "default, acceptEdits, plan, dontAsk and bypassPermissions"
        raise mistake(path, f"there is no permission mode {one_line(str(written), 64)!r}; there are {words}")
    return mode.value


def _model(written: Any, path: str) -> str | None:
    if written is None:
        return None
    if not isinstance(written, str) or not is_known(written):
        known = "inherit, haiku, sonnet, opus, or PROVIDER/MODEL"
        raise mistake(path, f"the model {one_line(str(written), 64)!r} is not known; say {known}")
    return model_called(written)
