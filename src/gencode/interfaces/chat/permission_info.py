"""Text about permissions: the decision for one call, and what would allow it."""

import json
from collections.abc import Iterator
from typing import Any, cast

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.spec import same_name
from gencode.core.text import exact_line
from gencode.interfaces.render.plain_text import WIDE, table
from gencode.permissions.decision import check_tool
from gencode.permissions.explanation import Explanation

_PLAIN_TEXT = {
    "bash": "command",
    **dict.fromkeys(("read", "write", "edit"), "file_path"),
    **dict.fromkeys(("ls", "grep", "getfileinfo", "deletefile"), "path"),
    "glob": "pattern",
    **dict.fromkeys(("webfetch", "httpget", "httppost", "httprequest"), "url"),
    "websearch": "query",
    "task": "subagent_type",
    "spawn": "task",
    "spawnsubagent": "type",
    **dict.fromkeys(("taskoutput", "taskstop", "sendmessage"), "task_id"),
    "killshell": "shell_id",
}
"""What a text that is no JSON stands for, tool by tool."""


def call_input(tool: str, text: str) -> dict[str, Any]:
    """The input of a call: a JSON object, or plain text for the field that matters most."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith('{"'):
            raise UserMistake(f"The input is not a JSON object: {error}.") from None
        value = text
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    field = _PLAIN_TEXT.get(same_name(tool))
    if field is None:
        check_tool(tool)
        raise UserMistake(f'The input of {tool} must be a JSON object, such as \'{{"name": "value"}}\'.')
    return {field: text}


def explanation_text(found: Explanation, width: int | None = None) -> str:
    """The decision about a call, the rule that made it, and what each policy says."""
    return "\n".join(_explanation_lines(found, width))


def _explanation_lines(found: Explanation, width: int | None) -> Iterator[str]:
    call = json.dumps(found.input, ensure_ascii=False)
    shown = exact_line(call if len(call) <= 500 else f"{call[:499]}…")
    yield f"{found.decision}: {exact_line(found.tool)} {shown}"
    for label, text in (
        ("why", found.why),
        ("rule", found.rule),
        ("policy", found.policy),
        ("to allow this", found.lifts),
        *(("note", text) for text in found.notes),
    ):
        if text:
            yield f"  {label:14} {exact_line(text)}"
    if found.chain:
        yield ""
        yield "Every policy from the root down decides, and the strictest decision wins:"
        head = ("POLICY", "MODE", "DECISION", "WHY")
        rows = [(step.policy, step.mode, step.decision, step.why) for step in found.chain]
        yield table(head, rows, width)


def explanation_page(gen: GenCode, tool: str, given: str) -> str:
    """The decision for one call of the main agent under the current mode and rules."""
    known = gen.toolbox[tool].name if tool in gen.toolbox else tool
    return explanation_text(gen.explain(known, call_input(known, given)), WIDE)
