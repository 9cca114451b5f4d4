"""One record of settings: defaults < the user's file < the project's file < environment < flags.

A project's file is not trusted: only its `deny` and `ask` rules count.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gencode.core.errors import UnknownName, UserMistake
from gencode.core.prices import Price
from gencode.core.rules import Action, Policy, merge, parse_mode, parse_rule
from gencode.permissions import answers
from gencode.permissions.decision import check_tool
from gencode.permissions.paths import PATH_TOOLS

PREFIX = "GEN_"
LISTS = (Action.ALLOW.value, Action.ASK.value, Action.DENY.value)
TABLES = ("models", "prices")


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a user can set; docs/reference/settings.md says what each one does."""

    model: str = ""
    permission_mode: str = "default"
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_turns: int | None = None
    max_seconds: float | None = None
    durability: Literal["normal", "power"] = "normal"
    sandbox: Literal["auto", "off", "required"] = "auto"
    sandbox_network: bool = False
    models: dict[str, str] = {}
    prices: dict[str, Price] = {}


class Layer(Struct, frozen=True):
    """The settings of one place. `origin` is a file, or what every name of the layer begins with."""

    origin: str
    values: dict[str, Any]

    def place(self, key: str) -> str:
        """Where one setting of this layer was written, as a person would look for it."""
        match self.origin:
            case "GEN_":
                return f"GEN_{key.upper()}"
            case "--":
                return f"the flag --{key}"
            case _:
                return self.origin


def gen_home(environ: Mapping[str, str] | None = None) -> Path:
    """The per-user folder: `$GEN_HOME`, or `~/.gen`."""
    environ = os.environ if environ is None else environ
    return Path(environ.get("GEN_HOME") or "~/.gen").expanduser().absolute()


def layers(
    cwd: Path, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> list[Layer]:
    """The settings of every place, the weakest first."""
    environ = os.environ if environ is None else environ
    home = gen_home(environ)
    users = home / "settings.toml"
    projects = [folder for folder in (cwd, *_above(cwd)) if folder / ".gen" != home]
    return [
        Layer(str(users), _read(users)),
        Layer(str(home / answers.FILE), _read(home / answers.FILE)),
        *(Layer(str(folder / ".gen" / "settings.toml"), _narrowing(folder, cwd)) for folder in projects),
        Layer(PREFIX, _from(environ)),
        Layer("--", dict(flags or {})),
    ]


def remember(rule: str) -> None:
    """Let a rule count in every session to come, as the person said; never in a project's file."""
    home = gen_home()
    with answers.Alone(home):
        answers.remember(home, _read(home / answers.FILE), rule)


def load(
    cwd: Path, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings that count in a folder."""
    return merged(layers(cwd, flags, environ))


def merged(found: Iterable[Layer]) -> Settings:
    """All layers as one record. Rules of all layers add up; of everything else the last layer wins."""
    values: dict[str, Any] = {}
    for layer in found:
        for key, value in layer.values.items():
            values[key] = [*values.get(key, ()), *_listed(key, value)] if key in LISTS else value
    return _checked(values)


def root_policy(found: Iterable[Layer], settings: Settings) -> Policy:
    """The policy of the root: the mode, and the rules of all layers, each with the place it comes from."""
    rules = [
        parse_rule(text, Action(key), layer.place(key))
        for layer in found
        for key in LISTS
        for text in layer.values.get(key, ())
    ]
    return Policy(parse_mode(settings.permission_mode), merge(rules), "session")


def _above(cwd: Path) -> list[Path]:
    """The folders above one that belong to the same git repository; none outside of one."""
    top = next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)
    return [folder for folder in cwd.parents if folder.is_relative_to(top)]


def _narrowing(folder: Path, cwd: Path) -> dict[str, Any]:
    """What counts of an untrusted project's file: its `ask` and `deny` rules, which can only narrow."""
    file = folder / ".gen" / "settings.toml"
    found = _read(file)
    try:
        _known(found)
        rules = {key: _listed(key, found[key]) for key in ("ask", "deny") if key in found}
        for text in (*rules.get("ask", ()), *rules.get("deny", ())):
            _check_rule(text)
    except UserMistake as mistake:
        raise UserMistake(f"{file}: {mistake}") from None
    if folder != cwd:
        rules = {key: [_anchored(rule, folder) for rule in texts] for key, texts in rules.items()}
    return rules


def _check_rule(text: Any) -> None:
    if not isinstance(text, str):
        raise UserMistake(f"{text!r} is not a rule; write it as Tool, Tool(pattern) or tool:pattern.")
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
        return tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        way = "make it readable, or set GEN_HOME to another folder"
        raise UserMistake(f"The settings file {path} cannot be read ({error.strerror}); {way}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserMistake(f"The settings file {path} is not valid TOML: {error}.") from None


def _from(environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings from `GEN_*`; lists are separated by `;`, tables are not settable this way."""
    found: dict[str, Any] = {}
    for name in Settings.__struct_fields__:
        value = environ.get(PREFIX + name.upper(), "")
        if value and name not in TABLES:
            found[name] = (
                [part.strip() for part in value.split(";") if part.strip()] if name in LISTS else value
            )
    return found


def _listed(key: str, value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise UserMistake(f"The setting {key!r} must be a list of rules, not {value!r}.")


def _known(found: Mapping[str, Any]) -> None:
    for key in found:
        if key not in Settings.__struct_fields__:
            raise UnknownName("setting", key, Settings.__struct_fields__)


def _checked(values: Mapping[str, Any]) -> Settings:
    _known(values)
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UserMistake(f"A setting has a value that does not fit: {error}.") from None
    parse_mode(settings.permission_mode)
    for text in (*settings.allow, *settings.ask, *settings.deny):
        parse_rule(text, Action.DENY)
    return settings
