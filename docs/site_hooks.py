"""Hooks of MkDocs: files of the repository outside of docs/ that pages link to become pages of the site."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "AGENTS.md": "project/house-rules.md",
    "SECURITY.md": "project/security.md",
    "bench/README.md": "project/bench.md",
}
"""Documents of the repository, and where the site has them."""
SHOWN = ("examples/", "bench/", "packaging/", "src/", "tests/")
"""Folders whose files pages may link to; they are shown as they are."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents of the repository."""
    for source, place in PAGES.items():
        if (ROOT / source).exists():
            files.append(File.generated(config, place, content=(ROOT / source).read_text("utf-8")))
    for source in linked():
        files.append(
            File.generated(config, f"source/{source}.txt", content=(ROOT / source).read_text("utf-8"))
        )
    return files


def linked() -> list[str]:
    """The files of the repository that pages link to and that are no pages."""
    found: set[str] = set()
    for page in [*(ROOT / "docs").rglob("*.md"), *(ROOT / source for source in PAGES)]:
        if page.exists():
            for match in LINK.finditer(page.read_text("utf-8")):
                source = posixpath.normpath(
                    posixpath.join(page.relative_to(ROOT).parent.as_posix(), match[1])
                )
                if source.startswith(SHOWN) and source not in PAGES and (ROOT / source).is_file():
                    found.add(source)
    return sorted(found)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links at where the site has their targets."""
    place = page.file.src_uri
    homes = {after: before for before, after in PAGES.items()}
    source = homes.get(place, f"docs/{place}")

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        if target in PAGES:
            there = PAGES[target]
        elif target.startswith("docs/"):
            there = target.removeprefix("docs/")
        elif (ROOT / target).is_file():
            there = f"source/{target}.txt"
        else:
            there = match[1]
        return posixpath.relpath(there, posixpath.dirname(place) or ".") + (match[2] or "")

    return LINK.sub(moved, markdown)
