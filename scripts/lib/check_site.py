"""Fails when a page of the built site asks another host for anything: check_site.py FOLDER."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")
ELSEWHERE = re.compile(r"(?:https?:)?//")


class Requests(HTMLParser):
    """The addresses that a browser asks for by itself when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one element."""
        given = {name: value or "" for name, value in attrs}
        wanted = given.get(LOADED.get(tag, ""), "")
        if tag == "link" and given.get("rel") not in ("canonical", "alternate", "edit"):
            wanted = given.get("href", "")
        for address in (wanted, *STYLE.findall(given.get("style", ""))):
            if ELSEWHERE.match(address):
                self.found.append(address)


def requests(file: Path) -> list[str]:
    """What a file of the site would ask other hosts for."""
    text = file.read_text("utf-8")
    if file.suffix == ".css":
        return STYLE.findall(text)
    page = Requests()
    page.feed(text)
    return page.found


def main() -> int:
    """Look through the whole site."""
    site = Path(sys.argv[1])
    files = sorted(file for kind in ("html", "css", "svg") for file in site.rglob(f"*.{kind}"))
    found = [f"{file.relative_to(site)}: {address}" for file in files for address in requests(file)]
    print("\n".join(found) or f"docs: {len(files)} files, no request to another host", file=sys.stderr)
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
