"""`gen models`: which model would answer, and what every name stands for."""

import argparse

from msgspec import Struct

from gencode.agent.models import ALIASES, TIERS
from gencode.app import GenCode, forgetful
from gencode.core.budget import Price
from gencode.core.errors import UserMistake
from gencode.interfaces.cli.open_session import opened, why_usual
from gencode.interfaces.cli.parser import Commands, add
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json, table


def add_command(commands: Commands, does: str) -> None:
    """`gen models`."""
    add(commands, "models", show, does, ("gen models", "gen models --json"))


class ModelLine(Struct, frozen=True, rename="camel"):
    """One name and what it stands for; `model` is None when it stands for nothing yet."""

    name: str
    model: str | None
    why: str
    price: Price = Price()


def show(args: argparse.Namespace) -> int:
    """List the names."""
    return run_to_end(_show(args))


async def _show(args: argparse.Namespace) -> int:
    async with opened(args, store=forgetful()) as gen:
        main = main_model(gen)
        lines = [_line(gen, name) for name in gen.models.names()]
    if "json" in args:
        answer_json({"main": main, "models": lines})
        return 0
    answer(f"gen -p would use {main.model or 'no model'}: {main.why}\n")
    rows = [(line.name, line.model or "-", _priced(line.price), line.why) for line in lines]
    answer(table(("NAME", "MODEL", "$/M IN/OUT", "WHY"), rows))
    return 0


def _priced(price: Price) -> str:
    return "-" if price.input is None or price.output is None else f"{price.input:g}/{price.output:g}"


def main_model(gen: GenCode) -> ModelLine:
    """The model that leads a conversation, and why it is that one."""
    asked = gen.settings.model
    try:
        resolved = gen.model
    except UserMistake as mistake:
        return ModelLine(asked, None, str(mistake))
    why = f"{asked!r} was chosen by --model, GEN_MODEL or settings.toml" if asked else why_usual(gen)
    return ModelLine(asked or gen.models.usual[0], resolved.name, why, gen.models.price(resolved.name))


def _line(gen: GenCode, name: str) -> ModelLine:
    match name:
        case "inherit":
            return ModelLine(name, None, "the model of whoever sends the agent")
        case "scripted:FILE":
            return ModelLine(name, None, "plays a JSON file, for demos and tests")
        case "offline":
            return ModelLine(name, gen.models.resolve(name).name, "built in: a search, no language model")
        case _ if name in TIERS or name in ALIASES:
            return _tier(gen, name)
        case _:
            return ModelLine(name, None, gen.models.about(name.removesuffix("/MODEL")))


def _tier(gen: GenCode, name: str) -> ModelLine:
    alias = f"the same as {ALIASES[name]}" if name in ALIASES else "a tier"
    source = "set in settings.toml" if ALIASES.get(name, name) in gen.settings.models else gen.models.usual[1]
    try:
        model = gen.models.resolve(name).name
        return ModelLine(name, model, f"{alias}; {source}", gen.models.price(model))
    except UserMistake as mistake:
        return ModelLine(name, None, f"{alias}. {mistake}")
