"""Kiro: JSON with a prompt, or Markdown.

`allowedTools` are those that need no approval there; they give nothing here. `toolsSettings` refuse paths and
commands; commands are regular expressions there, so an agent for which some are refused is asked about all.
"""

from collections.abc import Iterator
from typing import Any, cast

from msgspec.structs import replace

from gencode.agents.dialect import COMMON, Dialect, spelled
from gencode.agents.entries import denials
from gencode.agents.fields import Fields
from gencode.agents.tool_names import tools_called
from gencode.core.rules import Action, Rule, merge
from gencode.core.spec import AgentSpec
from gencode.runtime.prompt import one_line

_FAMILIES = ("@builtin", "fs_read", "fs_write", "read")
_FREE = frozenset(("allowedCommands", "autoAllowReadonly", "allowedPaths", "trusted"))
"""What needs no approval there, and gives nothing here."""


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """What the settings of tools refuse."""
    if "settings" not in fields.values:
        return spec
    rules = _rules(fields.mapping("settings"), spec.source)
    said = "what its toolsSettings refuse is refused or asked; what they allow is not"
    fields.say("permission-read", said, fields.line("settings"))
    return replace(spec, rules=merge(spec.rules, rules))


def _rules(settings: dict[str, Any] | None, origin: str) -> Iterator[Rule]:
    if settings is None:
        yield Rule("*", "*", Action.ASK, origin)
        return
    for name, given in settings.items():
        parts = cast("dict[str, Any]", given) if isinstance(given, dict) else {"": given}
        for tool in tools_called(name, _FAMILIES) or (one_line(name, 64),):
            for pattern in denials(parts.get("deniedPaths")):
                yield Rule(tool, pattern, Action.DENY, origin)
                yield Rule(tool, f"{pattern.rstrip('/')}/**", Action.DENY, origin)
            if any(part not in (*_FREE, "deniedPaths") for part in parts):
                yield Rule(tool, "*", Action.ASK, origin)


DIALECT = Dialect(
    "kiro",
    project=(".kiro/agents",),
    user=(".kiro/agents",),
    endings=(".md", ".json"),
    fields={
        **COMMON,
        **spelled(
            prompt="prompt",
            settings="toolsSettings",
            nothing="allowedTools resources useLegacyMcpJson toolAliases",
        ),
    },
    families=_FAMILIES,
    servers="/",
    finish=finish,
)
