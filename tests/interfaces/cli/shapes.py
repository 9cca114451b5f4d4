"""The JSON Schema of everything that `--json` prints, made from the types that are printed.

python -m tests.interfaces.cli.shapes > docs/reference/schemas.json
"""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from gencode.core.outcome import Outcome
from gencode.interfaces.chat.agent_info import AgentDetails, LintedFile
from gencode.interfaces.chat.folder_review import FolderReview
from gencode.interfaces.cli.ask import PromptResult
from gencode.interfaces.cli.permissions import CaseVerdict
from gencode.interfaces.cli.trust import ServerReviews
from gencode.permissions.explanation import Explanation
from gencode.stores.pg_copy import CopyReport
from gencode.tasks.rewind import RewindPreview, Rewound
from gencode.workspaces.transfer.apply_changes import ApplyResult
from tests.interfaces.cli.json_types import (
    Agents,
    Begun,
    BudgetedTask,
    Compared,
    Completions,
    Deleted,
    Event,
    Exported,
    Health,
    Imported,
    InterruptedTask,
    Job,
    Jobs,
    Linted,
    Migrated,
    Models,
    Opened,
    Questions,
    RanTask,
    Removed,
    Replayed,
    Replied,
    Revoked,
    RewindPoints,
    Sessions,
    ShownSession,
    ShownTask,
    Skills,
    StoppedTask,
    Tasks,
    ToldTask,
    Tools,
    Tour,
    TrustedFolders,
    Written,
)

Fields = dict[str, Any]

SHAPES: dict[str, Any] = {
    "gen -p": PromptResult,
    "gen -p --output-format stream-json": (Event, PromptResult),
    "gen task run": RanTask,
    "gen task list": Tasks,
    "gen task show": ShownTask,
    "gen task output": Outcome,
    "gen task stop": StoppedTask,
    "gen task interrupt": InterruptedTask,
    "gen task send": ToldTask,
    "gen task resume": RanTask,
    "gen task fork": RanTask,
    "gen task budget": BudgetedTask,
    "gen task questions": Questions,
    "gen task answer": Replied,
    "gen task merge": ApplyResult,
    "gen task background": Outcome,
    "gen task events": Event,
    "gen task replay": Replayed,
    "gen task replay --against": Compared,
    "gen task export": Exported,
    "gen task import": Imported,
    "gen sessions list": Sessions,
    "gen sessions show": ShownSession,
    "gen sessions rewind": RewindPoints,
    "gen sessions rewind --to": RewindPreview,
    "gen sessions rewind --yes": Rewound,
    "gen sessions fork": Outcome,
    "gen sessions delete": Deleted,
    "gen sessions prune": Deleted,
    "gen cron list": Jobs,
    "gen cron add": Job,
    "gen cron remove": Removed,
    "gen agents list": Agents,
    "gen agents show": AgentDetails,
    "gen agents lint": Linted,
    "gen agents new": LintedFile,
    "gen agents add": Written,
    "gen skills list": Skills,
    "gen permissions explain": Explanation,
    "gen permissions check": CaseVerdict,
    "gen trust": FolderReview,
    "gen trust --list": TrustedFolders,
    "gen trust --revoke": Revoked,
    "gen trust --server": ServerReviews,
    "gen models": Models,
    "gen tools": Tools,
    "gen doctor": Health,
    "gen worker": Begun,
    "gen serve": Opened,
    "gen migrate": Migrated,
    "gen migrate --to": CopyReport,
    "gen demo": Tour,
    "gen completions": Completions,
}
LINES = ("gen -p --output-format stream-json", "gen task events", "gen permissions check")
"""These print one object per line."""
NO_JSON = {
    "gen": "gen -p stands for it",
    "gen mcp": "speaks MCP on stdout",
    "gen acp": "speaks ACP on stdout",
    "gen cron run": "prints nothing on stdout",
}
EVENTS: dict[str, tuple[str, ...]] = {
    "SessionCreated": ("sessionId", "agentType", "description", "prompt"),
    "SessionStatusChanged": ("sessionId", "oldStatus", "newStatus", "model"),
    "SessionProgress": ("sessionId", "partType", "content"),
    **{
        f"Session{end}": ("sessionId", "result", "error", "status")
        for end in ("Completed", "Failed", "Cancelled")
    },
    "SubSessionCreated": ("subSessionId", "parentSessionId", "agentType", "description", "prompt"),
    "SubSessionStatusChanged": ("subSessionId", "parentSessionId", "oldStatus", "newStatus", "model"),
    "SubSessionProgress": ("subSessionId", "parentSessionId", "partType", "content"),
    **{
        f"SubSession{end}": ("subSessionId", "parentSessionId", "result", "error", "status")
        for end in ("Completed", "Failed", "Cancelled")
    },
    "MessageAdded": ("message",),
    "TranscriptCompacted": ("upto", "summary"),
    "CallDecided": ("call", "tool", "decision"),
}
DESCRIPTION = (
    "What gen prints with --json (gen -p: --output-format json), by command. Fields may be added; none is "
    "renamed or removed. Commands with lines: true print one such object per line."
)


def document() -> Fields:
    """Everything, as it is published."""
    kinds = list({id(each): each for shape in SHAPES.values() for each in _kinds(shape)}.values())
    known, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    by_kind = {id(kind): dict(schema) for kind, schema in zip(kinds, known, strict=True)}
    structs = {kind.__name__: kind for kind in _structs(kinds)}
    definitions = {name: _printed(schema, structs.get(name)) for name, schema in sorted(parts.items())}
    definitions["Event"] |= {"allOf": [_of_event(name, fields) for name, fields in EVENTS.items()]}
    commands = {
        command: {**_either([by_kind[id(kind)] for kind in _kinds(shape)]), **_in_lines(command)}
        for command, shape in SHAPES.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "GenCode on the command line",
        "description": DESCRIPTION,
        "commands": commands,
        "$defs": definitions,
    }


def _kinds(shape: Any) -> tuple[Any, ...]:
    """The kinds of objects that a command prints."""
    return cast("tuple[Any, ...]", shape) if isinstance(shape, tuple) else (shape,)


def _either(schemas: list[Fields]) -> Fields:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _in_lines(command: str) -> Fields:
    return {"lines": True} if command in LINES else {}


def _printed(schema: Fields, kind: type[Struct] | None) -> Fields:
    """A schema for what is printed: whatever is always there is required, and no default matters."""
    found = cast("Fields", _bare(schema))
    found.pop("title", None)
    found.pop("description", None)
    if kind is not None and "properties" in found:
        found["required"] = sorted({*found.get("required", ()), *_always(kind)} & found["properties"].keys())
    return found


def _always(kind: type[Struct]) -> Iterator[str]:
    """The fields of a record that are there whatever they hold."""
    for field in msgspec.structs.fields(kind):
        given = field.default is not msgspec.NODEFAULT or field.default_factory is not msgspec.NODEFAULT
        unset = field.default is msgspec.UNSET
        if not unset and not (given and kind.__struct_config__.omit_defaults):
            yield field.encode_name


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("Fields", value)
        return {
            name: _bare(each) for name, each in fields.items() if name != "default" or name in _named(fields)
        }
    return [_bare(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def _named(fields: Fields) -> tuple[str, ...]:
    """A property may itself be called default."""
    return ("default",) if isinstance(fields.get("default"), dict) and "type" not in fields else ()


def _structs(kinds: list[Any]) -> Iterator[type[Struct]]:
    """Every record that is part of these."""
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, msgspec.inspect.StructType):
            if id(each.cls) in seen:
                continue
            seen.add(id(each.cls))
            yield each.cls
        if isinstance(each, msgspec.inspect.Type | msgspec.inspect.Field):
            for value in vars_of(each):
                waiting += value if isinstance(value, tuple) else [value]


def vars_of(each: Any) -> list[Any]:
    """The values of the fields of a description."""
    return [getattr(each, name, None) for name in each.__struct_fields__]


def _of_event(name: str, fields: tuple[str, ...]) -> Fields:
    return {"if": {"properties": {"type": {"const": name}}}, "then": {"required": list(fields)}}


def _short(name: str) -> str:
    """A name without our modules; where two records have one name, the one of the core keeps it."""
    *modules, last = name.split(".")
    return last if not modules or "core" in modules else f"{modules[-1].title()}{last}"


def text() -> str:
    """The document as it is written."""
    whole = json.dumps(document(), indent=1, ensure_ascii=False) + "\n"
    return re.sub(r"(?<=[\"/])gencode(\.\w+)+(?=\")", lambda found: _short(found[0]), whole)


if __name__ == "__main__":
    print(text(), end="")
