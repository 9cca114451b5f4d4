"""Nothing of a command is ever an option of the program that walls it in."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.sandbox import bubblewrap, landlock, seatbelt
from gencode.sandbox.profile import SandboxProfile
from gencode.sandbox.trial import Enclose

WAYS: dict[str, Enclose] = {
    "bubblewrap": partial(bubblewrap.enclose, "/usr/bin/bwrap", "/bin/bash"),
    "patient bubblewrap": partial(bubblewrap.enclose, "/usr/bin/bwrap", "/bin/bash", env="/usr/bin/env"),
    "Landlock": partial(landlock.enclose, namespaces=False),
    "Landlock with namespaces": partial(landlock.enclose, namespaces=True),
    "Seatbelt": seatbelt.enclose,
}
OPTIONS = ["--", "--bind", "-p", "-c", "--network", "write=/", "--cap-add", "ALL", "A=b", "/bin/bash"]
words = st.text(st.characters(codec="utf-8", exclude_characters="\0")) | st.sampled_from(OPTIONS)
PLAN = SandboxProfile((Path("/w"),), Path("/t"), (Path("/w/.gen"),), hidden=(Path("/h"),), network=False)


@pytest.mark.parametrize("way", WAYS)
@given(program=words.filter(bool), rest=st.lists(words), network=st.booleans())
def test_the_command_stands_at_the_end_behind_a_separator(
    way: str, program: str, rest: list[str], network: bool
) -> None:
    plan = SandboxProfile(PLAN.writable, PLAN.temp, PLAN.guarded, PLAN.hidden, network=network)
    path = f"/{program}"
    command = [path, *rest]
    line = WAYS[way](command, plan)
    harmless = WAYS[way](["/x=" if "=" in path else "/x"], plan)
    assert line == [*harmless[:-1], *command]
    assert "--" in harmless


def test_the_rules_of_macos_name_no_path(tmp_path: Path) -> None:
    """Paths are parameters, so that no name of a folder can end a string in the profile and begin a rule."""
    work = tmp_path / 'a") (allow file-write* (subpath "'
    (work / ".git").mkdir(parents=True)
    plan = SandboxProfile((work,), tmp_path / "t", (work / ".git/hooks",), hidden=(tmp_path / "h",))
    profile = """(version 1)
(allow default)
(deny file-write*)
(deny appleevent-send lsopen)
(deny signal)
(allow signal (target same-sandbox))
(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-write* (literal "/dev/tty") (subpath "/dev/fd"))
(allow file-read* file-write* (subpath (param "P0")))
(allow file-read* file-write* (subpath (param "P1")))
(deny file-read* file-write* (subpath (param "P2")))
(deny file-write* (subpath (param "P3")))(allow file-read* (subpath (param "P3")))
(deny file-write* (literal (param "P4")))
(deny network*)"""
    named = [work, tmp_path / "t", tmp_path / "h", work / ".git/hooks", work / ".git"]
    parameters = [word for number, path in enumerate(named) for word in ("-D", f"P{number}={path}")]
    command = ["/usr/bin/env", f"TMPDIR={tmp_path / 't'}", "/bin/bash", "-c", "x"]
    assert seatbelt.enclose(["/bin/bash", "-c", "x"], plan) == [
        "/usr/bin/sandbox-exec",
        "-p",
        profile,
        *parameters,
        "--",
        *command,
    ]


def test_on_macos_a_submodule_can_be_written_where_no_new_one_can_be_made(tmp_path: Path) -> None:
    modules = tmp_path / "w/.git/modules"
    (modules / "one").mkdir(parents=True)
    plan = SandboxProfile((tmp_path / "w",), tmp_path / "t", (modules, modules / "one/config"))
    line = seatbelt.enclose(["/bin/true"], plan)
    named = dict(word.split("=", 1) for word in line if word.startswith("P"))
    rules = [each for each in line[2].splitlines() if "param" in each]
    told = [(rule.split(" ")[0].lstrip("("), named[rule.split('"')[1]]) for rule in rules]
    below = [(verb, Path(path).relative_to(tmp_path).as_posix()) for verb, path in told]
    assert below == [
        ("allow", "w"),
        ("allow", "t"),
        ("deny", "w/.git/modules"),
        ("allow", "w/.git/modules/one"),
        ("deny", "w/.git/modules/one/config"),
        *(("deny", name) for name in ("w/.git", "w/.git/modules", "w/.git/modules/one")),
    ]
