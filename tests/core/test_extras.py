"""The command that installs an extra is one that works in the environment that prints it."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gencode.core import extras
from gencode.core.extras import installing

PACKAGES = ["starlette>=1,<2", "uvicorn>=0.30,<1"]


def in_order(words: list[str]) -> list[str]:
    """The words of a command, with the bounds of each version in one order, whatever built the package."""
    return [re.sub(r"(<[^,]+),(>=.+)", r"\2,\1", word) for word in words]


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of some other tool."""
    folder = tmp_path / "gencode-ai"
    folder.mkdir()
    monkeypatch.setattr(sys, "prefix", str(folder))
    return folder


def test_an_environment_of_pipx_is_injected(prefix: Path) -> None:
    (prefix / "pipx_metadata.json").write_text("{}")
    assert in_order(shlex.split(installing("server"))) == ["pipx", "inject", "gencode-ai", *PACKAGES]


def test_a_tool_of_uv_is_installed_again_with_what_it_had(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prefix / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "gencode-ai", extras = ["tui"], directory = "/a clone" }, '
        '{ name = "cowsay", specifier = ">=6" }]\n'
    )
    url: dict[str, object] = {"url": "file:///a%20clone", "dir_info": {"editable": False}}
    installed(prefix, monkeypatch, url)
    assert shlex.split(installing("server")) == [
        *("uv", "tool", "install", "/a clone[server,tui]", "--with", "cowsay>=6"),
    ]


@pytest.mark.parametrize(
    ("url", "spec"),
    [
        (None, ["gencode-ai[server,tui]==0.1"]),
        ({"url": "file:///clone", "dir_info": {"editable": True}}, ["--editable", "/clone[server,tui]"]),
        (
            {"url": "https://example.net/gen", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            ["gencode-ai[server,tui] @ git+https://example.net/gen@abc"],
        ),
        (
            {"url": "https://example.net/gen.whl", "archive_info": {}},
            ["gencode-ai[server,tui] @ https://example.net/gen.whl"],
        ),
    ],
)
def test_a_tool_of_uv_comes_from_where_it_came_before(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, url: dict[str, object] | None, spec: list[str]
) -> None:
    (prefix / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "gencode-ai", extras = ["tui"], specifier = "==0.1" }]\n'
    )
    installed(prefix, monkeypatch, url)
    assert shlex.split(installing("server")) == ["uv", "tool", "install", *spec]


def installed(prefix: Path, monkeypatch: pytest.MonkeyPatch, url: dict[str, object] | None) -> None:
    """Be a distribution that was installed from somewhere."""
    folder = prefix / "site" / "gencode_ai-0.1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: gencode-ai\nVersion: 0.1\n")
    if url is not None:
        (folder / "direct_url.json").write_text(json.dumps(url))
    monkeypatch.setattr(sys, "path", [str(folder.parent), *sys.path])


def test_a_clone_of_scripts_gen_names_the_command_that_adds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = tmp_path / "my clone" / ".venv-gen"
    venv.mkdir(parents=True)
    (venv / "stamp").touch()
    monkeypatch.setattr(extras, "ROOT", venv.parent)
    monkeypatch.setattr(sys, "prefix", str(venv))
    gen = str(venv.parent / "scripts" / "gen")
    assert shlex.split(installing("server")) == [gen, "serve"]
    assert shlex.split(installing("otel")) == ["GEN_EXTRAS=otel", gen, "doctor"]


def test_an_environment_without_pip_is_not_told_to_use_it(tmp_path: Path) -> None:
    venv = tmp_path / "bare"
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    source = str(Path(extras.__file__).parents[2])
    code = f"import sys; sys.path.insert(0, {source!r}); from gencode.core import extras; "
    code += "print(extras.installing('server'))"
    said = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    first, _, second = said.strip().partition(" && ")
    assert shlex.split(first) == [str(python), "-m", "ensurepip"]
    assert in_order(shlex.split(second)) == [str(python), "-m", "pip", "install", *PACKAGES]
