"""opencode: tools are switched on and off, permissions are patterns of which the last match counts."""

from pathlib import PurePath

from msgspec.structs import replace

from gencode.agents.agent_fields import Fields
from gencode.agents.dialect import COMMON, Dialect, ParsedFile, field_names
from gencode.core.spec import AgentSpec

FIELDS = {
    **COMMON,
    **field_names(
        permission="permission permissions",
        kind="mode",
        max_turns="max-turns steps maxSteps",
        prompt="prompt system",
        off="disable disabled",
        nothing="variant top_p options request",
    ),
}
_AGENTS = ("agent", "agents")


def prepare(parsed: ParsedFile) -> ParsedFile:
    """The old name of the turn limit gives way to the new one."""
    fields = dict(parsed.fields)
    if "steps" in fields:
        fields.pop("maxSteps", None)
    return replace(parsed, fields=fields)


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """An agent that only leads conversations is not offered to others."""
    if fields.truth("off"):
        fields.refuse("off", "it is switched off (disable: true)")
    return replace(spec, hidden=spec.hidden or fields.word("kind").casefold() == "primary")


def called(path: PurePath) -> str:
    """The path below the folder of agents."""
    parts = path.with_suffix("").parts
    place = max((at for at, part in enumerate(parts[:-1]) if part in _AGENTS), default=len(parts) - 2)
    return "/".join(parts[place + 1 :])


DIALECT = Dialect(
    "opencode",
    project=(".opencode/agent", ".opencode/agents"),
    user=(".config/opencode/agent", ".config/opencode/agents"),
    fields=FIELDS,
    prepare=prepare,
    finish=finish,
    called=called,
)
