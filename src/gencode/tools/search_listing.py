"""Search results as a page of lines: which may be shown, and how they are written."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.core.spec import Workspace
from gencode.permissions.paths import Resolved
from gencode.tools.file_search import SECONDS, SearchEnd, Searcher, find, find_in_order
from gencode.tools.files import is_folder, open_file, open_folder, relative
from gencode.tools.ignore_files import outer_rules, outermost_folder
from gencode.tools.output_page import OutputPage
from gencode.tools.search_records import FileSearch, SearchMatch

_BREATH = 200
"""Files that are judged in one go before others get a turn on the loop."""


class SearchRoot(NamedTuple):
    """A file or folder to search: `start` below `base`, and the ignore rules above it."""

    base: str
    start: str
    outer: str
    is_file: bool

    @property
    def path(self) -> str:
        """The file or folder itself."""
        return self.base if self.start == "." else self.absolute(os.fsencode(self.start))

    def absolute(self, found: bytes) -> str:
        """The path of something that was found."""
        return f"{self.base.rstrip('/')}/{os.fsdecode(found)}"

    def inside(self, found: bytes) -> str:
        """The same, seen from the folder that is searched."""
        name = os.fsdecode(found)
        return name if self.start == "." else name.removeprefix(f"{self.start}/")


def search_root(workspace: Workspace, resolved: Resolved) -> SearchRoot:
    """Where a search in a judged file or folder starts.

    A race remains: the searcher opens by path once more, so a folder that is swapped for a link at that
    moment leads it elsewhere. Links below the start are not followed, and where contents are shown every
    file that was found is checked on its own (`may_read`).
    """
    path = resolved.real
    shown = relative(workspace, path)
    if not is_folder(resolved):
        open_file(resolved, shown).close()
        folder, name = os.path.split(path)
        return SearchRoot(folder, name, "", is_file=True)
    os.close(open_folder(resolved, shown))
    if not os.access(path, os.X_OK):
        raise ToolError(f"{shown} may not be read: the system refuses it (permission denied).")
    base = outermost_folder(path, os.path.realpath(workspace.root))
    return SearchRoot(base, str(Path(path).relative_to(base)), outer_rules(base, path), is_file=False)


class SearchListing(Struct, eq=False):
    """Writes search matches on a page in order, without those that may not be read."""

    page: OutputPage
    write: Callable[[SearchMatch], str]
    wanted: Callable[[bytes], bool] = lambda _: True
    allowed: Callable[[bytes], bool] = lambda _: True
    parted: bool = False
    heading: Callable[[bytes], str] | None = None
    """Names a file once above its matches; without it each match is written alone."""
    more: int | None = 0
    ended: SearchEnd = SearchEnd()
    _last: SearchMatch | None = None
    _headed: bytes | None = None
    _judged: tuple[bytes, bool] = (b"", False)

    async def fill(self, searcher: Searcher, search: FileSearch) -> None:
        """Search, and once more in order when there is too much to sort."""
        findings = await find(searcher, search, self.wanted)
        self.ended = findings.ended
        if findings.some:
            self.ended = await find_in_order(searcher, search, self._take)
            return
        for count, (path, hits) in enumerate(findings.files.items(), 1):
            if self.allowed(path):
                for hit in hits:
                    self._offer(hit)
            if count % _BREATH == 0:
                await asyncio.sleep(0)

    def text(self, nothing: str, *notes: str) -> str:
        """The page, or a sentence when there is nothing on it."""
        if self.ended.timed_out:
            notes += (f"the search timed out after {SECONDS:.0f} seconds; search a smaller folder",)
        return self.page.text(self.more, nothing, *notes)

    def _take(self, hit: SearchMatch) -> bool:
        if hit.path != self._judged[0]:
            self._judged = (hit.path, self.wanted(hit.path) and self.allowed(hit.path))
        if self._judged[1] and not self._offer(hit):
            self.more = None
            return False
        return True

    def _offer(self, hit: SearchMatch) -> bool:
        last, self._last = self._last, hit
        if self.page.skips():
            return True
        apart = last is None or (hit.path, hit.number) != (last.path, last.number + 1)
        line, between = self.write(hit), "--" if self.parted and apart else ""
        if self.heading is not None and hit.path != self._headed:
            above, self._headed = "" if self._headed is None else "\n", hit.path
            line, between = f"{above}{self.heading(hit.path)}\n{line}", ""
        if self.page.full or not self.page.add(line, between):
            self.more = (self.more or 0) + 1
            return False
        return True
