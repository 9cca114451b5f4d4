"""bench: real source trees by package name, into a folder outside of the repository; nothing is committed."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path


class NotFetched(Exception):
    """A tree that cannot be had on this machine; the text says why."""


def fetch(name: str, source: str, version: str, drop: list[str], into: Path) -> Path:
    """The unpacked source of a package, from the cache when it is there."""
    tree = into / f"{name.replace('/', '-').lstrip('@')}-{version}"
    if tree.is_dir():
        return tree
    work = into / f"{tree.name}.part"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    getters = {"pip": _from_pip, "npm": _from_npm, "debian": _from_debian, "stdlib": _from_stdlib}
    archive = getters[source](name, version, work)
    unpacked = work / "tree"
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    inner = list(unpacked.iterdir())
    top = inner[0] if len(inner) == 1 and inner[0].is_dir() else unpacked
    for folder in drop:
        shutil.rmtree(top / folder, ignore_errors=True)
    top.rename(tree)
    shutil.rmtree(work, ignore_errors=True)
    return tree


def _from_stdlib(name: str, version: str, work: Path) -> Path:
    """Python's own library, as this interpreter has it."""
    if sysconfig.get_python_version() != version:
        raise NotFetched(f"this is Python {sysconfig.get_python_version()}, not {version}")
    archive = work / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(Path(sysconfig.get_path("stdlib")).iterdir()):
            if path.name != "site-packages":
                tar.add(path, path.name, filter=lambda info: None if "__pycache__" in info.name else info)
    return archive


def _from_pip(name: str, version: str, work: Path) -> Path:
    asked = f"{name}=={version}"
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        pip = [shutil.which("pip3") or "pip"]
    _run([*pip, "download", "--no-deps", "--no-binary", name, "-d", str(work), asked], work)
    return _archive(work)


def _from_npm(name: str, version: str, work: Path) -> Path:
    _run(["npm", "pack", f"{name}@{version}"], work)
    return _archive(work)


def _from_debian(name: str, version: str, work: Path) -> Path:
    """The upstream archive of a Debian source package, through the machine's own mirror."""
    places = work / "sources"
    places.mkdir()
    for file in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            wanted = text.replace("Types: deb\n", "Types: deb-src\n").replace("deb http", "deb-src http")
            (places / file.name).write_text(wanted, encoding="utf-8")
    lists = work.parent / "apt-lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    options = [
        "-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={places}",
        "-o", f"Dir::State::Lists={lists}",
    ]  # fmt: skip
    if not any(lists.glob("*Sources*")):
        _run(["apt-get", *options, "update"], work)
    _run(["apt-get", *options, "source", "--tar-only", "--download-only", name], work)
    archive = _archive(work)
    if f"_{version}" not in archive.name:
        raise NotFetched(f"this Debian has {archive.name}, not {version}")
    return archive


def _run(command: list[str], where: Path) -> None:
    if not shutil.which(command[0]) and not os.access(command[0], os.X_OK):
        raise NotFetched(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise NotFetched(
            f"{' '.join(command[:3])} failed: {(done.stderr.strip() or 'no reason').splitlines()[-1]}"
        )


def _archive(work: Path) -> Path:
    found = sorted(each for each in work.iterdir() if ".tar" in each.name or each.suffix == ".tgz")
    if not found:
        raise NotFetched("no archive came down")
    return found[0]
