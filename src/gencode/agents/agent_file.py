"""Parses an agent file (Markdown, YAML, TOML, JSON) in its dialect: an agent, or what is wrong with it.

Nothing here raises for what a file holds: one bad file never stops the others.
"""

import re
from math import isfinite
from pathlib import PurePath
from typing import Any, cast

from gencode.agents.agent_builder import build_agent
from gencode.agents.dialect import AgentFile, Dialect, Near, ParsedFile, alone
from gencode.agents.dialects.table import dialect_named, is_copilot_file
from gencode.agents.file_errors import BrokenAgentFile, NotAnAgent, mistake, no_agent
from gencode.agents.frontmatter import read_front_matter
from gencode.agents.tool_lists import listed
from gencode.agents.yaml_reader import DEEPEST_FILE, NotYaml, yaml_fields
from gencode.core.errors import UserMistake
from gencode.core.spec import AgentSpec, same_name
from gencode.core.structs import replace
from gencode.core.text import one_line
from gencode.permissions.agent_folders import AGENT_FOLDERS, CONFIG_NAMES, USER_FOLDERS
from gencode.permissions.project_files import LARGEST_KEPT

ENDINGS = (".md", ".toml", ".yaml", ".yml", ".json", ".jsonc")
MOST_DOTS = 100
"""A TOML key of more parts than this is no agent's; the time to read one grows with their square."""
LARGEST_NUMBER = 2**63
DEEPEST_VALUE = 100
_NO_VALUE = "it holds a number that is too large, or a date that there is not"
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_DOTTED = re.compile(rf"(?<![\w-])(?:{_PART}){{{MOST_DOTS}}}")


def read_agent_files(
    content: bytes, path: str, dialect: str | None = None, *, near: Near = alone
) -> list[AgentFile]:
    """The agents of a file: one, but for settings of other products that may hold some."""
    if PurePath(path).name in CONFIG_NAMES:
        from gencode.agents.dialects.opencode_settings import agents_inside, plain_json

        try:
            fields = _json(plain_json(decoded(content, path)), path)
        except UserMistake as error:
            return [AgentFile(path, "opencode", why_not=str(error))]
        return agents_inside(fields, path, near)
    return [read_agent_file(content, path, dialect, near=near)]


def read_agent_file(
    content: bytes, path: str, dialect: str | None = None, *, builtin: bool = False, near: Near = alone
) -> AgentFile:
    """Read a file in a dialect; without one the dialect is found from its path and content.

    `near` gives the files beside it that it may be based on.
    """
    name = dialect or ""
    try:
        text = decoded(content, path)
        if dialect is None:
            name = from_path(PurePath(path)) or name
            parsed = parse(text, path)
            if not name and not has_form(PurePath(path), parsed):
                raise no_agent(path, "it does not have the form of an agent")
            name = dialect_of(PurePath(path), parsed)
        else:
            parsed = parse(text, path)
        made_by = dialect_named(name)
        return build_agent(made_by.joined(parsed, near, PurePath(path)), made_by, path, builtin=builtin)[1]
    except UserMistake as error:
        findings = error.findings if isinstance(error, BrokenAgentFile) else ()
        return AgentFile(
            path, name, why_not=str(error), findings=findings, other=isinstance(error, NotAnAgent)
        )


def read_agent(text: str, path: str, dialect: Dialect, *, builtin: bool = False) -> AgentSpec:
    """The agent in a file; UserMistake says what is wrong with it."""
    return build_agent(parse(text, path), dialect, path, builtin=builtin)[0]


def parse(text: str, path: str) -> ParsedFile:
    """The parsed contents of a file, by its format."""
    ending = PurePath(path).suffix.casefold()
    if ending == ".toml":
        return ParsedFile(_toml(text, path))
    if ending == ".json":
        return ParsedFile(_json(text, path))
    if ending in (".yaml", ".yml"):
        found = _yaml(text, path)
        return replace(found, fields=_plain(found.fields, path))
    matter = read_front_matter(text, path)
    fields = _plain(matter.fields, path)
    return ParsedFile(fields, matter.lines, matter.body, matter.stage, matter.repaired)


def decoded(content: bytes, path: str) -> str:
    """The text of a file; UserMistake for what is no text, or too large."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise mistake(path, "it is not UTF-8 text", line) from None
    if len(content) > LARGEST_KEPT:
        raise mistake(path, f"it is larger than {LARGEST_KEPT:,} bytes")
    return text


def _toml(text: str, path: str) -> dict[str, Any]:
    import tomllib

    if _DOTTED.search(text):
        raise mistake(path, "it is nested too deep")
    try:
        return _plain(tomllib.loads(text.removeprefix("\ufeff")), path)
    except tomllib.TOMLDecodeError as error:
        raise mistake(path, f"it is not TOML: {one_line(str(error), 200)}") from None
    except ValueError:  # a number with more digits than Python reads, or a date that is none
        raise mistake(path, _NO_VALUE) from None
    except RecursionError:
        raise mistake(path, "it is nested too deep") from None


def _json(text: str, path: str) -> dict[str, Any]:
    import json

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise mistake(path, f"the field {one_line(twice, 64)!r} is given twice")
        return fields

    try:
        found = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise mistake(path, f"it is not JSON: {one_line(str(error), 200)}") from None
    except ValueError:  # a number with more digits than Python reads
        raise mistake(path, _NO_VALUE) from None
    except RecursionError:
        raise mistake(path, "it is nested too deep") from None
    if not isinstance(found, dict):
        raise no_agent(path, "it holds no fields, so it is no agent")
    return _plain(cast("dict[str, Any]", found), path)


def _plain(fields: dict[str, Any], path: str) -> dict[str, Any]:
    """The fields, with nothing in them that cannot be written down again: everybody after this shows values.

    Dates are texts, as in YAML. UserMistake for what is too deep, too large, or no Unicode.
    """

    def plain(value: Any, depth: int) -> Any:
        match value:
            case str():
                if not _is_unicode(value):
                    raise mistake(path, "it contains a lone surrogate, which is not text")
                return value
            case bool() | None:
                return value
            case int():
                if abs(value) >= LARGEST_NUMBER:
                    raise mistake(path, "it holds a number that is too large")
                return value
            case float():
                return value if isfinite(value) else str(value)
            case dict() | list() if depth == DEEPEST_VALUE:
                raise mistake(path, "it is nested too deep")
            case dict():
                pairs = cast("dict[str, Any]", value).items()
                return {plain(name, depth): plain(each, depth + 1) for name, each in pairs}
            case list():
                return [plain(each, depth + 1) for each in cast("list[Any]", value)]
            case _:
                return str(value)

    return plain(fields, 0)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _yaml(text: str, path: str) -> ParsedFile:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        fields, lines = yaml_fields(text, path, deepest=DEEPEST_FILE)
    except NotYaml as error:
        raise mistake(path, f"it is not YAML: {error}", error.line) from None
    return ParsedFile(fields, lines)


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
    plain = [_undotted(part) for part in path.parts[:-1]]
    for end in range(len(plain), 1, -1):
        for start in range(max(0, end - 3), end - 1):
            if name := _BY_FOLDER.get("/".join(plain[start:end])):
                return name if path.suffix in _ENDINGS.get(name, (".md",)) else None
    if path.name == "SUBAGENT.md":
        return "task-types"
    return "copilot" if is_copilot_file(path) else None


def home_of(path: PurePath) -> str:
    """The folder of agents that a file belongs to; its own where it lies in none that is known."""
    parts = path.parts[:-1]
    plain = [_undotted(part) for part in parts]
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


def _undotted(part: str) -> str:
    return f".{part[4:]}" if part.startswith("dot-") else part
