"""Every command and setting is documented, and no document or file names this or any other machine."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.house.command_line import commands, options
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


LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and the site make them."""
    found: Counter[str] = Counter()
    names: set[str] = set()
    for heading in HEADING.findall(CODE.sub("", page.read_text("utf-8"))):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


def test_links_between_documents_and_their_anchors_lead_somewhere() -> None:
    broken: list[str] = []
    for page in files():
        if page.suffix == ".md" and "src" not in page.parts and "tests" not in page.parts:
            for target, anchor in LINK.findall(CODE.sub("", page.read_text("utf-8"))):
                there = page.parent / target if target else page
                if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
                    broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


@pytest.mark.parametrize(
    "generator", ["scripts/lib/reference.py", "scripts/lib/diagrams.py", "bench/performance_page.py"]
)
def test_what_is_generated_is_as_the_program_is(generator: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / generator, "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
