"""What a command line starts of a folder is found in its words, and what cannot be found is said."""

from itertools import pairwise
from pathlib import Path

import pytest

from gencode.permissions.started_files import digests, started_by


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    for name in ("guard.sh", "x.py", "x.js", "run"):
        (tmp_path / "scripts" / name).write_text(name)
    (tmp_path / "scripts/run").chmod(0o755)
    (tmp_path / "data.db").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("scripts/guard.sh --fast", ["scripts/guard.sh"]),
        ("./scripts/missing", ["scripts/missing"]),
        ('"$CLAUDE_PROJECT_DIR"/scripts/guard.sh', ["scripts/guard.sh"]),
        ("${GEN_PROJECT_DIR}/scripts/guard.sh", ["scripts/guard.sh"]),
        ("python3.11 -u scripts/x.py", ["scripts/x.py"]),
        ("sh ./scripts/guard.sh", ["scripts/guard.sh"]),
        ("bash -c './scripts/guard.sh'", ["scripts/guard.sh"]),
        ("cd scripts && ./guard.sh", ["scripts/guard.sh"]),
        ("timeout 5 scripts/run; . scripts/guard.sh", ["scripts/run", "scripts/guard.sh"]),
        ("node --require=./scripts/x.js", ["scripts/x.js"]),
        ("bash -c 'cat x | scripts/run'", ["scripts/run"]),
        ("mcp-server-sqlite --db-path data.db", []),
        ("/usr/bin/true ../scripts/x.py", []),
        ("ls scripts", []),
    ],
)
def test_the_files_that_are_started_are_found(folder: Path, line: str, files: list[str]) -> None:
    assert (found := started_by([(line, "")], folder)).files == tuple(files)
    assert found.unknown == ()


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("npx -y web", ()),
        ("python -m server", ()),
        ("uv run scripts/x.py", ("scripts/x.py",)),
        ("make lint", ()),
        ("$TOOL scripts/x.py", ("scripts/x.py",)),
        ('bash -c "$X"', ()),
        ("cd $X && ./guard.sh", ("guard.sh",)),
        ("bash < scripts/guard.sh", ("scripts/guard.sh",)),
        ("'unclosed", ()),
    ],
)
def test_what_cannot_be_followed_is_said(folder: Path, line: str, files: tuple[str, ...]) -> None:
    found = started_by([(line, "")], folder)
    assert found.files == files
    assert found.unknown
    assert all(each.startswith(f"{line}: ") for each in found.unknown)


def test_a_program_with_a_folder_of_its_own_is_looked_for_there(folder: Path) -> None:
    assert started_by([("./guard.sh", "scripts")], folder).files == ("scripts/guard.sh",)
    assert started_by([("./guard.sh", "/elsewhere")], folder).files == ()


def test_a_digest_tells_every_change(folder: Path) -> None:
    names = ("scripts/guard.sh", "scripts/missing", "scripts/link", "scripts/out")
    (folder / "scripts/link").symlink_to("guard.sh")
    (folder / "scripts/out").symlink_to("/bin/sh")
    seen = [digests(names, folder)]
    assert seen[0]["scripts/missing"] == ""
    (folder / "scripts/missing").write_text("now")
    seen.append(digests(names, folder))
    (folder / "scripts/guard.sh").write_text("other")
    seen.append(digests(names, folder))
    (folder / "scripts/out").unlink()
    (folder / "scripts/out").symlink_to("/bin/cat")
    seen.append(digests(names, folder))
    changed = [{name for name in names if a[name] != b[name]} for a, b in pairwise(seen)]
    assert changed == [{"scripts/missing"}, {"scripts/guard.sh", "scripts/link"}, {"scripts/out"}]


def test_a_variable_may_name_a_program_too(folder: Path) -> None:
    assert started_by([("NODE_OPTIONS='--require=./scripts/x.js' A=b", "")], folder).files == (
        "scripts/x.js",
    )
