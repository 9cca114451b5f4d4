"""Hostile files are refused with a reason, and reading them takes no time worth mentioning."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agents.agent_file import read_agent_file
from gencode.agents.dialects.table import DIALECTS
from gencode.agents.lint import lint
from gencode.core.errors import UserMistake
from tests.interfaces.cli.running import gen

BOMB = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 20))
MATTER = "---\nname: x\ndescription: d\n{}\n---\nbody"

HOSTILE = {
    "bomb.md": (f"---\nl0: &l0 boom\n{BOMB}\n---\n", "anchors and aliases"),
    "bomb.yaml": (f"l0: &l0 boom\n{BOMB}\n", "anchors and aliases"),
    "tag.md": (MATTER.format("x: !!python/object/apply:os.system ['true']"), "tags (!)"),
    "tag.yaml": ("agent: !!python/name:os.system ''\n", "tags (!)"),
    "large.md": (MATTER.format("x: " + "y" * 3_000_000), "larger than 262,144 bytes"),
    "matter.md": (MATTER.format("x: " + "y" * 200_000), "longer than 65,536 bytes"),
    "up.md": ("---\nname: ../../etc/passwd\ndescription: d\n---\n", "cannot be a name"),
    "slash.md": ("---\nname: /etc/passwd\ndescription: d\n---\n", "cannot be a name"),
    "inside.md": ("---\nname: a/../b\ndescription: d\n---\n", "cannot be a name"),
    "back.md": ("---\nname: a\\b\ndescription: d\n---\n", "cannot be a name"),
    "control.md": ('---\nname: "a\\e[2Jb"\ndescription: d\n---\n', "cannot be a name"),
    "longname.md": (f"---\nname: {'n' * 129}\ndescription: d\n---\n", "longer than 128"),
    "twice.md": (MATTER.format("tools: Read\ntools: '*'"), "given twice"),
    "both.md": (MATTER.format("disallowedTools: Bash\ndisallowed-tools: Read"), "given twice"),
    "deep.md": (MATTER.format(f"x: {'[' * 20_000}"), "nested deeper than 8 levels"),
    "dashes.md": (MATTER.format("x:\n  " + "- " * 20_000), "nested deeper than 8 levels"),
    "deep.json": ("[" * 100_000, "nested too deep"),
    "list.json": ("[1]", "it holds no fields"),
    "deep.toml": ("x = " + "[" * 100_000, "nested too deep"),
    "inline.toml": ("x = " + "{a = " * 50_000, "nested too deep"),
    "dots.toml": (f"{'a.' * 80_000}a = 1", "nested too deep"),
    "number.toml": (f"name = 'x'\ndescription = 'd'\nn = {'9' * 5_000}\n", "number that is too large"),
    "hex.toml": (f"name = 'x'\ndescription = 'd'\nn = [0x{'f' * 5_000}]\n", "number that is too large"),
    "number.json": (f'{{"prompt": "x", "n": {"9" * 5_000}}}', "number that is too large"),
    "half.json": ('{"prompt": "\\ud800"}', "lone surrogate"),
    "levels.json": (f'{{"prompt": "x", "n": {"[" * 900}{"]" * 900}}}', "nested too deep"),
    "open.md": ("---\nname: x\n", "never closed"),
    "page.md": ("# A page\n", "no front matter"),
    "null.md": ("---\nname: \x00\n---\n", "cannot be read"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_with_the_file_and_the_reason(name: str, tmp_path: Path):
    text, reason = HOSTILE[name]
    (tmp_path / name).write_text(text)
    (file,) = lint([tmp_path]).files
    assert file.spec is None
    assert file.why_not.startswith(str(tmp_path / name)) and reason in file.why_not


def test_what_is_not_utf8_says_in_which_line(tmp_path: Path):
    (tmp_path / "a.md").write_bytes(b"---\nname: x\ndescription: caf\xe9\n---\n")
    (tmp_path / "b.md").write_bytes("---\nname: x\n---\n".encode("utf-16"))
    assert [file.why_not.rpartition("/")[2] for file in lint([tmp_path]).files] == [
        "a.md, line 3: it is not UTF-8 text.",
        "b.md, line 1: it is not UTF-8 text.",
    ]


def test_links_pipes_and_folders_are_not_opened(tmp_path: Path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/real.md").write_text(MATTER.format(""))
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link.md").symlink_to(tmp_path / "secret/real.md")
    (tmp_path / "in/away").symlink_to(tmp_path / "secret")
    (tmp_path / "in/loop").symlink_to(tmp_path / "in")
    (tmp_path / "in/folder.md").mkdir()
    os.mkfifo(tmp_path / "in/pipe.md")
    told = {Path(file.path).name: file.why_not for file in lint([tmp_path / "in"]).files}
    assert set(told) == {"link.md", "pipe.md"}
    assert "a link" in told["link.md"] and "not a file" in told["pipe.md"]
    (named,) = lint([tmp_path / "in/link.md"]).files
    assert named.spec is not None


def test_a_path_that_is_not_there_is_a_mistake(tmp_path: Path):
    with pytest.raises(UserMistake, match="There is no file or folder"):
        lint([tmp_path / "nowhere"])


def test_one_bad_file_does_not_stop_the_others(tmp_path: Path):
    for name, (text, _) in HOSTILE.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "good.md").write_text(MATTER.format("tools: Read"))
    loaded = [file for file in lint([tmp_path]).files if file.spec is not None]
    assert [Path(file.path).name for file in loaded] == ["good.md"]


PIECES = st.sampled_from(
    [
        *("name: x", "description: d", "tools: ", "tools:", "- Read", "'*'", "[", "{", "a: b: c", "user: hi"),
        *("permission: {bash: {'*': deny}}", "agent:", "hooks:", "mode: subagent", "---", "&a", "*a", "!x"),
        *("\t", "  ", '"', "#"),
    ]
)


@given(
    st.lists(PIECES | st.text(max_size=20), max_size=8),
    st.sampled_from(list(DIALECTS)),
    st.sampled_from([".md", ".yaml", ".toml", ".json"]),
)
def test_whatever_a_file_holds_it_is_an_agent_or_says_why_not(pieces: list[str], name: str, ending: str):
    block = "\n".join(pieces)
    text = f"---\n{block}\n---\nbody" if ending == ".md" else block
    read = read_agent_file(text.encode(errors="replace"), f"x{ending}", name)
    assert (read.spec is None) is bool(read.why_not)


@pytest.mark.parametrize(
    "command", [("trust", "--show"), ("agents", "lint"), ("agents", "list"), ("trust", "--yes")]
)
@pytest.mark.parametrize("users", [True, False])
def test_a_number_of_thousands_of_digits_ends_no_command(
    tmp_path: Path, home: Path, command: tuple[str, ...], users: bool
):
    """A value that Python cannot even print, in a folder's agents or in the user's own."""
    folder = (home if users else tmp_path) / ".codex/agents"
    folder.mkdir(parents=True)
    for name, number in (("big", "9" * 5_000), ("hex", f"0x{'f' * 5_000}")):
        (folder / f"{name}.toml").write_text(f"name = '{name}'\ndescription = 'd'\nn = {number}\n")
    ended = gen(*command, cwd=tmp_path)
    assert "fault of its own" not in ended.err
    assert ended.code in (0, 1)
