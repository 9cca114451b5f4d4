"""Files opened and replaced where they were judged: no link is followed, nothing is half written."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.races import SWAPS, race
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencode.core.errors import ToolError
from gencode.core.spec import Workspace
from gencode.files.safe_files import (
    MOST_NEW_FOLDERS,
    FileChanged,
    FileIdentity,
    PathMissing,
    identity_of,
    open_folder,
    open_for_reading,
    replace_file,
)
from gencode.permissions import whole_files
from gencode.permissions.paths import Resolved, resolve

RACES = int(os.environ.get("GEN_RACES", "300"))
CHANGED = "changed while it was being opened; try again"
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    (folder.parent / "outside").mkdir()
    (folder.parent / "outside" / "f").write_text("not ours")
    return folder


def judged(ws: Path, path: str) -> Resolved:
    return resolve(path, Workspace(ws, ws, ws.parent / "home"))


def read(resolved: Resolved) -> bytes:
    with open_for_reading(resolved) as file:
        return file.read()


def replace(resolved: Resolved) -> FileIdentity:
    return replace_file(resolved, b"new")


def look(resolved: Resolved) -> None:
    os.close(open_folder(resolved))


def tree(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with what it holds, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_a_judged_file_is_read(ws: Path) -> None:
    (ws / "a").mkdir()
    (ws / "a" / "f").write_text("text")
    (ws / "link").symlink_to("a")
    assert (read(judged(ws, "a/f")), read(judged(ws, "link/f"))) == (b"text", b"text")


def test_a_judged_folder_is_opened_for_listing(ws: Path) -> None:
    (ws / "a" / "b").mkdir(parents=True)
    for path, inside in (("a", ["b"]), (".", ["a"]), ("a/b/", [])):
        handle = open_folder(judged(ws, path))
        try:
            with os.scandir(handle) as entries:
                assert [entry.name for entry in entries] == inside
        finally:
            os.close(handle)
    root = open_folder(judged(ws, "/"))
    os.close(root)
    assert root > 0


def test_the_rights_to_read_a_folder_on_the_way_are_not_needed(ws: Path) -> None:
    (ws / "a").mkdir()
    (ws / "a" / "f").write_text("text")
    (ws / "a").chmod(0o311)
    found = judged(ws, "a/f")
    replace_file(found, b"new")
    assert read(found) == b"new"
    (ws / "a").chmod(0o755)


@pytest.mark.parametrize("path", ["missing", "a/missing", "missing/f"])
def test_what_is_not_there_is_told(ws: Path, path: str) -> None:
    (ws / "a").mkdir()
    with pytest.raises(PathMissing, match=f"^{path} does not exist; find it with Glob first.$"):
        open_for_reading(judged(ws, path))
    with pytest.raises(PathMissing):
        open_folder(judged(ws, path))


def test_a_file_in_the_place_of_a_folder_is_told(ws: Path) -> None:
    (ws / "a").write_text("")
    for act in (open_for_reading, replace):
        with pytest.raises(PathMissing, match=r"^a/f is not there: 'a' is a file, not a folder\.$"):
            act(judged(ws, "a/f"))
    with pytest.raises(PathMissing):
        open_folder(judged(ws, "a"))


@pytest.mark.parametrize("path", ["a", "/"])
def test_a_folder_is_no_file(ws: Path, path: str) -> None:
    (ws / "a").mkdir()
    for act in (open_for_reading, replace):
        with pytest.raises(ToolError, match=f"^{path} is a folder, not a file.$"):
            act(judged(ws, path))


def test_what_was_refused_or_has_two_meanings_is_never_opened(ws: Path) -> None:
    (ws / "deep" / "er").mkdir(parents=True)
    (ws / "link").symlink_to("deep/er")
    (ws / "f").write_text("one")
    (ws / "deep" / "f").write_text("other")
    os.mkfifo(ws / "pipe")
    for path in ("~bob/x", "http://x", "", "link/../f", "pipe"):
        for act in (open_for_reading, open_folder, replace):
            with pytest.raises(ToolError):
                act(judged(ws, path))
    with pytest.raises(ToolError, match="it was not judged"):
        open_for_reading(Resolved("f"))


def swap_folder(ws: Path) -> None:
    (ws / "a").rename(ws / "aside")
    (ws / "a").symlink_to(ws.parent / "outside")


def swap_file(ws: Path) -> None:
    (ws / "a" / "f").unlink()
    (ws / "a" / "f").symlink_to(ws.parent / "outside" / "f")


def swap_for_hard_link(ws: Path) -> None:
    (ws / "a" / "f").unlink()
    (ws / "a" / "f").hardlink_to(ws.parent / "outside" / "f")


def swap_for_pipe(ws: Path) -> None:
    (ws / "a" / "f").unlink()
    os.mkfifo(ws / "a" / "f")


@pytest.mark.parametrize("swap", [swap_folder, swap_file, swap_for_hard_link, swap_for_pipe])
@pytest.mark.parametrize("there", [True, False])
def test_what_was_swapped_after_it_was_judged_is_not_opened(
    ws: Path, swap: Callable[[Path], None], there: bool
) -> None:
    (ws / "a").mkdir()
    (ws / "a" / "f").write_text("ours")
    found = judged(ws, "a/f")
    if not there:
        (ws / "a" / "f").unlink()
        found = judged(ws, "a/f")
        (ws / "a" / "f").write_text("")
    swap(ws)
    before = tree(ws.parent / "outside")
    with pytest.raises(ToolError, match=f"^a/f {CHANGED}"):
        open_for_reading(found)
    with pytest.raises(ToolError, match=f"^a/f {CHANGED}"):
        replace_file(found, b"new")
    if swap is swap_folder:
        with pytest.raises(ToolError, match=f"^a {CHANGED}"):
            open_folder(Resolved("a", str(ws / "a"), str(ws / "a")))
    assert (tree(ws.parent / "outside"), before) == ({"f": b"not ours"}, {"f": b"not ours"})


def test_a_missing_folder_that_becomes_a_link_is_not_written_into(ws: Path) -> None:
    found = judged(ws, "new/er/f")
    (ws / "new").symlink_to(ws.parent / "outside")
    with pytest.raises(ToolError, match=CHANGED):
        replace_file(found, b"x")
    assert tree(ws.parent / "outside") == {"f": b"not ours"}


@pytest.mark.parametrize("kind", SWAPS)
def test_no_race_ends_outside(tmp_path: Path, kind: str) -> None:
    counts = [race(kind, deed, RACES, tmp_path / deed) for deed in ("read", "replace")]
    assert [(each.total(), each["outside"]) for each in counts] == [(RACES, 0), (RACES, 0)]


def test_a_new_file_is_written_with_its_folders(ws: Path) -> None:
    found = judged(ws, "new/er/f")
    identity = replace_file(found, b"text", expected="absent")
    assert tree(ws) == {"new": None, "new/er": None, "new/er/f": b"text"}
    with open_for_reading(judged(ws, "new/er/f")) as file:
        assert identity_of(file) == identity
    status = (ws / "new" / "er" / "f").stat()
    assert identity == FileIdentity(status.st_dev, status.st_ino, status.st_mtime_ns, 4, status.st_ctime_ns)


def test_a_new_file_has_the_rights_that_any_new_file_has(ws: Path) -> None:
    (ws / "plain").write_text("")
    replace_file(judged(ws, "ours"), b"")
    assert (ws / "ours").stat().st_mode == (ws / "plain").stat().st_mode


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o666])
def test_a_replaced_file_keeps_its_rights(ws: Path, mode: int) -> None:
    (ws / "f").write_text("old")
    (ws / "f").chmod(mode)
    replace_file(judged(ws, "f"), b"new")
    assert (stat.S_IMODE((ws / "f").stat().st_mode), (ws / "f").read_text()) == (mode, "new")


def test_new_content_does_not_run_as_somebody_else(ws: Path) -> None:
    (ws / "f").write_text("old")
    (ws / "f").chmod(0o4755)
    replace_file(judged(ws, "f"), b"new")
    assert stat.S_IMODE((ws / "f").stat().st_mode) == 0o755


@pytest.mark.skipif(not AS_ROOT, reason="only root may give a file away")
def test_a_replaced_file_keeps_its_owner(ws: Path) -> None:
    (ws / "f").write_text("old")
    os.chown(ws / "f", 12_345, 54_321)
    replace_file(judged(ws, "f"), b"new")
    status = (ws / "f").stat()
    assert (status.st_uid, status.st_gid) == (12_345, 54_321)


@pytest.mark.skipif(AS_ROOT, reason="root may write everything")
def test_a_file_that_may_not_be_written_is_not_replaced_either(ws: Path) -> None:
    (ws / "f").write_text("old")
    (ws / "f").chmod(0o444)
    with pytest.raises(ToolError, match=r"^f may not be changed: the system refuses it \(Perm"):
        replace_file(judged(ws, "f"), b"new")
    assert tree(ws) == {"f": b"old"}


def test_a_file_with_a_second_name_that_was_judged_so_is_replaced_under_this_name_only(ws: Path) -> None:
    (ws / "one").write_text("old")
    (ws / "two").hardlink_to(ws / "one")
    replace_file(judged(ws, "one"), b"new")
    assert tree(ws) == {"one": b"new", "two": b"old"}


def test_a_file_that_changed_since_it_was_read_is_not_replaced(ws: Path) -> None:
    (ws / "f").write_text("old")
    with open_for_reading(judged(ws, "f")) as file:
        read_as = identity_of(file)
    (ws / "f").write_text("changed by the user")
    with pytest.raises(ToolError, match="^f changed since it was read; read it again first.$"):
        replace_file(judged(ws, "f"), b"new", expected=read_as)
    with pytest.raises(ToolError, match="^f exists already; read it first, then change it.$"):
        replace_file(judged(ws, "f"), b"new", expected="absent")
    assert tree(ws) == {"f": b"changed by the user"}
    (ws / "f").unlink()
    with pytest.raises(ToolError, match="^f was deleted since it was read; look for it with Glob.$"):
        replace_file(judged(ws, "f"), b"new", expected=read_as)
    assert tree(ws) == {}


def test_the_identity_that_writing_gives_is_good_for_the_next_write(ws: Path) -> None:
    first = replace_file(judged(ws, "f"), b"one", expected="absent")
    second = replace_file(judged(ws, "f"), b"two", expected=first)
    assert (first == second, tree(ws)) == (False, {"f": b"two"})


def test_a_full_disk_leaves_everything_as_it_was(ws: Path) -> None:
    """A limit on the size of files stands for the full disk: the write ends in the middle."""
    import resource

    (ws / "f").write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        with pytest.raises(
            ToolError, match=r"^There is no room for f on the disk \(File too large\); nothing"
        ):
            replace_file(judged(ws, "f"), bytes(10_000))
        with pytest.raises(ToolError, match="There is no room"):
            replace_file(judged(ws, "new/er/f"), bytes(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert tree(ws) == {"f": b"old"}


WRITES_TOO_MUCH = """
import resource, signal, sys
from pathlib import Path
from gencode.core.spec import Workspace
from gencode.files.safe_files import replace_file
from gencode.permissions.paths import resolve

ws = Path(sys.argv[1])
# The system ends a process that writes a larger file, as suddenly as kill -9 does.
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, 4_096))
replace_file(resolve(sys.argv[2], Workspace(ws, ws, ws.parent)), bytes(10_000))
"""


@pytest.mark.parametrize("name", ["f", "new"])
def test_a_process_that_is_killed_while_it_writes_leaves_nothing_behind(ws: Path, name: str) -> None:
    (ws / "f").write_text("old")
    ended = subprocess.run([sys.executable, "-c", WRITES_TOO_MUCH, ws, name], check=False)
    assert (ended.returncode, tree(ws)) == (-signal.SIGXFSZ, {"f": b"old"})


def test_where_every_file_has_a_name_from_the_beginning_it_is_replaced_too(
    ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_files, "_UNNAMED", 0)  # as where the system knows no other
    for content in (b"one", b"two"):
        replace_file(judged(ws, "f"), content)
    with pytest.raises(FileChanged):
        replace_file(judged(ws, "f"), b"three", expected="absent")
    assert tree(ws) == {"f": b"two"}


def test_a_path_through_very_many_missing_folders_is_not_made(ws: Path) -> None:
    deep = "/".join(["d"] * (MOST_NEW_FOLDERS + 1))
    with pytest.raises(ToolError, match="More than 64 folders on the way are missing"):
        replace_file(judged(ws, f"{deep}/f"), b"")
    assert tree(ws) == {}
    replace_file(judged(ws, f"{deep[2:]}/f"), b"")
    assert (ws / deep[2:] / "f").read_bytes() == b""


def test_a_name_that_is_too_long_is_told_and_leaves_nothing(ws: Path) -> None:
    with pytest.raises(ToolError, match="cannot be changed: File name too long"):
        replace_file(judged(ws, "new/" + "x" * 300), b"")
    assert tree(ws) == {}
    replace_file(judged(ws, "y" * 255), b"longest")
    assert tree(ws) == {"y" * 255: b"longest"}


def test_a_reader_sees_the_old_file_or_the_new_one_and_never_a_part(ws: Path) -> None:
    contents = [bytes([number]) * 100_000 for number in range(20)]
    replace_file(judged(ws, "f"), contents[0])
    done = threading.Event()
    seen: set[bytes] = set()

    def watch() -> None:
        while not done.is_set():
            seen.add((ws / "f").read_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for content in contents:
            replace_file(judged(ws, "f"), content)
    finally:
        done.set()
        watcher.join()
    assert seen <= set(contents)


def test_no_handle_is_left_open(ws: Path) -> None:
    (ws / "a").mkdir()
    (ws / "a" / "f").write_text("text")
    free = os.open("/", os.O_RDONLY)
    os.close(free)
    for path in ("a/f", "a", "missing/f", "a/f/g", "new/f"):
        for act in (read, look, replace):
            try:
                act(judged(ws, path))
            except ToolError:
                continue
    again = os.open("/", os.O_RDONLY)
    os.close(again)
    assert again == free


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.binary(max_size=5_000), st.binary(max_size=5_000))
def test_what_was_written_is_what_is_read(ws: Path, first: bytes, second: bytes) -> None:
    for content in (first, second):
        replace_file(judged(ws, "a/f"), content)
        assert read(judged(ws, "a/f")) == content
    assert list(tree(ws)) == ["a", "a/f"]
