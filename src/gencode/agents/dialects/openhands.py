"""OpenHands: Claude Code's fields, limits per run, and modes of confirmation."""

from msgspec.structs import replace

from gencode.agents.agent_fields import Fields
from gencode.agents.dialect import COMMON, Dialect, field_names
from gencode.agents.mode_names import CLAUDE, OPENHANDS
from gencode.core.spec import AgentSpec

FIELDS = {
    **COMMON,
    **field_names(
        max_turns="max-turns max_iteration_per_run",
        mcp_servers="mcp-servers mcp_config",
        usd="max_budget_per_run",
        nothing="profile_store_dir condenser",
    ),
}
FAMILIES = ("file_editor",)


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """What a run may cost."""
    usd = fields.decimal("usd", 0.000001, 1_000_000)
    if usd is None:
        return spec
    said = f"it may cost ${usd:g} where the price of its model is known; elsewhere only its turns are limited"
    fields.say("budget-unpriced", said, fields.line("usd"))
    return replace(spec, budget=replace(spec.budget, usd=usd))


DIALECT = Dialect(
    "openhands",
    project=(".openhands/agents",),
    user=(".openhands/agents",),
    fields=FIELDS,
    modes={**CLAUDE, **OPENHANDS},
    families=FAMILIES,
    finish=finish,
)
