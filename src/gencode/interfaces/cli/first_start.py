"""The first start on a terminal without a model: a short choice, which writes the user's settings.

It is offered while there is no settings file of the user's own; skipping it writes one, too. A key is never
written to a file: it applies to this start, and a line says how to keep it.
"""

import argparse
import getpass
import json
import os
import sys
from pathlib import Path

from gencode.app import GenCode, forgetful
from gencode.core.errors import UserMistake
from gencode.core.text import visible_line
from gencode.interfaces.cli.open_session import OFFLINE, flags
from gencode.interfaces.cli.terminal_questions import somebody_is_there
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import note
from gencode.settings import gen_home

KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
SERVERS = ("ollama", "lmstudio", "vllm")
QUESTION = """\
GenCode has no language model yet. What should answer?
  1  Anthropic or OpenAI, with a key
  2  a model server on this machine: Ollama, LM Studio, vLLM
  3  the built-in offline search: finds places in code, needs no key
Enter skips this; /model and settings.toml change it at any time."""
SKIPPED = '# For example: model = "anthropic/claude-sonnet-5", "ollama/qwen3", "offline"\n'


def offer_model(args: argparse.Namespace) -> None:
    """Ask which model to use, if none was chosen yet and the person can answer."""
    settings = gen_home() / "settings.toml"
    if "model" in args or "no_offline" in args or settings.exists() or not somebody_is_there():
        return
    if run_to_end(_has_model(args)):
        return
    note(QUESTION)
    while (choice := _typed("1, 2, 3 or Enter: ")) not in ("1", "2", "3", ""):
        note(f"There is no choice {visible_line(choice, 40)!r}.")
    match choice:
        case "1":
            _use_key()
        case "2":
            _use_server(settings)
        case "3":
            _write(settings, 'model = "offline"\n')
        case _:
            _write(settings, SKIPPED)


async def _has_model(args: argparse.Namespace) -> bool:
    async with GenCode.open(getattr(args, "cwd", "."), settings=flags(args), store=forgetful()) as gen:
        return bool(gen.settings.model) or gen.model.name != OFFLINE


def _typed(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise


def _use_key() -> None:
    vendor = _typed("anthropic or openai: ").casefold()
    if vendor not in KEYS:
        raise UserMistake("That is neither anthropic nor openai. Nothing was changed; start gen again.")
    if key := getpass.getpass("Key (not shown): ").strip():
        os.environ[KEYS[vendor]] = key
        note(f"It applies to this start. To keep it, add to your shell's start file: export {KEYS[vendor]}=…")


def _use_server(settings: Path) -> None:
    name = _typed("Model, for example ollama/qwen3, lmstudio/NAME, vllm/NAME: ")
    server, _, model = name.partition("/")
    if server not in SERVERS or not model.strip():
        raise UserMistake(f"A model is written as SERVER/MODEL, for example ollama/qwen3, not {name!r}.")
    _write(settings, f"model = {json.dumps(name)}\n")


def _write(settings: Path, text: str) -> None:
    settings.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.write_text(text, "utf-8")
    note(f"Written to {settings}.")
