"""Agents room: which dialect a file is of, told from where it lies, else from what it holds."""

from pathlib import PurePath

from gencode.agents.dialect import ParsedFile
from gencode.agents.dialects.copilot import is_ours
from gencode.agents.entries import listed
from gencode.core.spec import same_name
from gencode.permissions.agent_folders import AGENT_FOLDERS, USER_FOLDERS

_FOLDERS = tuple(
    sorted(
        {(folder, name) for name, folder in USER_FOLDERS}
        | {
            (folder, name)
            for name, folders in AGENT_FOLDERS.items()
            for folder in folders
            if name != "task-types"
        },
        key=lambda each: -len(each[0]),
    )
)
_BY_FOLDER = dict(_FOLDERS)
_ENDINGS = {
    "codex": (".toml",),
    "kimi": (".yaml", ".yml"),
    "goose-recipe": (".yaml", ".yml"),
    "kiro": (".md", ".json"),
}
_PAIRS = frozenset("/".join(folder.split("/")[-2:]) for folder, _ in _FOLDERS)
_TELLTALES: tuple[tuple[str, frozenset[str]], ...] = tuple(
    (name, frozenset(map(same_name, fields.split())))
    for name, fields in (
        ("qwen", "approvalMode runConfig"),
        ("cursor", "readonly is_background"),
        ("copilot", "user-invocable disable-model-invocation infer handoffs argument-hint target"),
        ("gemini", "timeout_mins kind display_name"),
        ("pi", "systemPromptMode inheritProjectContext inheritSkills defaultReads"),
        ("letta", "launchProfile fork"),
        ("openhands", "max_iteration_per_run max_budget_per_run condenser profile_store_dir"),
        ("rovodev", "load_memory"),
        ("continue", "alwaysApply"),
        ("goose", "avatar"),
        ("kimi-code", "whenToUse"),
    )
)
_GEMINIS = frozenset(
    ("read_file", "run_shell_command", "list_directory", "search_file_content", "grep_search")
)
_KIROS = ("prompt", "allowedTools", "toolsSettings", "toolAliases", "useLegacyMcpJson")
_MODES = ("primary", "subagent", "all")


def from_path(path: PurePath) -> str | None:
    """The dialect whose folder a file lies in. Folders for links into a home spell `.x` as `dot-x`."""
    plain = [_plain(part) for part in path.parts[:-1]]
    for end in range(len(plain), 1, -1):
        for start in range(max(0, end - 3), end - 1):
            if name := _BY_FOLDER.get("/".join(plain[start:end])):
                return name if path.suffix in _ENDINGS.get(name, (".md",)) else None
    if path.name == "SUBAGENT.md":
        return "task-types"
    return "copilot" if is_ours(path) else None


def home_of(path: PurePath) -> str:
    """The folder of agents that a file belongs to; its own where it lies in none that is known."""
    parts = path.parts[:-1]
    plain = [_plain(part) for part in parts]
    for end in range(len(parts), 1, -1):
        if "/".join(plain[end - 2 : end]) in _PAIRS:
            return "/".join(parts[:end])
    return "/".join(parts)


def dialect_of(path: PurePath, parsed: ParsedFile) -> str:
    """The dialect of a file; Claude Code's where nothing speaks for another."""
    if found := from_path(path):
        return found
    fields = {same_name(name) for name in parsed.fields}
    if path.suffix == ".toml":
        return "codex"
    if path.suffix == ".json":
        return "kiro"
    if path.suffix in (".yaml", ".yml"):
        return "kimi" if isinstance(parsed.fields.get("agent"), dict) else "goose-recipe"
    tools = parsed.fields.get("tools")
    if isinstance(tools, dict):
        return "gencode" if {*tools} <= {"mode", "allow", "deny"} else "opencode"
    if parsed.fields.get("mode") in _MODES or isinstance(parsed.fields.get("permission"), dict):
        return "opencode"
    for name, telltales in _TELLTALES:
        if fields & telltales:
            return name
    names = listed(tools) or []
    if any("/" in each and "(" not in each for each in names):
        return "copilot"
    if "permission-mode" in parsed.fields or "result-cap" in parsed.fields:
        return "gencode"
    return "gemini" if _GEMINIS & {*names} else "claude"


def has_form(path: PurePath, parsed: ParsedFile) -> bool:
    """Whether a file that lies anywhere looks like an agent; Markdown with fields does."""
    fields = parsed.fields
    if (
        path.suffix == ".json"
    ):  # Kiro's; settings and manifests of packages have a name and a description, too
        return isinstance(fields.get("tools"), list) or any(name in fields for name in _KIROS)
    if path.suffix == ".toml":
        return "developer_instructions" in fields or {"name", "description"} <= fields.keys()
    if path.suffix in (".yaml", ".yml"):
        told = "instructions" in fields or "prompt" in fields
        return isinstance(fields.get("agent"), dict) or (told and bool({"title", "name"} & fields.keys()))
    return True


def _plain(part: str) -> str:
    return f".{part[4:]}" if part.startswith("dot-") else part
