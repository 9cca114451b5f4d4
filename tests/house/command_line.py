"""The commands and options of `gen`."""

import argparse
from collections.abc import Iterator
from typing import cast

Parser = argparse.ArgumentParser


def commands(parser: Parser, name: str = "gen") -> Iterator[tuple[str, Parser]]:
    """Every command with its parser, in the order of the help."""
    yield name, parser
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        choices = cast(object, action.choices)
        for word, below in cast("dict[str, object]", choices if isinstance(choices, dict) else {}).items():
            if isinstance(below, Parser):
                yield from commands(below, f"{name} {word}")


def options(parser: Parser) -> list[str]:
    """The spellings of a command's own options that its help shows."""
    return [
        text
        for action in parser._actions  # pyright: ignore[reportPrivateUsage]
        if action.help != argparse.SUPPRESS
        for text in action.option_strings
        if text not in {"-h", "--help"}
    ]
