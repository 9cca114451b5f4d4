"""Further names at which a sandboxed command finds a folder, such as the sender's name of a copied folder.

The folder is mounted there, in the command's own file system only. What is at such a place outside is not
seen by the command then, so no place is taken by which a command or this machine would be fooled.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from gencode.core.structs import replace
from gencode.permissions.secrets import KERNEL_ROOTS, SYSTEM_ROOTS, folded, is_under
from gencode.sandbox.bubblewrap import MOST_ENTRIES, folder_entries, nearest_existing
from gencode.sandbox.choose_sandbox import Sandbox
from gencode.sandbox.guarded_paths import real_path
from gencode.sandbox.profile import (
    SYSTEM_TMP,
    FolderAlias,
    SandboxProfile,
    program_folders,
    workspace_profile,
)

_SYSTEM = SYSTEM_ROOTS | KERNEL_ROOTS | {"run", "libx32", "nix", "gnu"}
_OF_MANY = frozenset(
    {"home", "users", "root", "tmp", "var", "opt", "srv", "mnt", "media", "volumes", "snap", "private"}
)
"""Top folders that hold what belongs to many: they may have a name in them, and are none themselves."""
_LONGEST = 4_000
_SECONDS = 20.0
_THE_SAME = 'test "$1" -ef "$2"'


def working_aliases(folder: Path, names: Iterable[str], home: Path, sandbox: Sandbox) -> tuple[str, ...]:
    """Those of the names at which commands find a folder, each really tried. `home` is GenCode's own."""
    if not sandbox.supports_aliases:
        return ()
    with tempfile.TemporaryDirectory(prefix="gen-names-") as temp:
        plan = with_aliases(workspace_profile(folder, Path(temp), home), folder, names)
        return tuple(str(alias.name) for alias in plan.aliases if _is_found(alias, plan, sandbox))


def with_aliases(plan: SandboxProfile, folder: Path, names: Iterable[str]) -> SandboxProfile:
    """The same enclosure, with a folder also at each of the names at which that can be."""
    aliases: list[FolderAlias] = []
    for name in names:
        alias = FolderAlias(real_path(folder), Path(name))
        taken = any(_overlap(alias.name, other.name) for other in aliases)
        if not taken and _is_plain(name) and _hides_nothing(alias, plan) and _can_be_made(alias.name):
            aliases.append(alias)
    covered = any(SYSTEM_TMP in alias.name.parents for alias in aliases)
    return replace(plan, aliases=tuple(aliases), private_tmp=plan.private_tmp and not covered)


def _is_found(alias: FolderAlias, plan: SandboxProfile, sandbox: Sandbox) -> bool:
    words = ["/bin/sh", "-c", _THE_SAME, "sh", str(alias.folder), str(alias.name)]
    try:
        tried = subprocess.run(
            sandbox.enclose(words, replace(plan, aliases=(alias,))),
            cwd=alias.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def _is_plain(name: str) -> bool:
    """Whether a name is an absolute path in its only spelling, and none of a place of the system."""
    if not name.startswith("/") or os.path.normpath(name) != name or len(name) > _LONGEST:
        return False
    parts = folded(name)
    top = len(parts) == 1 and parts[0] in _OF_MANY
    return name.isprintable() and bool(parts) and not top and not is_under(parts, _SYSTEM)


def _hides_nothing(alias: FolderAlias, plan: SandboxProfile) -> bool:
    """Whether nothing lies below a name that commands need or must not see another form of."""
    walled = [real_path(place) for place in (*plan.writable, plan.temp, *plan.hidden)]
    needed = [alias.folder, Path.home(), real_path(Path.home()), *program_folders()]
    other = [real_path(place) for place in (*plan.guarded, *plan.shown)]
    below = any(place.is_relative_to(alias.name) for place in (*walled, *needed, *other))
    return not below and not any(alias.name.is_relative_to(place) for place in walled)


def _can_be_made(name: Path) -> bool:
    """Whether a name leads through no link and can be made, or is a folder already."""
    try:
        near = nearest_existing(name)
        return real_path(near) == near and (near == name or len(folder_entries(near)) <= MOST_ENTRIES)
    except OSError:
        return False


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)
