"""How long hostile web pages take, and how much memory: each 5 MB large, each in a process of its own.

    python bench/pages.py [READER]

Without a reader, pages become Markdown as WebFetch does it; the exit code is 1 when a limit is missed.
Readers that were tried: tokens (turbohtml's tokenizer alone), tree (its tree), selectolax, lxml, justhtml.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module

SIZE = 5_000_000
MOST_SECONDS, MOST_MIB = 2.0, 512
PATIENCE = 20
ADDRESS_SPACE = 6 << 30


def repeated(piece: str) -> str:
    """A page that is one piece again and again."""
    return piece * (SIZE // len(piece))


def numbered(piece: str) -> str:
    """The same, with a number in each piece."""
    return "".join(piece.format(number) for number in range(SIZE // (len(piece) + 5)))


PAGES: dict[str, Callable[[], str]] = {
    "as people write them": lambda: repeated(
        '<div class="x"><p>Some <b>text</b>, <a href="/x">a link</a></p></div>\n'
    ),
    "nested <div>": lambda: repeated("<div>"),
    "nested <b>": lambda: repeated("<b>"),
    "nested <ul><li>": lambda: repeated("<ul><li>"),
    "nested tables": lambda: repeated("<table><tr><td>"),
    "nested quotes": lambda: repeated("<blockquote>x"),
    "nested and closed": lambda: "<div>" * (SIZE // 11) + "</div>" * (SIZE // 11),
    "closed by a wrong tag": lambda: "<div>" * (SIZE // 12) + "</span>" * (SIZE // 12),
    "only <": lambda: repeated("<"),
    "only &": lambda: repeated("&"),
    "comments": lambda: repeated("<!--"),
    "a million attributes": lambda: f"<a {' '.join(f'a{number}' for number in range(SIZE // 8))}>x",
    "attributes of <html>": lambda: numbered("<html a{}=1>"),
    "open quote": lambda: repeated("<a b='"),
    "links in links": lambda: repeated("<a href=x>y"),
    "fonts and paragraphs": lambda: numbered("<font color=c{}><p>"),
    "misnested marks": lambda: repeated("<b><p></b></p>"),
    "marks and headings": lambda: repeated("<i><h1>"),
    "text between cells": lambda: "<table>" + repeated("x<b>"),
    "open paragraphs": lambda: repeated("<p><b>x"),
}


def readers() -> dict[str, Callable[[str], object]]:
    """Everything that can read a page. What is not GenCode's is imported only when it is asked for."""

    def gencode(page: str) -> object:
        from gencode.tools.web_page import markdown_of

        return markdown_of(page, "https://example.net/", lambda: False)

    return {
        "gencode": gencode,
        "tokens": lambda page: sum(1 for _ in import_module("turbohtml").tokenize(page)),
        "tree": lambda page: import_module("turbohtml").parse(page),
        "selectolax": lambda page: import_module("selectolax.lexbor").LexborHTMLParser(page),
        "lxml": lambda page: import_module("lxml.html").document_fromstring(page),
        "justhtml": lambda page: import_module("justhtml").JustHTML(page),
    }


def read_one(reader: str, name: str) -> None:
    """In the child process: processor seconds and MiB for one page."""
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    read = readers()[reader]
    read("<p>warm")
    page = PAGES[name]()
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    found = read(page)
    seconds = time.process_time() - began
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    del found
    print(seconds, more // 1024)


def main(reader: str = "gencode") -> int:
    """Every page, a row each."""
    missed = 0
    print(f"{'page of 5 MB':24} {'CPU seconds':>12} {'MiB':>6}")
    for name in PAGES:
        child = subprocess.run(
            [sys.executable, __file__, reader, name], capture_output=True, text=True, check=False
        )
        if child.returncode:
            print(f"{name:24} {'failed' if child.returncode > 0 else f'over {PATIENCE}':>12}", flush=True)
            missed += 1
            continue
        seconds, size = (float(each) for each in child.stdout.split())
        late = seconds > MOST_SECONDS or size > MOST_MIB
        missed += late
        print(f"{name:24} {seconds:12.2f} {size:6.0f}{'  MISSED' if late else ''}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        read_one(*sys.argv[1:3])
    else:
        sys.exit(main(*sys.argv[1:]))
