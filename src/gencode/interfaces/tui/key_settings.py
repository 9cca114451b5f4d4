"""The keys of the app as the table `keys` of the settings has them, checked before they are used."""

from collections.abc import Mapping

from textual.keys import Keys

from gencode.core.errors import UnknownName, UserMistake
from gencode.interfaces.chat.slash_commands import NAMED_KEYS

_MODIFIERS = frozenset({"ctrl", "alt", "shift", "super", "meta", "hyper"})
_KNOWN = frozenset(key.value for key in Keys)
_TAKEN = frozenset({"ctrl+c", "ctrl+d", "ctrl+q", "ctrl+z", "enter", "escape", "tab", "up", "down"})
"""Keys whose meaning depends on where they are pressed."""


def key_map(settings: Mapping[str, str]) -> dict[str, str]:
    """Names of actions and the keys for them, as Textual wants it; UserMistake for what cannot work."""
    names = {name: each.key.lower() for name, each in NAMED_KEYS.items()}
    found: dict[str, str] = {}
    used = {key: name for name, key in names.items() if name not in settings}
    for name, text in settings.items():
        if name not in names:
            raise UnknownName("key setting", name, names)
        keys = [each.strip().lower() for each in text.split(",")]
        for key in keys:
            _check(name, key)
            if used.setdefault(key, name) != name:
                raise UserMistake(f"keys.{name}: {key} is the key of {used[key]}. Choose another one.")
        found[name] = ",".join(keys)
    return found


def _check(name: str, key: str) -> None:
    """Refuse what is no key, what is text, and what the app needs itself."""
    *modifiers, last = key.split("+")
    is_key = {*modifiers} <= _MODIFIERS and (len(last) == 1 or last in _KNOWN)
    is_text = not modifiers and not (last[:1] == "f" and last[1:].isdecimal())
    if not is_key or is_text or ({*modifiers} == {"shift"} and len(last) == 1):
        raise UserMistake(f"keys.{name}: {key!r} cannot be used. Examples: ctrl+t, alt+m, f2.")
    if key in _TAKEN:
        raise UserMistake(f"keys.{name}: {key} has a fixed meaning. Choose another key.")
