"""One record of settings: defaults < the user's file < the project's file < environment < flags.

A project's file is not trusted: only its `deny` and `ask` rules count.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gencode.core.errors import UnknownName, UserMistake
from gencode.core.prices import Price
from gencode.core.rules import Action, Policy, merge, parse_mode, parse_rule

PREFIX = "GEN_"
LISTS = ("allow", "ask", "deny")
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
    models: dict[str, str] = {}
    prices: dict[str, Price] = {}

    def policy(self) -> Policy:
        """The policy of the root: mode and rules."""
        rules = (
            [parse_rule(text, action, "settings") for text in texts]
            for action, texts in (
                (Action.ALLOW, self.allow),
                (Action.ASK, self.ask),
                (Action.DENY, self.deny),
            )
        )
        return Policy(parse_mode(self.permission_mode), merge(*rules), "session")


def gen_home(environ: Mapping[str, str] | None = None) -> Path:
    """The per-user folder: `$GEN_HOME`, or `~/.gen`."""
    environ = os.environ if environ is None else environ
    return Path(environ.get("GEN_HOME") or "~/.gen").expanduser().absolute()


def load(
    cwd: Path, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """All layers as one record. Rules of all layers add up; of everything else the last layer wins."""
    environ = os.environ if environ is None else environ
    user = _read(gen_home(environ) / "settings.toml")
    project = _read(cwd / ".gen" / "settings.toml")
    narrowing = {key: project[key] for key in ("ask", "deny") if key in project}
    layers = (user, narrowing, _from(environ), dict(flags or {}))
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            merged[key] = [*merged.get(key, ()), *_listed(key, value)] if key in LISTS else value
    return _checked(merged)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UserMistake(f"The settings file {path} cannot be read: {error.strerror}.") from None
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


def _checked(merged: Mapping[str, Any]) -> Settings:
    for key in merged:
        if key not in Settings.__struct_fields__:
            raise UnknownName("setting", key, Settings.__struct_fields__)
    try:
        settings = msgspec.convert(merged, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UserMistake(f"A setting has a value that does not fit: {error}.") from None
    settings.policy()
    return settings
