"""Kiro: JSON with a prompt, or Markdown.

`allowedTools` need no approval in Kiro; they grant nothing here. `toolsSettings` refuse paths and commands.
Commands are regular expressions there: one of plain words and `.*` is refused here as well, and for any other
one every command of the agent needs approval.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from gencode.agents.agent_fields import Fields
from gencode.agents.dialect import COMMON, Dialect, field_names
from gencode.agents.permission_rules import ToolPermissions, rules_for
from gencode.agents.tool_lists import denials, listed, switch
from gencode.agents.tool_names import tools_called
from gencode.core.rules import Action, Rule, RuleOrigin, merge, written_in
from gencode.core.spec import AgentSpec
from gencode.core.structs import replace
from gencode.core.text import one_line

_FAMILIES = ("@builtin", "fs_read", "fs_write", "read")
_FREE = frozenset(("allowedCommands", "autoAllowReadonly", "allowedPaths", "trusted"))
"""What needs no approval there, and gives nothing here."""
_READ = ("deniedPaths", "deniedCommands", "denyByDefault")
_WORDS = re.compile(r"(?:[\w /:=@,~%-]|\\[.+/$-]|\.\*|\.\+)+")
_ANYTHING = re.compile(r"(?<!\\)\.[*+]")
_ESCAPED = re.compile(r"\\(.)")


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """What the settings of tools refuse."""
    if "settings" not in fields.values:
        return spec
    rules = _rules(fields.mapping("settings"), written_in(spec.source))
    said = "what its toolsSettings refuse is refused or needs approval; what they allow has no effect"
    fields.say("permission-read", said, fields.line("settings"))
    return replace(spec, rules=merge(spec.rules, rules))


def _rules(settings: dict[str, Any] | None, origin: RuleOrigin) -> Iterator[Rule]:
    if settings is None:
        yield Rule("*", "*", Action.ASK, origin)
        return
    for name, given in settings.items():
        parts = cast("dict[str, Any]", given) if isinstance(given, dict) else {"": given}
        for tool in tools_called(name, _FAMILIES) or (one_line(name, 64),):
            for pattern in denials(parts.get("deniedPaths")):
                yield Rule(tool, pattern, Action.DENY, origin)
                yield Rule(tool, f"{pattern.rstrip('/')}/**", Action.DENY, origin)
            yield from _commands(tool, parts, origin)
            if any(part not in (*_FREE, *_READ) for part in parts):
                yield Rule(tool, "*", Action.ASK, origin)


def _commands(tool: str, parts: dict[str, Any], origin: RuleOrigin) -> Iterator[Rule]:
    """The commands that are refused, and everything else where only some are allowed."""
    denied = denials(parts.get("deniedCommands"))
    patterns = [_pattern(each) for each in denied] if tool == "Bash" else []
    if len([*filter(None, patterns)]) < len(denied):
        yield Rule(tool, "*", Action.ASK, origin)
    refused = ToolPermissions(None, tuple((each, Action.DENY) for each in patterns if each))
    yield from rules_for(tool, refused, origin)
    if switch(parts.get("denyByDefault", False)) is not False:
        allowed = [_pattern(each) for each in listed(parts.get("allowedCommands")) or ()]
        only = ToolPermissions(Action.DENY, tuple((each, Action.ALLOW) for each in allowed if each))
        yield from rules_for(tool, only, origin)


def _pattern(expression: str) -> str:
    """A regular expression for whole commands as one of our patterns; empty where it is more than words."""
    text = expression.removeprefix("^").removesuffix("$")
    if not _WORDS.fullmatch(text):
        return ""
    return _ESCAPED.sub(r"\1", _ANYTHING.sub("*", text))


DIALECT = Dialect(
    "kiro",
    project=(".kiro/agents",),
    user=(".kiro/agents",),
    endings=(".md", ".json"),
    fields={
        **COMMON,
        **field_names(
            prompt="prompt",
            settings="toolsSettings",
            nothing="allowedTools resources useLegacyMcpJson toolAliases",
        ),
    },
    families=_FAMILIES,
    servers="/",
    finish=finish,
)
