"""The command that installs an extra of GenCode, for errors that say one is missing.

It is derived from the environment we run in, so that it works there as it is typed. It names the packages of
the extra and not ourselves: those come from an index, while we may come from a clone, an archive or a
repository.
"""

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

NAME = "gencode-ai"
ROOT = Path(__file__).parents[3]
STARTS = {"server": "serve", "mcp": "mcp", "acp": "acp"}
"""The commands of scripts/gen that add their extra by themselves."""


def installing(extra: str) -> str:
    """The command that installs an extra here."""
    prefix = Path(sys.prefix)
    installed = _installed()
    if prefix == ROOT / ".venv-gen" and (prefix / "stamp").is_file():
        gen = shlex.quote(str(ROOT / "scripts" / "gen"))
        return f"{gen} {STARTS[extra]}" if extra in STARTS else f"GEN_EXTRAS={extra} {gen} doctor"
    packages = _packages(extra, installed)
    if (prefix / "uv-receipt.toml").is_file():
        return _uv_tool(extra, prefix / "uv-receipt.toml", installed)
    if (prefix / "pipx_metadata.json").is_file():
        return shlex.join(("pipx", "inject", prefix.name, *packages))
    if find_spec("pip") is not None:
        return shlex.join((sys.executable, "-m", "pip", "install", *packages))
    by_uv = installed is not None and (installed.read_text("INSTALLER") or "").strip() == "uv"
    if by_uv or find_spec("ensurepip") is None:
        return shlex.join(("uv", "pip", "install", "--python", sys.executable, *packages))
    python = shlex.quote(sys.executable)
    return f"{python} -m ensurepip && {shlex.join((sys.executable, '-m', 'pip', 'install', *packages))}"


def _installed() -> "Distribution | None":
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and rarely needed

    try:
        return distribution(NAME)
    except PackageNotFoundError:  # a clone on PYTHONPATH
        return None


def _packages(extra: str, installed: "Distribution | None") -> list[str]:
    """The packages of an extra, as the distribution or the clone that we run from says."""
    if installed is not None:
        needs = (each.partition(";") for each in installed.requires or ())
        found = [name.strip() for name, _, when in needs if f"'{extra}'" in when.replace('"', "'")]
    else:
        project: dict[str, Any] = _toml(ROOT / "pyproject.toml").get("project", {})
        found = list[str](project.get("optional-dependencies", {}).get(extra, ()))
    return found or [f"{NAME}[{extra}]"]


def _uv_tool(extra: str, receipt: Path, installed: "Distribution | None") -> str:
    """Installs the tool again from the same source, with the extras it had and this one."""
    tool: dict[str, Any] = _toml(receipt).get("tool", {})
    had: list[dict[str, Any]] = tool.get("requirements", [])
    main = next((each for each in had if each.get("name") == NAME), dict[str, Any]())
    extras = ",".join(sorted({extra, *main.get("extras", ())}))
    source, editable = _source(installed)
    if source and "://" not in source:
        spec = [*(["--editable"] if editable else []), f"{source}[{extras}]"]
    else:
        spec = [f"{NAME}[{extras}]" + (f" @ {source}" if source else str(main.get("specifier", "")))]
    for each in had:
        if each.get("name") != NAME:
            spec += ["--with", f"{each.get('name')}{each.get('specifier', '')}"]
    return shlex.join(("uv", "tool", "install", *spec))


def _source(installed: "Distribution | None") -> tuple[str, bool]:
    """Where the distribution was installed from, and whether it is editable; nothing for an index."""
    written = installed.read_text("direct_url.json") if installed else None
    try:
        told: dict[str, Any] = json.loads(written or "{}")
    except ValueError:
        told = {}
    url = str(told.get("url", ""))
    if vcs := told.get("vcs_info"):
        return f"{vcs.get('vcs')}+{url}@{vcs.get('commit_id')}", False
    if "dir_info" in told and url.startswith("file://"):
        return unquote(urlsplit(url).path), bool(told["dir_info"].get("editable"))
    return url, False


def _toml(path: Path) -> dict[str, Any]:
    from tomllib import loads

    try:
        return loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
