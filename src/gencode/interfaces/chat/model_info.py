"""Records of models, and their text: which model answers, and what each name stands for."""

from msgspec import Struct

from gencode.agent.models import ALIASES, TIERS
from gencode.app import GenCode
from gencode.core.budget import Price
from gencode.core.errors import UserMistake
from gencode.interfaces.render.plain_text import table

CONNECT = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or name one with --model, GEN_MODEL or settings.toml"


class ModelLine(Struct, frozen=True, rename="camel"):
    """One name and what it stands for; `model` is None when it stands for nothing yet."""

    name: str
    model: str | None
    why: str
    price: Price = Price()


class ModelList(Struct, frozen=True):
    """The model that leads conversations, and every name."""

    main: ModelLine
    models: list[ModelLine]


def model_list(gen: GenCode) -> ModelList:
    """What every name stands for here."""
    return ModelList(main_model(gen), [_line(gen, name) for name in gen.models.names()])


def models_text(models: ModelList) -> str:
    """A table of the names below a line about the main model."""
    main = models.main
    head = f"gen -p would use {main.model or 'no model'}: {main.why}"
    rows = [(line.name, line.model or "-", _price_text(line.price), line.why) for line in models.models]
    return f"{head}\n\n{table(('NAME', 'MODEL', '$/M IN/OUT', 'WHY'), rows)}"


def _price_text(price: Price) -> str:
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


def why_usual(gen: GenCode) -> str:
    """Which model answers although none was named, why, and how to choose another."""
    name, why = gen.models.usual
    if name == "offline":
        cause = why or "No model is configured"
        return f"{cause}, so the built-in offline search model answers. To use another, {CONNECT}."
    return f"No model was named, so {name} answers: {why}."


def _line(gen: GenCode, name: str) -> ModelLine:
    match name:
        case "inherit":
            return ModelLine(name, None, "the model of the parent")
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


def model_lines(gen: GenCode) -> list[tuple[str, str]]:
    """The names of models that can be chosen; of a vendor's models the beginning of their names."""
    found = [line for line in model_list(gen).models if line.model or line.name.endswith("/MODEL")]
    return [(line.name.removesuffix("MODEL"), f"{line.name:18} {line.model or line.why}") for line in found]
