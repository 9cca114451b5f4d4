"""GitHub Copilot: `NAME.agent.md`; words for groups of tools, `server/tool` for tools of MCP servers."""

from pathlib import PurePath

from msgspec.structs import replace

from gencode.agents.agent_fields import Fields
from gencode.agents.dialect import COMMON, Dialect, field_names
from gencode.core.spec import AgentSpec


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """One that no model may call is found by its name and listed nowhere."""
    uncalled = fields.truth("uncalled") or not fields.truth("inferred", default=True)
    return replace(spec, hidden=spec.hidden or uncalled)


def is_ours(path: PurePath) -> bool:
    """Whether the name of a file says that it is Copilot's."""
    return path.name.endswith((".agent.md", ".chatmode.md"))


DIALECT = Dialect(
    "copilot",
    project=(".github/agents", ".github/chatmodes"),
    user=(".copilot/agents",),
    fields={
        **COMMON,
        **field_names(
            sends="agents",
            uncalled="disable-model-invocation",
            inferred="infer",
            nothing="target user-invocable handoffs argument-hint metadata deferred-tool-loading sidekick",
        ),
    },
    families=("edit", "search", "read", "execute", "web"),
    servers="/",
    finish=finish,
)
