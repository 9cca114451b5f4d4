"""pi: names of tools in lower case, how hard to think, and what of the project it is told."""

from msgspec.structs import replace

from gencode.agents.agent_fields import Fields
from gencode.agents.dialect import COMMON, Dialect, field_names
from gencode.core.spec import AgentSpec


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """Whether it is told what the project says to agents."""
    return replace(spec, instructions=fields.truth("context", default=spec.instructions))


DIALECT = Dialect(
    "pi",
    project=(".pi/agents",),
    user=(".pi/agent/agents", ".pi/agents"),
    fields={
        **COMMON,
        **field_names(
            effort="thinking",
            context="inheritProjectContext",
            nothing="systemPromptMode inheritSkills defaultProgress aliases defaultContext output "
            "defaultReads extensions subagentOnlyExtensions",
        ),
    },
    finish=finish,
)
