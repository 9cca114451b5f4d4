"""The sandbox profile: what a command may read, write and reach, whichever sandbox enforces it."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from pathlib import Path

from msgspec import Struct

from gencode.core.structs import replace
from gencode.permissions.agent_folders import users_places, worktrees_folder
from gencode.permissions.secrets import KERNEL_ROOTS, SYSTEM_ROOTS, folded, holds_own_settings, is_under
from gencode.sandbox.guarded_paths import (
    file_mode,
    guarded_names,
    inner_repositories,
    is_linked_worktree_file,
    real_path,
    watched_only,
)

_RUN = Path("/run")
SYSTEM_TMP = Path("/tmp")  # noqa: S108  (a folder of the command's own is put there)
_SOCKET_FOLDERS = (_RUN, Path("/tmp/.X11-unix"), Path("/tmp/.ICE-unix"))  # noqa: S108  (they are hidden, not used)
_SYSTEM_IN_RUN = ("current-system", "booted-system", "opengl-driver")
"""Programs and libraries that some systems keep in /run."""
_NAMES_OF_HOSTS = ("resolve/stub-resolv.conf", "resolve/resolv.conf")
_OPEN_PARTS_OF_HOME = ("agents", "skills")
_MASTER_SOCKETS = ("TMUX", "VSCODE_IPC_HOOK_CLI", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS")
_AGENT_SOCKET = "SSH_AUTH_SOCK"
_HOME_SOCKETS = (
    *(".docker/*/docker.sock", ".colima/docker.sock", ".colima/*/docker.sock", ".rd/docker.sock"),
    *(".orbstack/run/docker.sock", ".lima/*/sock/*.sock", ".local/share/containers/podman/machine/*/*.sock"),
    *(".gnupg/S.*", ".ssh/*", ".1password/*.sock", ".emacs.d/server/*", ".local/state/nvim/*"),
)
"""Where programs of the user listen in their home folder."""
_IN_TMP = ("emacs", "nvim", "ssh-", "vscode-", "dbus-", "tmux-")
"""How the names of their sockets, and of folders with such, begin in /tmp."""
_MOST_SOCKETS = 64
_MOST_IN_TMP = 5_000
_SYSTEM = SYSTEM_ROOTS | KERNEL_ROOTS
_MOST_DENIED = 200
"""Each is mounted by itself, and a repository may bring many rules."""
_PACKAGE = str(Path(__file__).parents[1])
"""Not below `sys.prefix` where it is installed from a folder that somebody works in."""


class Access(StrEnum):
    """What a place in the file system is to the command."""

    WRITE = "write"
    READ = "read"
    HIDE = "hide"


class FolderAlias(Struct, frozen=True):
    """That a command finds a folder at another name, too, whatever is there outside."""

    folder: Path
    name: Path


class SandboxProfile(Struct, frozen=True):
    """What one command may do. Whatever is not named can be read and not written."""

    writable: tuple[Path, ...]
    """The workspace, and whatever else a person gave."""
    temp: Path
    """A private folder; the command finds it in TMPDIR."""
    guarded: tuple[Path, ...] = ()
    """Never written, though they lie in a writable folder; those that do not exist must not appear."""
    reserved: tuple[Path, ...] = ()
    """Guarded ones that are missing and must not appear: where agents and hooks of the user are read."""
    hidden: tuple[Path, ...] = ()
    """Not even read."""
    shown: tuple[Path, ...] = ()
    """Read, though they lie in a hidden folder."""
    veiled: tuple[Path, ...] = ()
    """Not read either, because a rule says so, though nothing here depends on it."""
    network: bool = False
    joined: bool = False
    """It starts in a network namespace of its task, and keeps that one."""
    private_tmp: bool = False
    """The command finds `temp` at /tmp and in TMPDIR, where the wall can do that, and no other /tmp."""
    of_tmp: tuple[Path, ...] = ()
    """What it then sees of the system's /tmp, to read it."""
    aliases: tuple[FolderAlias, ...] = ()
    """Other names of folders. Not every wall can give them."""

    def watched(self) -> tuple[Path, ...]:
        """The guarded places to look at after a command; GenCode itself writes to the others."""
        kept = (
            place for place in self.guarded if place not in self.hidden and not is_linked_worktree_file(place)
        )
        return (*kept, *watched_only(self.writable, self.guarded))


def workspace_profile(
    workspace: Path,
    temp: Path,
    home: Path,
    *,
    network: bool = False,
    also_writable: Iterable[Path] = (),
    started: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> SandboxProfile:
    """The usual enclosure of a command in a workspace. `home` is the per-user folder of GenCode.

    A workspace that is itself part of somebody's settings is not writable at all; worktrees are none, also
    where they lie in that folder. A command in a part of such a worktree may use the repository it has.
    `started` are files of the workspace that hooks and MCP servers start, some of them outside of any wall.
    """
    environ = os.environ if environ is None else environ
    mine = real_path(home)
    roots = dict.fromkeys(map(real_path, (workspace, *also_writable)))
    users = [Path(each) for each in _users_places()]
    given = [root for root in roots if not _holds_settings(root, mine, map(real_path, users))]
    above = [git for root in given for git in _repository_above(root, worktrees_folder(mine))]
    writable = (*given, *above)
    inner = [folder for root in given for folder in inner_repositories(root)]
    homes_of_git = [*given, *(git.parent for git in above), *inner]
    ways_out, needed = _command_sockets(environ, network=network)
    trees = [folder for folder in (worktrees_folder(mine),) if folder.is_relative_to(mine)]
    kept = [place for each in users for place in _kept(each, given)]
    guarded = dict.fromkeys(
        [
            mine,
            *(name for top in homes_of_git for name in guarded_names(top)),
            *kept,
            *(real_path(each) for path in started if file_mode(each := real_path(workspace) / path)),
        ]
    )
    shown = (*(mine / name for name in _OPEN_PARTS_OF_HOME), *trees, *needed)
    seen = needed_of_tmp([*roots, *writable, *guarded, *users, *trees])
    return SandboxProfile(
        writable=writable,
        temp=real_path(temp),
        guarded=tuple(guarded),
        reserved=tuple(dict.fromkeys(place for place in kept if not os.path.lexists(place))),
        hidden=(mine, *ways_out),
        shown=shown,
        network=network,
        private_tmp=seen is not None,
        of_tmp=tuple(seen or ()),
    )


def _home() -> list[Path]:
    """The user's home folder, where anybody knows it."""
    try:
        return [real_path(Path.home())]
    except RuntimeError:
        return []


def needed_of_tmp(needed: Iterable[Path]) -> list[Path] | None:
    """What of the system's /tmp a command has to see beside its own; None where it has to see all of it."""
    if sys.platform != "linux" or SYSTEM_TMP.is_symlink() or not SYSTEM_TMP.is_dir():
        return None
    places = [*needed, *_home(), *program_folders()]
    if any(SYSTEM_TMP.is_relative_to(place) for place in needed):
        return None
    inside = (place.relative_to(SYSTEM_TMP) for place in places if SYSTEM_TMP in place.parents)
    return [*dict.fromkeys(SYSTEM_TMP / each.parts[0] for each in inside)]


def hide_denied(plan: SandboxProfile, closed: Iterable[str], cwd: Path) -> SandboxProfile:
    """The same enclosure, with these places hidden as well, as far as they can be."""
    needed = [*plan.writable, plan.temp, *map(real_path, (cwd, Path.home(), *plan.shown)), *program_folders()]
    more = [
        place
        for place in map(Path, closed)
        if not any(each.is_relative_to(place) for each in needed)
        and not any(place.is_relative_to(each) for each in map(real_path, plan.hidden))
        and not is_under(folded(str(place)), _SYSTEM)
    ]
    outer = [place for place in more if not any(each in place.parents for each in more)]
    return replace(plan, veiled=tuple(outer[:_MOST_DENIED]))


def program_folders() -> Iterator[Path]:
    """Where programs and our own modules lie: what a copy brings must not be taken for this machine's."""
    python = (str(Path(sys.executable).parent), sys.prefix, sys.base_prefix)
    places = (*os.environ.get("PATH", os.defpath).split(os.pathsep), *python)
    for text in (*places, *sys.path, _PACKAGE):
        if text.startswith("/"):
            yield Path(text)
            yield real_path(Path(text))


def layers(plan: SandboxProfile, *, missing: bool = False) -> list[tuple[Path, Access]]:
    """The places that differ from "read", the outer ones first: an inner place wins over an outer one.

    Only those that exist, unless `missing`. Links are resolved.
    """
    found = dict.fromkeys((*plan.writable, plan.temp), Access.WRITE)
    for place in unmovable_folders(plan):
        found.setdefault(place, Access.WRITE)
    for place, _ in _guarded(plan):
        if missing or file_mode(place):
            found[place] = Access.READ
    for place in map(real_path, (*plan.shown, *(plan.of_tmp if plan.private_tmp else ()))):
        if missing or file_mode(place):
            found.setdefault(place, Access.READ)
    for place in map(real_path, (*plan.hidden, *plan.veiled)):
        if plan.private_tmp and SYSTEM_TMP in place.parents and not any(map(place.is_relative_to, found)):
            continue  # it is not there anyway
        if (missing or file_mode(place)) and found.get(place) is not Access.WRITE:
            found[place] = Access.HIDE
    return sorted(found.items(), key=lambda item: len(item[0].parts))


def unmovable_folders(plan: SandboxProfile) -> list[Path]:
    """Folders between a writable one and something guarded in it.

    They can be written, but not renamed: otherwise `mv .git x` would be a way around a guarded `.git/hooks`.
    """
    return [
        folder
        for place, root in _guarded(plan)
        for folder in place.parents[: len(place.parts) - len(root.parts) - 1]
        if file_mode(folder)
    ]


def _guarded(plan: SandboxProfile) -> Iterator[tuple[Path, Path]]:
    """What is guarded in a writable folder, with that folder."""
    for place in map(real_path, plan.guarded):
        for root in (*plan.writable, plan.temp):
            if place != root and place.is_relative_to(root):
                yield place, root


def _users_places() -> tuple[str, ...]:
    """Where the user's own agents and skills are read from; nothing where nobody knows their home."""
    try:
        return users_places(str(Path.home()))
    except RuntimeError:
        return ()


def _kept(place: Path, writable: Iterable[Path]) -> list[Path]:
    """A place of the user's that a command could write to.

    Where it is missing or a link, the folder around it as well: it could be made there, or made anew. Where
    that is missing too, the first of its folders that is.
    """
    around = [] if file_mode(place) and not place.is_symlink() else [place.parent]
    if around and not os.path.lexists(place.parent):
        missing = [each for each in place.parents if not os.path.lexists(each)]
        place, around = missing[-1], []
    found = [real_path(each) for each in (place, *around) if each == place or file_mode(each)]
    return [each for each in found for root in writable if each != root and each.is_relative_to(root)]


def _holds_settings(root: Path, home: Path, users: Iterable[Path]) -> bool:
    inside = root.is_relative_to(home) and worktrees_folder(home) not in root.parents
    inside = inside or any(root.is_relative_to(place) for place in users)
    return inside or holds_own_settings(folded(str(root)))


def _repository_above(root: Path, trees: Path) -> list[Path]:
    """Git's folder in the copy of ours that a folder is a part of, if it has one. Not one of the person's."""
    for folder in (root, *root.parents):
        if trees not in folder.parents:
            return []
        if os.path.lexists(git := folder / ".git"):
            return [git] if folder != root and stat.S_ISDIR(git.lstat().st_mode) else []
    return []


def _command_sockets(environ: Mapping[str, str], *, network: bool) -> tuple[list[Path], list[Path]]:
    """Sockets behind which somebody runs commands for whoever asks, and what must be seen beside them.

    A read-only file system does not keep anybody from speaking to a socket in it.
    """
    hidden = [*_SOCKET_FOLDERS, Path(f"/tmp/tmux-{os.getuid()}")]  # noqa: S108
    hidden += [socket for name in _MASTER_SOCKETS for socket in _sockets(environ.get(name, ""))]
    agents = _sockets(environ.get(_AGENT_SOCKET, ""))
    hidden += [each for each in _listening() if each not in agents]
    shown = [_RUN / name for name in _SYSTEM_IN_RUN]
    if network:
        shown += [*(_RUN / "systemd" / name for name in _NAMES_OF_HOSTS), *agents]
    else:
        hidden += agents
    return hidden, shown


def _listening() -> Iterator[Path]:
    """Sockets of the user's programs in the places where those put them."""
    patterns = [(home, each) for home in _home() for each in _HOME_SOCKETS]
    with suppress(OSError), os.scandir(SYSTEM_TMP) as entries:
        begun = [each.name for each in islice(entries, _MOST_IN_TMP) if each.name.startswith(_IN_TMP)]
        patterns += [(SYSTEM_TMP / name, each) for name in begun for each in ("", "*", "*/*")]
    for folder, pattern in patterns:
        with suppress(OSError):  # some of it may be closed to us, and then it is to commands
            found = islice(folder.glob(pattern) if pattern else iter((folder,)), _MOST_SOCKETS)
            yield from [each for each in found if stat.S_ISSOCK(file_mode(each))]


def _sockets(value: str) -> Sequence[Path]:
    """The path in a variable such as `unix:path=/a,guid=1`, `unix:///a` or `/a,12,0`."""
    for beginning in ("unix:path=", "unix://"):
        value = value.removeprefix(beginning)
    path = Path(value.partition(",")[0])
    return [path] if path.is_absolute() and stat.S_ISSOCK(file_mode(path)) else []
