"""Settings: read, checked and merged (defaults < user < project < environment < flags).

Of a project's file only the `deny` and `ask` rules count, until a person trusts the folder.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from gencode.core.budget import Budget, Price, allowed, amount_of
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.rules import (
    Action,
    Policy,
    RuleOrigin,
    RuleSource,
    merge,
    parse_mode,
    parse_rule,
    written_in,
)
from gencode.core.spec import DEEPEST
from gencode.permissions import saved_rules
from gencode.permissions.decision import check_tool
from gencode.permissions.paths import PATH_TOOLS, shown
from gencode.permissions.project_files import (
    LARGEST_SETTINGS,
    SERVERS,
    SETTINGS,
    agent_dialect,
    is_skill,
    is_users,
    project_settings,
)
from gencode.permissions.trust import FolderTrust, standing

PREFIX = "GEN_"
LISTS = (Action.ALLOW.value, Action.ASK.value, Action.DENY.value)
NAMES = ("tools",)
"""Lists that are no rules; of these the last layer wins."""
TABLES = (
    *("models", "prices", "agent_caps", "fleet_caps", "fleet_rates", "hooks", "mcp_servers", "channels"),
    "agents",
)

NARROWING = frozenset({Action.ASK.value, Action.DENY.value})
"""What every project's file may set."""
OF_PROJECTS = frozenset(
    {
        *(*LISTS, *NAMES, "model", "permission_mode", "max_turns", "max_seconds", "models", "prices"),
        "mcp_servers",
    },
)
"""What a trusted project's file may set. Everything else is only the user's: the sandbox, their journal."""
LEAST_CONTEXT = 8_000
"""A model that holds fewer tokens has no room for a task."""
_AMOUNTS = {
    **{"max_turns": "turns", "max_tokens_total": "tokens", "max_usd": "usd", "max_spawns": "spawns"},
    **{
        f"{each}_seconds": "seconds"
        for each in ("max", "task", "stall", "silence", "question", "answer", "command")
    },
}
"""Settings that are so much of a kind of a budget."""
MOST_RULES = 1_000
LONGEST_RULE = 4_096
_IN_FILES = "write files in ~/.gen/agents, or type --agents"
MOST_DOTS = 200
"""In a line of a project's file: TOML takes time and memory for the square of them."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a user can set; docs/reference/settings.md says what each one does."""

    model: str = ""
    permission_mode: str = "default"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_turns: int | None = None
    max_seconds: float | None = None
    max_tokens_total: int | None = None
    max_usd: float | None = None
    max_spawns: int | None = None
    max_agents: int = 16
    max_depth: int = 1
    task_seconds: float = 3_600.0
    stall_seconds: float = 120.0
    silence_seconds: float = 600.0
    question_seconds: float = 120.0
    answer_seconds: float = 600.0
    command_seconds: float = 600.0
    result_cache: bool = False
    durability: Literal["normal", "power"] = "normal"
    database_url: str = ""
    sandbox: Literal["auto", "off", "required"] = "auto"
    sandbox_network: bool = False
    background_questions: bool = False
    instructions: bool = True
    context_tokens: int | None = None
    agent_caps: dict[str, int] = {}
    fleet_caps: dict[str, int] = {}
    fleet_rates: dict[str, float] = {}
    hooks: dict[str, Any] = {}
    models: dict[str, str] = {}
    prices: dict[str, Price] = {}
    mcp_servers: dict[str, dict[str, Any]] = {}
    tools: tuple[str, ...] = ()
    channels: dict[str, dict[str, Any]] = {}
    agents: dict[str, Any] = {}
    append_system_prompt: str = ""
    telemetry: bool = False
    telemetry_content: bool = False

    @property
    def budget(self) -> Budget:
        """What a session may spend."""
        return Budget(tokens=self.max_tokens_total, usd=self.max_usd, spawns=self.max_spawns)

    def named_budget(self, flags: Mapping[str, Any]) -> Budget:
        """What of that these flags say."""
        kinds = {"max_tokens_total": "tokens", "max_usd": "usd", "max_spawns": "spawns"}
        said = {
            kind: getattr(self.budget, kind) for flag, kind in kinds.items() if flags.get(flag) is not None
        }
        return Budget(**said)


class Layer(Struct, frozen=True):
    """The settings of one place. `origin` is a file, or what every name of the layer begins with."""

    origin: str
    values: dict[str, Any]

    def place(self, key: str) -> str:
        """Where one setting of this layer was written, as a person would look for it."""
        return str(self.origin_of(key))

    def origin_of(self, key: str) -> RuleOrigin:
        """Where one setting of this layer was written."""
        match self.origin:
            case "GEN_":
                return RuleOrigin(RuleSource.ENVIRONMENT, f"GEN_{key.upper()}")
            case "--":
                return RuleOrigin(RuleSource.FLAG, f"--{key}")
            case _:
                return written_in(self.origin)


def gen_home(environ: Mapping[str, str] | None = None) -> Path:
    """The per-user folder: `$GEN_HOME`, or `~/.gen`."""
    environ = os.environ if environ is None else environ
    home = Path(environ.get("GEN_HOME") or "~/.gen").expanduser()
    if not home.is_absolute():  # it would lie in whatever folder we are in, and be the repository's
        raise UserMistake(f"GEN_HOME must be an absolute path, not {shown(str(home))}.")
    return home


def layers(
    cwd: Path,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    project: FolderTrust | None = None,
) -> list[Layer]:
    """The settings of every place, the weakest first; `project` is how the folder stands, if it is known."""
    environ = os.environ if environ is None else environ
    home = gen_home(environ)
    users = home / "settings.toml"
    project = project or standing(cwd, home)
    projects = [folder for folder in (cwd, *folders_above(cwd)) if not is_users(folder, home)]
    return [
        Layer(str(users), _read(users)),
        Layer(str(home / saved_rules.FILE), _read(home / saved_rules.FILE)),
        *(Layer(str(folder / SETTINGS), _of_project(folder, project)) for folder in projects),
        Layer(PREFIX, _from(environ)),
        Layer("--", dict(flags or {})),
    ]


def remember(rule: str) -> None:
    """Let a rule count in every session to come, as the person said; never in a project's file."""
    home = gen_home()
    with saved_rules.FileLock(home):
        saved_rules.save_rule(home, _read(home / saved_rules.FILE), rule)


def load(
    cwd: Path, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings that count in a folder."""
    return merged(layers(cwd, flags, environ))


def merged(found: Iterable[Layer]) -> Settings:
    """All layers as one record. Rules of all layers add up, and so do MCP servers of different names; of
    everything else the last layer wins.
    """
    values: dict[str, Any] = {}
    for layer in found:
        _known(layer.values, layer.origin)
        if "agents" in layer.values and layer.origin != "--":
            raise UserMistake(
                f"{layer.place('agents')}: the setting agents applies to one session only; {_IN_FILES}."
            )
        for key, value in layer.values.items():
            if key == "mcp_servers" and isinstance(value, dict):
                values[key] = {**values.get(key, {}), **cast("dict[str, Any]", value)}
            else:
                values[key] = [*values.get(key, ()), *_listed(key, value)] if key in LISTS else value
    return _checked(values)


def server_tables(found: Iterable[Layer]) -> list[tuple[str, dict[str, Any], bool]]:
    """The MCP servers of each layer, the weakest first: where they were written, and whether by the user."""
    users = (str(gen_home() / "settings.toml"), "--")
    tables = [(layer, layer.values.get("mcp_servers")) for layer in found]
    return [(layer.place("mcp_servers"), table, layer.origin in users) for layer, table in tables if table]


def root_policy(found: Iterable[Layer], settings: Settings) -> Policy:
    """The policy of the root: the mode, and the rules of all layers, each with the place it comes from."""
    rules = [
        parse_rule(text, Action(key), layer.origin_of(key))
        for layer in found
        for key in LISTS
        for text in layer.values.get(key, ())
    ]
    return Policy(parse_mode(settings.permission_mode), merge(rules), "session")


def policy_named(flags: Mapping[str, Any]) -> bool:
    """Whether these flags say anything about permissions."""
    return any(flags.get(key) for key in (*LISTS, "permission_mode"))


def folders_above(cwd: Path) -> list[Path]:
    """The folders above one that belong to the same git repository; none outside of one."""
    top = next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)
    return [folder for folder in cwd.parents if folder.is_relative_to(top)]


def project_values(project: FolderTrust) -> dict[str, Any]:
    """Everything the file of a folder sets, as it was when the folder was looked at, checked."""
    return _checked_file(project.folder, project.brought.texts.get(SETTINGS, b""))


def waiting(project: FolderTrust) -> tuple[str, ...]:
    """What would count of a folder if it were trusted, in a word each; nothing where nothing waits."""
    if project.state in ("nothing", "trusted"):
        return ()
    settings = {*project_values(project)} & (OF_PROJECTS - NARROWING)
    texts = project.brought.texts
    found = {
        "settings": bool(settings),
        "agents": any(map(agent_dialect, texts)),
        "MCP servers": any(_names_servers(texts[path]) for path in SERVERS if path in texts),
        "skills": any(map(is_skill, texts)),
    }
    return tuple(name for name, waits in found.items() if waits)


def _names_servers(content: bytes) -> bool:
    """Whether a file like `.mcp.json` names servers; one that cannot be read may."""
    try:
        found: object = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return isinstance(found, dict) and bool(cast("dict[str, object]", found).get("mcpServers"))


def _of_project(folder: Path, project: FolderTrust) -> dict[str, Any]:
    """What counts of a project's file: all a project may set when it is trusted, else what only narrows."""
    if folder == project.folder and project.trusted:
        values = {key: value for key, value in project_values(project).items() if key in OF_PROJECTS}
        try:
            _checked(values)
        except UserMistake as mistake:
            raise UserMistake(f"{folder / SETTINGS}: {mistake}") from None
        return values
    found = _checked_file(folder, project_settings(folder))
    rules = {key: found[key] for key in found if key in NARROWING}
    if folder != project.folder:
        rules = {key: [_anchored(rule, folder) for rule in texts] for key, texts in rules.items()}
    return rules


def _checked_file(folder: Path, content: bytes) -> dict[str, Any]:
    """A project's file, or a sentence with its path about what is wrong with it."""
    file = folder / SETTINGS
    found = _parsed(file, _text(file, content))
    try:
        _known(found)
        lists = {key: _listed(key, found[key]) for key in LISTS if key in found}
        if sum(map(len, lists.values())) > MOST_RULES:
            raise UserMistake(f"there are more than {MOST_RULES:,} rules; say it with fewer.")
        for text in (text for texts in lists.values() for text in texts):
            _check_rule(text)
    except UserMistake as mistake:
        raise UserMistake(f"{file}: {mistake}") from None
    return {**found, **lists}


def _text(file: Path, content: bytes) -> str:
    """The text of a project's file, unless reading it as TOML would take longer than anybody waits."""
    if len(content) > LARGEST_SETTINGS:
        raise UserMistake(
            f"The settings file {file} is larger than {LARGEST_SETTINGS:,} bytes; make it smaller."
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserMistake(f"The settings file {file} is not UTF-8 text: {error.reason}.") from None
    if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
        raise UserMistake(
            f"The settings file {file} has more than {MOST_DOTS} dots in a line; break the line."
        )
    return text


def _check_rule(text: Any) -> None:
    if not isinstance(text, str):
        raise UserMistake(f"{_brief(text)} is not a rule; write it as Tool, Tool(pattern) or tool:pattern.")
    if len(text) > LONGEST_RULE:
        raise UserMistake(
            f"the rule that begins with {_brief(text)} is longer than {LONGEST_RULE:,} characters."
        )
    check_tool(parse_rule(text, Action.DENY).tool)


def _anchored(text: Any, folder: Path) -> Any:
    """A rule of a folder above: what it anchors at its own folder is meant there, not here."""
    if not isinstance(text, str):
        return text
    rule = parse_rule(text, Action.DENY)
    relative = "/" in rule.pattern and not rule.pattern.startswith(("/", "~"))
    if not relative or not any(rule.names(tool) for tool in PATH_TOOLS):
        return text
    return f"{rule.tool}({folder.as_posix()}/{rule.pattern.removeprefix('./')})"


def _read(path: Path) -> dict[str, Any]:
    try:
        return _parsed(path, path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        way = "make it readable, or set GEN_HOME to another folder"
        raise UserMistake(f"The settings file {path} cannot be read ({error.strerror}); {way}.") from None
    except UnicodeDecodeError as error:
        raise UserMistake(f"The settings file {path} is not valid TOML: {error}.") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    """What a file says. One that cannot be read stops every command: it may hold rules that refuse."""
    way = "repair the file, or move it away"
    try:
        found = tomllib.loads(text)
        large = _holds_large_number(found)
    except RecursionError:
        raise UserMistake(f"The settings file {path} is nested too deeply; {way}.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserMistake(f"The settings file {path} is not valid TOML: {error}; {way}.") from None
    except ValueError:  # a number of thousands of digits
        large = True
        found = {}
    if large:
        raise UserMistake(f"The settings file {path} holds a number that is too large; {way}.")
    return found


def _holds_large_number(value: object) -> bool:
    """Whether a number in it is larger than TOML allows; Python could not even print some of those."""
    if isinstance(value, dict):
        return any(map(_holds_large_number, cast("dict[str, object]", value).values()))
    if isinstance(value, list):
        return any(map(_holds_large_number, cast("list[object]", value)))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _from(environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings from `GEN_*`; lists are separated by `;`, tables are not settable this way."""
    found: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        value = environ.get(PREFIX + name.upper(), "")
        if value and name not in TABLES:
            several = name in (*LISTS, *NAMES)
            found[name] = [part.strip() for part in value.split(";") if part.strip()] if several else value
    return found


def _listed(key: str, value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise UserMistake(f"The setting {key!r} must be a list of rules, not {_brief(value)}.")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _known(found: Mapping[str, Any], origin: str = "") -> None:
    for key in found:
        if key not in Settings.__struct_fields__:
            unknown = UnknownName("setting", key[:80], Settings.__struct_fields__)
            raise UserMistake(f"{origin}: {unknown}") if origin.endswith(".toml") else unknown


def _checked(values: Mapping[str, Any]) -> Settings:
    _known(values)
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UserMistake(f"A setting has a value that does not fit: {error}.") from None
    parse_mode(settings.permission_mode)
    _check_numbers(settings)
    for text in (*settings.allow, *settings.ask, *settings.deny):
        parse_rule(text, Action.DENY)
    return settings


def _check_numbers(settings: Settings) -> None:
    """Refuse numbers under which nothing could ever run, or nothing would ever end."""
    for name, value in (("max_agents", settings.max_agents), ("max_depth", settings.max_depth)):
        if value < 1:
            raise UserMistake(f"The setting {name} is {value}; name at least 1, or leave it out.")
    for name, kind in _AMOUNTS.items():
        value = getattr(settings, name)
        if value is not None and amount_of(kind, value) is None:
            said = f"The setting {name} is {_brief(value)}"
            raise UserMistake(f"{said}; name {allowed(kind)}, or leave it out.")
    if settings.max_depth > DEEPEST:
        raise UserMistake(
            f"The setting max_depth is {settings.max_depth}; agents are nested {DEEPEST} deep at most."
        )
    if settings.context_tokens is not None and settings.context_tokens < LEAST_CONTEXT:
        raise UserMistake(
            f"The setting context_tokens is {settings.context_tokens}; no agent can work with less than "
            f"{LEAST_CONTEXT:,} tokens."
        )
    if settings.silence_seconds < settings.stall_seconds:
        raise UserMistake("The setting silence_seconds must not be less than stall_seconds.")
    for setting, caps in (("agent_caps", settings.agent_caps), ("fleet_caps", settings.fleet_caps)):
        for name, cap in caps.items():
            if cap < 1:
                raise UserMistake(
                    f"The setting {setting} lets {cap} agents of {name} work at once; name at least 1."
                )
    for name, rate in settings.fleet_rates.items():
        if not 0 < rate < float("inf"):
            raise UserMistake(f"The setting fleet_rates gives {name} {rate} requests a minute; name more.")
