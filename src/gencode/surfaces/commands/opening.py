"""Flags as settings, the open GenCode of a command, and the one line about the model that answers."""

import argparse
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.runtime.ports import Store

FLAGS = ("model", "permission_mode", "allow", "ask", "deny", "max_turns", "max_seconds")
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
PROVIDERS = ("anthropic", "openai", "ollama", "gemini")
OFFLINE = "offline-search"

CONNECT = "name one with --model, GEN_MODEL or `model` in settings.toml"


def flags(args: argparse.Namespace, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings that were typed."""
    return {name: getattr(args, name) for name in FLAGS if name in args and name not in without}


@asynccontextmanager
async def opened(
    args: argparse.Namespace, *, without: tuple[str, ...] = (), store: Store | None = None
) -> AsyncGenerator[GenCode, None]:
    """GenCode in the folder and with the settings that were typed."""
    folder = getattr(args, "cwd", ".")
    async with GenCode.open(folder, settings=flags(args, without=without), store=store) as gen:
        yield gen


def check_model(gen: GenCode, args: argparse.Namespace) -> str:
    """Resolve the model before anything is written; what to tell when nobody chose the offline one."""
    maker = gen.settings.model.partition("/")[0].casefold()
    if "/" in gen.settings.model and maker in PROVIDERS:
        raise UserMistake(f"This version cannot speak to {maker} yet; use offline or scripted:FILE.")
    offline = gen.model.name == OFFLINE
    if offline and "no_offline" in args:
        raise UserMistake(f"Only the offline search model is there, and --no-offline forbids it; {CONNECT}.")
    return why_offline() if offline and not gen.settings.model else ""


def why_offline() -> str:
    """Why the offline model answers although nobody asked for it, and what to do about it."""
    found = [key for key in KEYS if os.environ.get(key)]
    if found:
        return (
            f"{found[0]} is set, but this version cannot speak to providers yet: "
            "the built-in offline search model answers."
        )
    return f"No model is configured, so the built-in offline search model answers; to use another, {CONNECT}."
