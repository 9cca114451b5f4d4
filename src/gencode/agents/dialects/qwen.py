"""Qwen Code: Claude Code's fields, an approval mode of its own, and a block of limits."""

from typing import Any, cast

from msgspec.structs import replace

from gencode.agents.agent_fields import Fields, as_decimal
from gencode.agents.dialect import COMMON, Dialect, ParsedFile, field_names
from gencode.agents.mode_names import CLAUDE, QWEN
from gencode.core.budget import amount_of
from gencode.core.spec import AgentSpec


def prepare(parsed: ParsedFile) -> ParsedFile:
    """`permissionMode` counts where both modes are given, as it does there."""
    fields = parsed.fields
    if "permissionMode" in fields and "approvalMode" in fields:
        fields = {name: value for name, value in fields.items() if name != "approvalMode"}
    return replace(parsed, fields=fields)


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """The limits of a run."""
    limits = fields.mapping("limits") or cast("dict[str, Any]", {})
    turns, minutes = as_decimal(limits.get("max_turns")), as_decimal(limits.get("max_time_minutes"))
    if turns and turns >= 1 and "max-turns" not in fields.values:
        spec = replace(spec, max_turns=int(turns))
    if minutes and (seconds := amount_of("seconds", minutes * 60)):
        spec = replace(spec, budget=replace(spec.budget, seconds=seconds))
    return spec


DIALECT = Dialect(
    "qwen",
    project=(".qwen/agents",),
    user=(".qwen/agents",),
    fields={**COMMON, **field_names(permission_mode="permissionMode approvalMode", limits="runConfig")},
    modes={**CLAUDE, **QWEN},
    prepare=prepare,
    finish=finish,
)
