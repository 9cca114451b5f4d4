"""Settings: read, checked and merged (defaults < user < project < environment < flags).

Until a person trusts the folder, only the `deny` and `ask` rules of a project's file apply.
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
from gencode.permissions.calls import SpawnApproval, agent_key
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
from gencode.permissions.whole_files import FileLock

PREFIX = "GEN_"
LISTS = (Action.ALLOW.value, Action.ASK.value, Action.DENY.value)
NAMES = ("tools", "web_read_hosts")
"""Lists that are no rules; of these the last layer wins."""
TABLES = (
    *("models", "prices", "agent_caps", "fleet_caps", "fleet_rates", "hooks", "mcp_servers", "channels"),
    *("agents", "keys", "agent_models"),
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
PRESETS = {
    "mycode": {"Explore": "haiku", "Bash": "haiku", "Plan": "sonnet", "general-purpose": "sonnet"},
}
"""The models that a preset gives to agents."""
LEAST_CONTEXT = 8_000
"""A model that holds fewer tokens has no room for a task."""
_AMOUNTS = {
    **{
        "max_turns": "turns",
        "max_tokens": "tokens",
        "max_tokens_total": "tokens",
        "max_usd": "usd",
        "max_spawns": "spawns",
    },
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
    """Everything a user can set. The text below a field is its meaning in docs/reference/settings.md."""

    model: str = ""
    """The main agent's model. Empty: that of a key in the environment, else a local Ollama's, else the
    offline search."""
    permission_mode: str = "default"
    """`plan`, `default`, `acceptEdits`, `dontAsk` or `unattended`."""
    spawn_approval: SpawnApproval = "session"
    """When starting an agent needs your approval: `never`, once in a `session` for each agent (those that
    only read need none), or `always`."""
    web_read_hosts: tuple[str, ...] = ()
    """Hosts that agents in plan mode may fetch from without approval, also in scripts: `docs.python.org`,
    `*.readthedocs.io`, or `*` for every public host. Deny and ask rules still apply."""
    allow: tuple[str, ...] = ()
    """Rules that allow calls."""
    ask: tuple[str, ...] = ()
    """Rules that require approval for calls."""
    deny: tuple[str, ...] = ()
    """Rules that refuse calls, whatever else is set."""
    max_turns: int | None = None
    """Turns of the main agent; subagents have the limits of their files."""
    max_tokens: int | None = None
    """The most tokens of one reply, for all agents. `max-tokens` of an [agent file](agents.md#fields) and
    `max_tokens` of Task set other limits, which subagents inherit."""
    max_seconds: float | None = None
    """Seconds of one `gen -p` or `gen task run`."""
    max_tokens_total: int | None = None
    """Tokens that a conversation, or a `gen task run`, may spend with all its agents and earlier turns."""
    max_usd: float | None = None
    """Dollars that it may spend. Models without a known price are refused before anything is spent."""
    max_spawns: int | None = None
    """Agents that it may start in all; without a conversation, those that you start count too."""
    max_agents: int = 16
    """Agents at work at once in one process; the others wait in the queue."""
    max_depth: int = 1
    """How deep agents are nested, at most 4. A subagent starts only those that its file names:
    `Task(Explore)`."""
    task_seconds: float = 3_600.0
    """Seconds of one run of an agent, if nothing shorter is set; also how long a task waits for a worker."""
    stall_seconds: float = 120.0
    """An agent without a sign of life for so long is shown as stalled."""
    silence_seconds: float = 600.0
    """An agent without a sign of life for so long is timed out; at least `stall_seconds`. Waiting is no
    silence."""
    question_seconds: float = 120.0
    """How long a parent has to answer a question of its subagent before you are asked."""
    answer_seconds: float = 600.0
    """How long you have to answer what an agent wants to know before its default applies."""
    command_seconds: float = 600.0
    """How long an agent that has answered waits for its background commands."""
    result_cache: bool = False
    """Answer the same work from the journal while nothing it depends on has changed."""
    failed_tasks: Literal["keep", "delete"] = "keep"
    """When a session closes, `delete` deletes the failed and cancelled subagents of its conversations, once
    their parent was told."""
    durability: Literal["normal", "power"] = "normal"
    """`normal`: nothing is lost when the process dies. `power`: nor when the power fails, with slower
    writes."""
    database_url: str = ""
    """`postgresql://USER:PASSWORD@HOST/DATABASE` of a fleet; empty: the file on this machine."""
    sandbox: Literal["auto", "off", "required"] = "auto"
    """Run commands in an OS sandbox: `auto` where the machine can, `off` never, `required` or not at all."""
    sandbox_network: bool = False
    """Let commands in the sandbox reach the network; else a person may allow it for one command."""
    background_questions: bool = True
    """Show the questions of background agents; else a call that needs approval there is refused. Agents
    started with [`spawn`](tools.md#spawn) ask in any case."""
    instructions: bool = True
    """Give agents `AGENTS.md` and the like."""
    context_tokens: int | None = None
    """How many tokens every model holds; a conversation is summed up at four fifths. Else as `prices`
    say, else 128,000."""
    agent_caps: dict[str, int] = {}
    """A table: how many agents may work at once with a `PROVIDER` or a `PROVIDER/MODEL`."""
    fleet_caps: dict[str, int] = {}
    """A table: how many tasks of an agent all workers run at once, such as `Explore = 5`; the same
    everywhere."""
    fleet_rates: dict[str, float] = {}
    """A table: requests a minute of all machines to a model of a fleet, such as
    `"anthropic/claude-sonnet-5" = 50`."""
    hooks: dict[str, Any] = {}
    """A table: commands that run around the work of all agents."""
    models: dict[str, str] = {}
    """A table: what the tiers `fast`, `balanced` and `powerful` stand for."""
    preset: Literal["", "mycode"] = ""
    """`mycode`: Explore and Bash use the tier `haiku`, Plan and general-purpose `sonnet`, as in seed 001."""
    agent_models: dict[str, str] = {}
    """A table by agent: the model instead of that of its file, such as `Explore = "haiku"`."""
    prices: dict[str, Price] = {}
    """A table by `PROVIDER/MODEL`: dollars for a million tokens (`input`, `output`, `cached`), `context`
    and `reply` in tokens."""
    mcp_servers: dict[str, dict[str, Any]] = {}
    """A table by name: MCP servers, whose tools are `mcp__NAME__TOOL`. Those of all layers add up."""
    tools: tuple[str, ...] = ()
    """Further tools of the main agent; `*` stands for the rest of a name: `["cron", "memory_*"]`."""
    channels: dict[str, dict[str, Any]] = {}
    """A table by name: addresses that messages are sent to. Only your own settings have them."""
    agents: dict[str, Any] = {}
    """Agents for one session, by name; an option or a program gives them, never a file."""
    append_system_prompt: str = ""
    """Added to the system prompt of whoever leads a new conversation."""
    theme: str = ""
    """Colours of the terminal app: `dark`, `light`, or a theme of Textual such as `nord`; `/theme` lists
    them."""
    keys: dict[str, str] = {}
    """A table: other keys of the terminal app."""
    vim: bool = False
    """Give the input of the terminal app the keys of vim."""
    telemetry: bool = False
    """Send traces and metrics; `OTEL_EXPORTER_OTLP_ENDPOINT` switches them on as well."""
    telemetry_content: bool = False
    """Include prompts, replies, arguments and results in them."""

    @property
    def models_of_agents(self) -> dict[str, str]:
        """The models of agents by their keys: those of the preset, and over them those of `agent_models`."""
        named = {**PRESETS.get(self.preset, {}), **self.agent_models}
        return {agent_key(name): model for name, model in named.items()}

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
    """The settings of all layers, the weakest first; `project` is the folder's trust, if it is known."""
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
    """Save a rule that a person gave for every future session; never in a project's file."""
    home = gen_home()
    with FileLock(home, saved_rules.FILE):
        saved_rules.save_rule(home, _read(home / saved_rules.FILE), rule)


def load(
    cwd: Path, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings that apply in a folder."""
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
    """The names of the settings that would apply if a folder were trusted; empty if there are none."""
    if project.state in ("nothing", "trusted"):
        return ()
    if project.state == "added":
        return ("new agents",)
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
    """The settings of a project's file: all it may set if it is trusted, else only stricter ones."""
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
    """A parsed file. One that cannot be read stops every command: it may hold deny rules."""
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
