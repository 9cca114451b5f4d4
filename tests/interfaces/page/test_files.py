"""The files of the page: all of them used, and without what could make a text act."""

import re
from pathlib import Path

from tests.interfaces.page.static_files import STATIC

ACTS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|document\.write|\beval\b"
    r"|new Function|setHTML|srcdoc=|javascript:|\bstyle=|\son[a-z]+="
)


def files() -> dict[str, str]:
    found = [path for path in sorted(STATIC.rglob("*")) if path.is_file()]
    return {path.relative_to(STATIC).as_posix(): path.read_text("utf-8") for path in found}


def test_nothing_makes_elements_or_code_of_a_text() -> None:
    assert [name for name, text in files().items() if ACTS.search(text)] == []


def test_every_file_is_part_of_the_page() -> None:
    texts = files()
    seen: set[str] = set()
    waiting = ["index.html"]
    while waiting:
        name = waiting.pop()
        seen.add(name)
        folder = Path(name).parent
        named = re.findall(r'(?:from|import) "\./([\w./-]+)"', texts[name])
        found = {(folder / each).as_posix() for each in named}
        found.update(re.findall(r'="/static/([\w./-]+)"', texts[name]))
        waiting += found - seen
    assert seen == set(texts)
