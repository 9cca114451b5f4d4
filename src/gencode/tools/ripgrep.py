"""tools: ripgrep as the searcher, from the wheel beside our Python or else from PATH."""

import os
import shutil
import sys
from functools import lru_cache
from pathlib import Path

from gencode.tools.hits import LARGEST_WALKED, FileSearch

OWN_TYPE = "wantednames"


@lru_cache(maxsize=64)
def find_ripgrep(root: Path) -> str | None:
    """Where rg is. PATH entries that are relative or lie in the workspace could be anybody's program."""
    beside = Path(sys.executable).parent / "rg"
    if os.access(beside, os.X_OK):
        return str(beside)
    entries = os.environ.get("PATH", "").split(os.pathsep)
    safe = [entry for entry in entries if _is_safe(entry, root)]
    return shutil.which("rg", path=os.pathsep.join(safe)) if safe else None


def _is_safe(entry: str, root: Path) -> bool:
    return entry.startswith("/") and not Path(entry).resolve().is_relative_to(root.resolve())


def ripgrep_command(program: str, search: FileSearch, outer_file: str, *, in_order: bool) -> list[str]:
    """The command line; its output is what `Hits` takes apart."""
    command = [
        program,
        "--no-config",
        "--no-messages",
        "--color=never",
        "--null",
        "--hidden",
        "--glob=!.git",
        "--no-require-git",
        "--no-ignore-parent",
        "--no-ignore-global",
        "--no-ignore-exclude",
        f"--max-filesize={LARGEST_WALKED}",
    ]
    if outer_file:
        command.append(f"--ignore-file={outer_file}")
    if in_order:
        command.append("--sort=path")
    if search.type:
        command.append(f"--type={search.type}")
    elif search.names:
        command += [f"--type-add={OWN_TYPE}:{name}" for name in search.names]
        command.append(f"--type={OWN_TYPE}")
    start = "./" if search.start == "." else f"./{search.start}"
    if search.shape == "paths":
        return [*command, "--files", "--", start]
    return [*command, *_matching(search), "-e", search.pattern, "--", start]


def _matching(search: FileSearch) -> list[str]:
    options = ["--with-filename", "--no-heading", "--crlf", "--engine=auto"]
    options.append("--ignore-case" if search.ignore_case else "--case-sensitive")
    if search.multiline:
        options += ["--multiline", "--multiline-dotall"]
    match search.shape:
        case "count":
            options.append("--count")
        case "files_with_matches":
            options.append("--files-with-matches")
        case _:
            options += [
                "--line-number",
                "--no-context-separator",
                f"--before-context={search.before}",
                f"--after-context={search.after}",
            ]
    return options
