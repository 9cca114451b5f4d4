"""Gemini CLI: fields with underscores, tools in its own words, and a limit in minutes."""

from msgspec.structs import replace

from gencode.agents.agent_fields import Fields
from gencode.agents.dialect import COMMON, Dialect, field_names
from gencode.core.spec import AgentSpec


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """How long it may take; an agent on another machine is none that can be sent from here."""
    if fields.word("kind").casefold() == "remote":
        fields.refuse(
            "kind", "it is an agent on another machine (kind: remote), which cannot be sent from here"
        )
    minutes = fields.decimal("minutes", 0.01, 100_000)
    return spec if minutes is None else replace(spec, budget=replace(spec.budget, seconds=minutes * 60))


DIALECT = Dialect(
    "gemini",
    project=(".gemini/agents",),
    user=(".gemini/agents",),
    fields={**COMMON, **field_names(kind="kind", minutes="timeout_mins", nothing="display_name")},
    finish=finish,
)
