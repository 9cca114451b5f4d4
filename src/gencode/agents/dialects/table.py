"""The table of dialects: for each product its folders, the names of its fields, and what is special about it.

The order is that of precedence: where two dialects have an agent of one name, the earlier one wins. A dialect
that takes more than a few lines has a file of its own beside this one, loaded when a file of it is found.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, cast

from gencode.agents.agent_fields import Fields, as_decimal
from gencode.agents.dialect import CLAUDE_MODES, COMMON, Dialect, ParsedFile, field_names, usual_name
from gencode.core.budget import amount_of
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec, same_name
from gencode.core.structs import replace

QWEN_MODES = {
    "default": Mode.DEFAULT,
    "plan": Mode.PLAN,
    "autoedit": Mode.ACCEPT_EDITS,
    "yolo": Mode.DONT_ASK,
    "bubble": None,
}
OPENHANDS_MODES = {
    "alwaysconfirm": Mode.DEFAULT,
    "neverconfirm": Mode.DONT_ASK,
    "confirmrisky": Mode.DEFAULT,
}


def dialect_named(name: str) -> Dialect:
    """A dialect by its name."""
    found = _TABLE[name]
    return found if found is not None else import_module(f"gencode.agents.dialects.{_MODULES[name]}").DIALECT


def level(name: str) -> int:
    """The level of precedence of a dialect; in each level the nearest folder comes first."""
    return _LEVELS.index(name) if name in _LEVELS else len(_LEVELS)


def rank(name: str) -> int:
    """The place of a dialect among those of its level in one folder."""
    return _RANKS[name]


def is_copilot_file(path: PurePath) -> bool:
    """Whether the file name is that of a Copilot agent."""
    return path.name.endswith((".agent.md", ".chatmode.md"))


def _finish_copilot(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """An agent that no model may call is found by its name and listed nowhere."""
    uncalled = fields.truth("uncalled") or not fields.truth("inferred", default=True)
    return replace(spec, hidden=spec.hidden or uncalled)


def _finish_cursor(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """Read-only is plan mode. What is neither true nor false is taken for true, which gives less."""
    if "readonly" in fields.values and fields.truth("readonly", default=True):
        return replace(spec, mode=Mode.PLAN)
    return spec


def _finish_gemini(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """How long it may take; an agent on another machine cannot be started from here."""
    if fields.word("kind").casefold() == "remote":
        fields.refuse(
            "kind", "it is an agent on another machine (kind: remote), which cannot be started from here"
        )
    minutes = fields.decimal("minutes", 0.01, 100_000)
    return spec if minutes is None else replace(spec, budget=replace(spec.budget, seconds=minutes * 60))


def _finish_openhands(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """What a run may cost."""
    usd = fields.decimal("usd", 0.000001, 1_000_000)
    if usd is None:
        return spec
    said = f"it may cost ${usd:g} where the price of its model is known; elsewhere only its turns are limited"
    fields.say("budget-unpriced", said, fields.line("usd"))
    return replace(spec, budget=replace(spec.budget, usd=usd))


def _finish_task_type(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """A type has the name of its folder."""
    folder = usual_name(PurePath(fields.path))
    if same_name(spec.name) != same_name(folder):
        fields.refuse(
            "name", f"its name is {spec.name!r}, and that of its folder {folder!r}; make them equal"
        )
    return spec


def _finish_pi(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """Whether it gets the instructions of the project."""
    return replace(spec, instructions=fields.truth("context", default=spec.instructions))


def _prepare_qwen(parsed: ParsedFile) -> ParsedFile:
    """`permissionMode` wins where both modes are given, as it does there."""
    fields = parsed.fields
    if "permissionMode" in fields and "approvalMode" in fields:
        fields = {name: value for name, value in fields.items() if name != "approvalMode"}
    return replace(parsed, fields=fields)


def _finish_qwen(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """The limits of a run."""
    limits = fields.mapping("limits") or cast("dict[str, Any]", {})
    turns, minutes = as_decimal(limits.get("max_turns")), as_decimal(limits.get("max_time_minutes"))
    if turns and turns >= 1 and "max-turns" not in fields.values:
        spec = replace(spec, max_turns=int(turns))
    if minutes and (seconds := amount_of("seconds", minutes * 60)):
        spec = replace(spec, budget=replace(spec.budget, seconds=seconds))
    return spec


def _prepare_opencode(parsed: ParsedFile) -> ParsedFile:
    """The old name of the turn limit gives way to the new one."""
    fields = dict(parsed.fields)
    if "steps" in fields:
        fields.pop("maxSteps", None)
    return replace(parsed, fields=fields)


def _finish_opencode(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """An agent that only leads conversations is not offered to others."""
    if fields.truth("off"):
        fields.refuse("off", "it is switched off (disable: true)")
    return replace(spec, hidden=spec.hidden or fields.word("kind").casefold() == "primary")


def _opencode_name(path: PurePath) -> str:
    """The path below the folder of agents."""
    parts = path.with_suffix("").parts
    folders = ("agent", "agents")
    place = max((at for at, part in enumerate(parts[:-1]) if part in folders), default=len(parts) - 2)
    return "/".join(parts[place + 1 :])


_OPENCODE_FIELDS = {
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
_OPENHANDS_FIELDS = {
    **COMMON,
    **field_names(
        max_turns="max-turns max_iteration_per_run",
        mcp_servers="mcp-servers mcp_config",
        usd="max_budget_per_run",
        nothing="profile_store_dir condenser",
    ),
}

GENCODE = Dialect("gencode", project=(".gen/agents",), strict=True)
"""GenCode's own agent files.

    ---
    name: tester
    description: Runs the tests and reports failures.
    model: inherit
    permission-mode: acceptEdits
    max-turns: 20
    tools: {mode: allowlist, allow: [Read, Bash]}
    permissions: {deny: ["Bash(git push:*)"]}
    result-cap: 4000
    effort: low
    override: false
    ---
    The agent's own instructions.

A value that would give an agent more than its author meant is an error; one without effect is a warning.
"""

OPENCODE = Dialect(
    "opencode",
    project=(".opencode/agent", ".opencode/agents"),
    user=(".config/opencode/agent", ".config/opencode/agents"),
    fields=_OPENCODE_FIELDS,
    prepare=_prepare_opencode,
    finish=_finish_opencode,
    called=_opencode_name,
)
"""opencode: tools are switched on and off; permissions are patterns of which the last match wins."""

_MODULES = {"codex": "codex", "goose-recipe": "goose_recipe", "kiro": "kiro", "kimi": "kimi"}

_TABLE: Mapping[str, Dialect | None] = MappingProxyType(
    {
        "gencode": GENCODE,
        "claude": Dialect("claude", project=(".claude/agents",), user=(".claude/agents",)),
        # The folder that several products share.
        "agents": Dialect(
            "agents",
            project=(".agents/agents",),
            user=(".agents/agents",),
            fields={**_OPENHANDS_FIELDS, **field_names(sends="subagents")},
            modes={**CLAUDE_MODES, **OPENHANDS_MODES},
            families=("file_editor",),
            finish=_finish_openhands,
        ),
        # A folder for each type; its name is that of the folder.
        "task-types": Dialect(
            "task-types",
            project=("data/subagents", "subagents"),
            file="SUBAGENT.md",
            registered=True,
            finish=_finish_task_type,
        ),
        "opencode": OPENCODE,
        # Words for groups of tools, `server/tool` for tools of MCP servers.
        "copilot": Dialect(
            "copilot",
            project=(".github/agents", ".github/chatmodes"),
            user=(".copilot/agents",),
            fields={
                **COMMON,
                **field_names(
                    sends="agents",
                    uncalled="disable-model-invocation",
                    inferred="infer",
                    nothing="target user-invocable handoffs argument-hint metadata deferred-tool-loading "
                    "sidekick",
                ),
            },
            families=("edit", "search", "read", "execute", "web"),
            servers="/",
            finish=_finish_copilot,
        ),
        "gemini": Dialect(
            "gemini",
            project=(".gemini/agents",),
            user=(".gemini/agents",),
            fields={
                **COMMON,
                **field_names(kind="kind", minutes="timeout_mins"),
            },
            finish=_finish_gemini,
        ),
        "qwen": Dialect(
            "qwen",
            project=(".qwen/agents",),
            user=(".qwen/agents",),
            fields={
                **COMMON,
                **field_names(permission_mode="permissionMode approvalMode", limits="runConfig"),
            },
            modes={**CLAUDE_MODES, **QWEN_MODES},
            prepare=_prepare_qwen,
            finish=_finish_qwen,
        ),
        "codex": None,
        "cursor": Dialect(
            "cursor",
            project=(".cursor/agents",),
            user=(".cursor/agents",),
            fields={
                **COMMON,
                **field_names(readonly="readonly read_only", background="is_background background"),
            },
            finish=_finish_cursor,
        ),
        "goose": Dialect(
            "goose",
            project=(".goose/agents",),
            user=(".config/goose/agents",),
            fields={**COMMON, **field_names(nothing="provider avatar")},
        ),
        "goose-recipe": None,
        "kiro": None,
        "kimi": None,
        "kimi-code": Dialect(
            "kimi-code",
            project=(".kimi-code/agents",),
            user=(".kimi-code/agents",),
            fields={**COMMON, **field_names(sends="subagents")},
        ),
        "openhands": Dialect(
            "openhands",
            project=(".openhands/agents",),
            user=(".openhands/agents",),
            fields=_OPENHANDS_FIELDS,
            modes={**CLAUDE_MODES, **OPENHANDS_MODES},
            families=("file_editor",),
            finish=_finish_openhands,
        ),
        # `tools: all` is every tool.
        "letta": Dialect(
            "letta",
            project=(".letta/agents",),
            user=(".letta/agents",),
            fields={**COMMON, **field_names(nothing="fork launchProfile memoryBlocks")},
            every=("all",),
        ),
        "factory": Dialect(
            "factory",
            project=(".factory/droids",),
            user=(".factory/droids",),
            fields={**COMMON, **field_names(effort="effort reasoningEffort", nothing="version")},
            families=("read-only", "edit", "execute", "web"),
        ),
        # As opencode, and lists of tools as Claude Code writes them.
        "kilo": Dialect(
            "kilo",
            project=(".kilo/agents", ".kilo/agent", ".kilocode/agents"),
            user=(".config/kilo/agents", ".config/kilo/agent", ".kilo/agents"),
            fields=_OPENCODE_FIELDS,
            prepare=_prepare_opencode,
            finish=_finish_opencode,
        ),
        "junie": Dialect("junie", project=(".junie/agents",), user=(".junie/agents",)),
        "continue": Dialect(
            "continue",
            project=(".continue/agents",),
            user=(".continue/agents",),
            fields={**COMMON, **field_names(nothing="alwaysApply globs rules version schema")},
        ),
        "rovodev": Dialect(
            "rovodev",
            project=(".rovodev/subagents",),
            user=(".rovodev/subagents",),
            fields={**COMMON, **field_names(nothing="load_memory")},
        ),
        "pi": Dialect(
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
            finish=_finish_pi,
        ),
    }
)
"""Every dialect, the first one winning; None: it is in the module of its own that `_MODULES` names."""

DIALECTS = tuple(_TABLE)
"""The names of all dialects, in their order."""

_RANKS = {name: place for place, name in enumerate(DIALECTS)}
_LEVELS = ("gencode", "claude", "agents", "task-types")
"""The dialects that the contract names, each a level of its own; all others are one level after them."""
