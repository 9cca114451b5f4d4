"""Cursor: few fields; one that only reads is in plan mode."""

from msgspec.structs import replace

from gencode.agents.agent_fields import Fields
from gencode.agents.dialect import COMMON, Dialect, field_names
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """Read-only is plan mode. What is neither true nor false is taken for true, which gives less."""
    if "readonly" in fields.values and fields.truth("readonly", default=True):
        return replace(spec, mode=Mode.PLAN)
    return spec


DIALECT = Dialect(
    "cursor",
    project=(".cursor/agents",),
    user=(".cursor/agents",),
    fields={**COMMON, **field_names(readonly="readonly read_only", background="is_background background")},
    finish=finish,
)
