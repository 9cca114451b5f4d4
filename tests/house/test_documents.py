"""Every command and setting is documented, and no document or file names this or any other machine."""

import argparse
import re
from collections.abc import Iterator
from typing import cast

import msgspec

from tests.house.source import ROOT, files

REFERENCE = ROOT / "docs" / "reference"

# Written in pieces, so that this file does not find itself.
MACHINE = re.compile(
    "|".join(
        [
            r"(?<![\w.*])/" + r"work/(main|shared|\.)",
            r"(?<![\w.*])/" + r"root/(\.pyenv|\.cache|venv)",
            r"(?<![\w.*])/" + r"tmp/venv",
            r"(pypi|pythonhosted)\." + r"(org|io)",
            r"npmjs\." + r"(org|com)",
            r"(deb|ftp|security)\." + r"debian\.org",
            r"(extra-)?index-" + r"url\s*[=:]",
        ]
    )
)


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


def shown(option: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is not None


def test_every_command_and_option_is_documented() -> None:
    from gencode.interfaces.cli.main import build_parser

    text = (REFERENCE / "cli.md").read_text("utf-8")
    missing = [
        f"{name} {option}".strip()
        for name, parser in commands(build_parser())
        for option in ["", *options(parser)]
        if not (shown(option, text) if option else re.search(rf"`{name}[ `]", text))
    ]
    assert missing == []


def test_no_option_is_documented_that_does_not_exist() -> None:
    from gencode.interfaces.cli.main import build_parser

    real = {option for _, parser in commands(build_parser()) for option in options(parser)} | {"--help"}
    named = set(re.findall(r"`(--[a-z][a-zA-Z-]+)", (REFERENCE / "cli.md").read_text("utf-8")))
    assert sorted(named - real) == []


def test_every_setting_is_documented() -> None:
    from gencode.settings import Settings

    text = (REFERENCE / "settings.md").read_text("utf-8")
    missing = [field.name for field in msgspec.structs.fields(Settings) if f"`{field.name}`" not in text]
    assert missing == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    found: list[str] = []
    for path in files():
        try:
            lines = path.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}"
            for number, line in enumerate(lines, 1)
            if MACHINE.search(line)
        ]
    assert found == []


def test_the_house_rules_fit_on_one_page() -> None:
    assert len((ROOT / "AGENTS.md").read_text("utf-8").splitlines()) <= 80


def test_links_between_documents_lead_somewhere() -> None:
    link = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in files()
        if page.suffix == ".md" and "src" not in page.parts and "tests" not in page.parts
        for target in link.findall(page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []
