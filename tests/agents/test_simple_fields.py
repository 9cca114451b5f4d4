"""Front matter in its everyday form is read without YAML, and means exactly what YAML makes of it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import gencode.agents
from gencode.agents.frontmatter import read_front_matter, simple_fields

BUILT_IN = sorted(Path(gencode.agents.__path__[0]).rglob("*.md"))


def plainly(block: str) -> dict[str, Any] | None:
    """What the simple reader finds, without the lines."""
    found = simple_fields(block)
    return None if found is None else {name: value for name, (_, value) in found.items()}


def by_yaml(block: str) -> Any:
    """What YAML finds when it leaves every word as it is spelled."""
    return yaml.load(block, Loader=yaml.BaseLoader)  # noqa: S506 (it makes nothing but texts)


@pytest.mark.parametrize("path", BUILT_IN, ids=lambda path: path.stem)
def test_every_agent_of_ours_has_the_everyday_form(path: Path) -> None:
    block = path.read_text("utf-8").split("---\n")[1]
    assert plainly(block) == by_yaml(block)


def test_lines_are_counted_from_the_top_of_the_file() -> None:
    read = read_front_matter(
        "---\nname: a\ntools:\n  mode: allowlist\n  allow: [Read]\nmax-turns: 3\n---\nx", "f"
    )
    assert (read.fields, read.lines) == (
        {"name": "a", "tools": {"mode": "allowlist", "allow": ["Read"]}, "max-turns": 3},
        {"name": 2, "tools": 3, "max-turns": 6},
    )


WORDS = st.one_of(
    st.sampled_from(
        ["name", "a-b", "x", "7", "1e3", "true", "null", "~", "a: b", "a #b", "a:", "a.", "", "é"]
    ),
    st.sampled_from(["[Read]", "[Read, LS]", "[a,b]", "[", "[]", "{a: 1}", "'q'", '"q"', "- a", "> "]),
    st.sampled_from(["&x", "*x", "!x", "%", "a\tb", " a", "a "]),
)
PLACES = st.sampled_from(["", "", "  ", "   ", "\t"])
NAMES = st.sampled_from(["name", "tools", "max-turns", "x y", "-", "'q'", "#", "1"])
COLONS = st.sampled_from([": ", ":", ":  ", " : ", " "])
LINES = st.tuples(PLACES, NAMES, COLONS, WORDS).map("".join)


@given(st.lists(LINES, min_size=1, max_size=4))
def test_what_is_read_without_yaml_is_what_yaml_reads(lines: list[str]) -> None:
    found = plainly("\n".join(lines) + "\n")
    assert found is None or found == by_yaml("\n".join(lines))


def test_starting_with_our_own_agents_does_not_load_yaml(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gencode.agents.registry import Registry; "
        f"Registry.load(Path({str(tmp_path)!r})).find('Explore'); Registry.main(); "
        "print('yaml' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
