"""A repository whose settings name programs."""

import subprocess
from pathlib import Path

HOSTILE = """
[core]
    fsmonitor = "touch {0}; false"
    pager = "touch {0}; cat"
    hooksPath = "{1}"
    sshCommand = "touch {0}"
    alternateRefsCommand = "touch {0}"
[diff]
    external = "touch {0}"
[diff "Evil.One"]
    textconv = "touch {0}; cat"
    command = "touch {0}"
[filter "evil"]
    clean = "touch {0}; cat"
    smudge = "touch {0}; cat"
    process = "touch {0}"
    required = true
[gpg]
    program = "touch {0}"
[gpg "ssh"]
    program = "touch {0}"
[gpg "openpgp"]
    program = "touch {0}"
[gpg "x509"]
    program = "touch {0}"
[merge "evil"]
    driver = "touch {0}"
[log]
    showSignature = true
    diffMerges = remerge
[pager]
    log = "touch {0}; cat"
[pretty]
    evil = %G? %H
[diff]
    submodule = diff
    ignoreSubmodules = none
[status]
    submoduleSummary = true
[submodule]
    recurse = true
[fetch]
    recurseSubmodules = true
[alias]
    status = "!touch {0}"
"""


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def plainly(folder: Path, *words: str) -> None:
    """Git as anybody would run it."""
    subprocess.run(["git", *words], cwd=folder, check=False, capture_output=True)


def repository(folder: Path) -> Path:
    """A repository with one commit and one change."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitattributes").write_text("*.txt filter=evil diff=Evil.One merge=evil\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    (folder / "a.txt").write_text("two\n")
    return folder


def poison(config: Path, canary: Path) -> None:
    with config.open("a") as file:
        file.write(HOSTILE.format(canary, str(config.parent).replace("\\", r"\\").replace('"', r"\"")))
