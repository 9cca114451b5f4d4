"""`scripts/gen` in a fresh clone."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

import gencode
from tests.house.source import ROOT

CLONED = ("LICENSE", "README.md", "pyproject.toml", "requirements", "scripts", "src", "examples")
VERSION = f"gen {gencode.__version__}\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """`scripts/gen` of a clone that nobody has used yet, in a folder with a space in its name."""
    clone = tmp_path / "fresh clone"
    clone.mkdir()
    for name in CLONED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, clone / name)
    return clone / "scripts" / "gen"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder to call it from, with a module in it that must not be picked up."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "gencode.py").write_text("raise SystemExit('the wrong module')\n")
    return folder


def start(command: Path, folder: Path, *words: str, **environ: str) -> subprocess.Popen[str]:
    """Start `gen --version` as a person would; pip may read their settings, which say where packages are."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    return subprocess.Popen(
        [command, *(words or ("--version",))],
        cwd=folder,
        env={**os.environ, "HOME": home, "PYTHONPATH": str(folder), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_first_runs_at_once_both_answer_and_what_a_command_adds_stays(script: Path, workspace: Path) -> None:
    """One story, as an installation takes long: first runs, an extra, a hint that is typed, new pins."""
    link = workspace.parent / "gen"
    link.symlink_to(script)
    both = [start(link, workspace), start(script, workspace)]
    said = [run.communicate() for run in both]
    assert [out for out, _ in said] == [VERSION, VERSION], said
    assert sorted(err.count("\n") for _, err in said) in ([0, 1], [1, 1])
    third = start(link, workspace)
    assert third.communicate() == (VERSION, "")
    assert [path.name for path in workspace.iterdir()] == ["gencode.py"]
    both = [start(script, workspace, "acp"), start(script, workspace, "acp")]
    said = [run.communicate() for run in both]
    assert [(run.returncode, out) for run, (out, _) in zip(both, said, strict=True)] == [(0, "")] * 2, said
    assert sum(err.count("adding acp") for _, err in said) == 1
    venv = script.parents[1] / ".venv-gen"
    hint = subprocess.run(
        [
            venv / "bin" / "python",
            "-I",
            "-c",
            "from gencode.core.extras import installing as i; print(i('otel'))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    typed = start(Path(shutil.which("bash") or "bash"), workspace, "-c", hint)
    out, err = typed.communicate()
    assert "adding otel" in err, (hint, out, err)
    pins = script.parents[1] / "requirements" / "runtime.txt"
    pins.write_text(f"{pins.read_text()}# changed\n")
    renewed = start(script, workspace)
    assert renewed.communicate() == (VERSION, "gen: setting up (once)…\n")
    assert (venv / "extras").read_text() == "acp,otel"
    has = [venv / "bin" / "python", "-I", "-c", "import acp, opentelemetry.sdk"]
    assert subprocess.run(has, check=False).returncode == 0
    last = start(script, workspace)
    assert last.communicate() == (VERSION, "")


def test_without_python_it_says_what_to_do_in_one_sentence(script: Path, workspace: Path) -> None:
    path = workspace.parent / "bin"
    path.mkdir()
    for name in ("bash", "dirname", "env", "readlink"):
        (path / name).symlink_to(shutil.which(name) or name)
    run = start(script, workspace, PATH=str(path))
    needs = "gen: this needs Python 3.11 or newer and there is none on PATH; install one and try again.\n"
    assert run.communicate() == ("", needs)
    assert run.returncode == 2


def test_an_environment_that_cannot_be_made_is_one_sentence(script: Path, workspace: Path) -> None:
    clone = script.parents[1]
    (clone / "pyproject.toml").unlink()
    (clone / "pyproject.toml").mkdir()
    run = start(script, workspace)
    out, err = run.communicate()
    assert (out, run.returncode) == ("", 2)
    assert err.splitlines()[-1].startswith(f"gen: {clone / '.venv-gen'} cannot be made: ")


def test_an_extra_that_does_not_exist_is_named(script: Path, workspace: Path) -> None:
    run = start(script, workspace, GEN_EXTRAS="nope")
    out, err = run.communicate()
    assert (out, run.returncode) == ("", 2)
    assert "'nope'" in err and "server" in err
