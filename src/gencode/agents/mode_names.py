"""Agents room: what the permission modes of all products mean here.

A mode that nobody knows is read as `default`: whoever sends the agent may let it do less, never more.
"""

import re
from collections.abc import Mapping

from gencode.core.rules import Mode

CLAUDE = {
    "default": Mode.DEFAULT,
    "manual": Mode.DEFAULT,
    "auto": Mode.DEFAULT,
    "acceptedits": Mode.ACCEPT_EDITS,
    "dontask": Mode.UNATTENDED,
    "bypasspermissions": Mode.DONT_ASK,
    "plan": Mode.PLAN,
}
QWEN = {
    "default": Mode.DEFAULT,
    "plan": Mode.PLAN,
    "autoedit": Mode.ACCEPT_EDITS,
    "yolo": Mode.DONT_ASK,
    "bubble": None,
}
CODEX = {
    "readonly": Mode.PLAN,
    "workspacewrite": Mode.ACCEPT_EDITS,
    "dangerfullaccess": Mode.DONT_ASK,
}
OPENHANDS = {
    "alwaysconfirm": Mode.DEFAULT,
    "neverconfirm": Mode.DONT_ASK,
    "confirmrisky": Mode.DEFAULT,
}
_INVENTED = {"readonly": Mode.PLAN, "ask": Mode.DEFAULT, "read": Mode.PLAN}

Modes = Mapping[str, Mode | None]


def mode_called(written: str, modes: Modes) -> tuple[Mode | None, bool]:
    """The mode a word stands for, and whether the dialect knows the word."""
    plain = re.sub(r"[-_\s]", "", written).casefold()
    if plain in modes:
        return modes[plain], True
    return _INVENTED.get(plain, Mode.DEFAULT), False
