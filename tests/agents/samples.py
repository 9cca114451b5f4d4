"""One file of every dialect that says as much as the dialect can, and what it means here."""

from typing import Any, NamedTuple

from gencode.core.rules import Mode
from gencode.core.spec import ToolChoice


class Sample(NamedTuple):
    """A file in a project, the name of its agent, its tools, and other fields of its spec that it sets."""

    dialect: str
    path: str
    text: str
    name: str
    tools: ToolChoice
    also: dict[str, Any]


def only(*names: str) -> ToolChoice:
    return ToolChoice(names)


SAMPLES = (
    Sample(
        "gencode",
        ".gen/agents/tester.md",
        "---\nname: tester\ndescription: Tests.\npermission-mode: plan\nmax-turns: 7\n"
        "tools:\n  mode: allowlist\n  allow: [Read, Grep]\n---\nTest.",
        "tester",
        only("Read", "Grep"),
        {"mode": Mode.PLAN, "max_turns": 7},
    ),
    Sample(
        "claude",
        ".claude/agents/deep/reviewer.md",
        "---\nname: code-reviewer\ndescription: Reviews.\ntools: Read, LS, MultiEdit\n"
        "disallowedTools: Bash\npermissionMode: dontAsk\nmaxTurns: 9\nskills: [a, b]\nmemory: project\n"
        "background: true\neffort: max\ncolor: red\nmodel: sonnet\n"
        "mcpServers: [github]\ninitialPrompt: Begin.\n---\nReview.",
        "code-reviewer",
        ToolChoice(("Read", "LS", "Edit"), ("Bash",)),
        {
            **{"mode": Mode.UNATTENDED, "max_turns": 9, "skills": ("a", "b"), "memory": "project"},
            **{"background": True, "effort": "high", "colour": "red"},
            **{"model": "sonnet", "mcp_servers": ("github",), "initial_prompt": "Begin."},
        },
    ),
    Sample(
        "agents",
        ".agents/agents/helper-bee.md",
        "---\nname: bee\ndescription: Works.\ntools: [terminal, read_file]\nmax_iteration_per_run: 12\n"
        "permission_mode: always_confirm\n---\nWork.",
        "bee",
        only("Bash", "Read"),
        {"mode": Mode.DEFAULT, "max_turns": 12},
    ),
    Sample(
        "task-types",
        "data/subagents/digger/SUBAGENT.md",
        '---\nname: digger\ndescription: "Digs."\ntools: "read_file, list_files, http_get, current_time"\n'
        "model: fast\n---\nDig.",
        "digger",
        only("Read", "LS", "http_get", "current_time"),
        {"model": "fast"},
    ),
    Sample(
        "opencode",
        ".opencode/agent/team/scout.md",
        "---\ndescription: Looks.\nmode: subagent\nmodel: anthropic/some\ntemperature: 0.1\nsteps: 6\n"
        "hidden: true\ntools:\n  read: true\n  grep: true\n---\nLook.",
        "team/scout",
        only("Read", "Grep"),
        {"model": "anthropic/some", "temperature": 0.1, "max_turns": 6, "hidden": True},
    ),
    Sample(
        "copilot",
        ".github/agents/docs.agent.md",
        "---\ndescription: Writes.\ntools: ['read/readFile', 'search', 'github/get_me']\n"
        "model: Claude Sonnet 4.5 (copilot)\nagents: [scout]\n---\nWrite.",
        "docs",
        only("Read", "Grep", "Glob", "mcp__github__get_me"),
        {"model": "sonnet", "sends": ("scout",)},
    ),
    Sample(
        "gemini",
        ".gemini/agents/gem.md",
        "---\nname: gem\ndescription: Shines.\nkind: local\ntools: [read_file, run_shell_command]\n"
        "model: gemini-2.5-pro\nmax_turns: 4\ntimeout_mins: 2\n---\nShine.",
        "gem",
        only("Read", "Bash"),
        {"model": "gemini/gemini-2.5-pro", "max_turns": 4},
    ),
    Sample(
        "qwen",
        ".qwen/agents/q.md",
        "---\nname: q\ndescription: Asks.\ntools: [ReadFile, Shell]\napprovalMode: auto-edit\n---\nAsk.",
        "q",
        only("Read", "Bash"),
        {"mode": Mode.ACCEPT_EDITS},
    ),
    Sample(
        "codex",
        ".codex/agents/porter.toml",
        'name = "porter"\ndescription = "Ports."\ndeveloper_instructions = "Port."\nmodel = "gpt-5.4"\n'
        'model_reasoning_effort = "xhigh"\nsandbox_mode = "read-only"\n',
        "porter",
        ToolChoice(),
        {"mode": Mode.PLAN, "model": "openai/gpt-5.4", "effort": "high"},
    ),
    Sample(
        "cursor",
        ".cursor/agents/verifier.md",
        "---\nname: verifier\ndescription: Checks.\nmodel: fast\nreadonly: true\n---\nCheck.",
        "verifier",
        ToolChoice(),
        {"mode": Mode.PLAN, "model": "fast"},
    ),
    Sample(
        "goose",
        ".goose/agents/ralph.md",
        "---\nname: Ralph\ndescription: Goes on.\nprovider: goose\navatar: data\n---\nGo on.",
        "Ralph",
        ToolChoice(),
        {},
    ),
    Sample(
        "goose-recipe",
        ".goose/recipes/release.yaml",
        "version: 1.0.0\ntitle: Release\ndescription: Releases.\ninstructions: Be careful.\n"
        "prompt: Release it.\n"
        "settings:\n  temperature: 0.5\nresponse:\n  json_schema: {type: object}\n",
        "release",
        ToolChoice(),
        {"temperature": 0.5, "output_schema": {"type": "object"}, "prompt": "Be careful.\n\nRelease it."},
    ),
    Sample(
        "kiro",
        ".kiro/agents/kiwi.json",
        '{"name": "kiwi", "description": "Plans.", "tools": ["fs_read", "@git/status"], '
        '"allowedTools": ["shell"], "prompt": "Plan."}',
        "kiwi",
        only("Read", "LS", "mcp__git__status"),
        {"prompt": "Plan."},
    ),
    Sample(
        "kimi",
        ".kimi/agents/coder.yaml",
        "version: 1\nagent:\n  extend: default\n  when_to_use: To code.\n"
        "  system_prompt_args:\n    ROLE: Code.\n"
        '  allowed_tools: ["kimi_cli.tools.file:ReadFile", "kimi_cli.tools.shell:Shell"]\n'
        '  exclude_tools: ["kimi_cli.tools.file:WriteFile"]\n  subagents:\n    scout: {path: x}\n',
        "coder",
        ToolChoice(("Read", "Bash"), ("Write",)),
        {"description": "To code.", "prompt": "Code.", "sends": ("scout",)},
    ),
    Sample(
        "kimi-code",
        ".kimi-code/agents/kim.md",
        "---\nname: kim\ndescription: Codes.\nwhenToUse: For code.\ntools: Read\n"
        "subagents: [scout]\n---\nCode.",
        "kim",
        only("Read"),
        {"description": "Codes.\nFor code.", "sends": ("scout",)},
    ),
    Sample(
        "openhands",
        ".openhands/agents/hand.md",
        "---\nname: hand\ndescription: Helps.\ntools: [terminal]\npermission_mode: never_confirm\n---\nHelp.",
        "hand",
        only("Bash"),
        {"mode": Mode.DONT_ASK},
    ),
    Sample(
        "letta",
        ".letta/agents/recall.md",
        "---\nname: recall\ndescription: Remembers.\ntools: all\nmodel: inherit\n"
        "background: true\n---\nRecall.",
        "recall",
        ToolChoice(),
        {"background": True},
    ),
    Sample(
        "factory",
        ".factory/droids/droid.md",
        "---\nname: droid\ndescription: Builds.\ntools: read-only\nmodel: inherit\n---\nBuild.",
        "droid",
        only("Read", "LS", "Grep", "Glob"),
        {},
    ),
    Sample(
        "kilo",
        ".kilo/agents/kay.md",
        "---\nmode: subagent\ndescription: Debugs.\nmodel: haiku\ntools: [Read, Glob]\n---\nDebug.",
        "kay",
        only("Read", "Glob"),
        {"model": "haiku"},
    ),
    Sample(
        "junie",
        ".junie/agents/june.md",
        "---\nname: june\ndescription: Runs.\ntools: [Read]\ndisallowedTools: [Write, Edit]\n---\nRun.",
        "june",
        ToolChoice(("Read",), ("Write", "Edit")),
        {},
    ),
    Sample(
        "continue",
        ".continue/agents/conny.md",
        "---\nname: conny\ndescription: Goes on.\nalwaysApply: false\n---\nGo.",
        "conny",
        ToolChoice(),
        {},
    ),
    Sample(
        "rovodev",
        ".rovodev/subagents/rover.md",
        "---\nname: rover\ndescription: Roves.\ntools:\n  - open_files\n  - bash\n"
        "load_memory: true\n---\nRove.",
        "rover",
        only("Read", "Bash"),
        {},
    ),
    Sample(
        "pi",
        ".pi/agents/pie.md",
        "---\nname: pie\ndescription: Bakes.\ntools: read, grep, find, ls\nthinking: low\n"
        "inheritProjectContext: false\n---\nBake.",
        "pie",
        only("Read", "Grep", "Glob", "LS"),
        {"effort": "low", "instructions": False},
    ),
)
