"""Pictures of programs in a terminal: tmux runs them, and what it shows becomes an SVG, also a moving one."""

import hashlib
import html
import itertools
import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.style import Style
from rich.text import Text

SECONDS = 60.0
WIDE, HIGH, FONT = 8.4, 18.0, 14
MARGIN, TITLE = 14, 34
GROUND, INK = "#121212", "#e0e0e0"


class Terminal:
    """tmux with a program in it."""

    def __init__(
        self, folder: Path, command: Sequence[str], env: dict[str, str], size: tuple[int, int]
    ) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
        play = shlex.join(["env", *(f"{name}={value}" for name, value in env.items()), *command])
        measures = ["-x", str(size[0]), "-y", str(size[1])]
        subprocess.run(
            [*self._tmux, "new-session", "-d", *measures, play], cwd=folder / "project", check=True
        )

    def press(self, *keys: str) -> None:
        """Press keys, or type a text."""
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def screen(self, *how: str) -> str:
        """What is seen now; with `-e` in its colours."""
        command = [*self._tmux, "capture-pane", "-N", "-p", *how]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def wait(self, *texts: str) -> None:
        """Wait until all of these are seen."""
        end = time.monotonic() + SECONDS
        while not all(text in self.screen() for text in texts):
            if time.monotonic() > end:
                raise SystemExit(f"{texts} did not come; the screen was:\n{self.screen()}")
            time.sleep(0.1)

    def close(self) -> None:
        """End everything."""
        subprocess.run([*self._tmux, "kill-server"], check=False)


class Frame(NamedTuple):
    """What is seen from a moment on, with colours."""

    at: float
    screen: str


def moving_picture(frames: Sequence[Frame], size: tuple[int, int], title: str, holds: float = 4.0) -> str:
    """An SVG that plays frames again and again; a line that stays as it is is drawn once."""
    length = frames[-1].at + holds
    wide, high = size[0] * WIDE + 2 * MARGIN, size[1] * HIGH + TITLE + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" role="img">',
        f"<title>{html.escape(title)}</title>",
        "<style>",
        f"text {{ font: {FONT}px ui-monospace, 'DejaVu Sans Mono', monospace; white-space: pre; }}",
    ]
    spans = [span for row in range(size[1]) for span in shown_spans(frames, row, length)]
    times = {(begin, end) for _, begin, end, _ in spans if (begin, end) != (0.0, length)}
    for begin, end in sorted(times):
        name = time_name(begin, end)
        lines.append(f".{name} {{ opacity: 0; animation: {name} {length:.2f}s step-end infinite; }}")
        lines.append(f"@keyframes {name} {{ {keyframes(begin / length, end / length)} }}")
    # Who wants no movement sees the last screen.
    lines.append("@media (prefers-reduced-motion: reduce) { g g { animation: none !important; } }")
    lines += [
        f"{', '.join(f'.{time_name(begin, end)}' for begin, end in sorted(times) if end >= length) or '.none'} "
        "{ opacity: 1; }",
        "</style>",
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
        *(f'<circle cx="{20 + 18 * place}" cy="17" r="5.5" fill="#444"/>' for place in range(3)),
        f'<text x="{wide / 2:.0f}" y="22" text-anchor="middle" fill="#888">{html.escape(title)}</text>',
        f'<g fill="{INK}">',
    ]
    for row, begin, end, text in spans:
        drawn = drawn_line(text, row)
        if drawn:
            name = "" if (begin, end) == (0.0, length) else f' class="{time_name(begin, end)}"'
            lines.append(f"<g{name}>{drawn}</g>")
    return "\n".join([*lines, "</g></svg>\n"])


def shown_spans(frames: Sequence[Frame], row: int, length: float) -> list[tuple[int, float, float, str]]:
    """How long each content of a row is seen."""
    found: list[tuple[int, float, float, str]] = []
    for frame, after in zip(frames, [*(each.at for each in frames[1:]), length], strict=True):
        rows = frame.screen.split("\n")
        text = rows[row] if row < len(rows) else ""
        if found and found[-1][3] == text:
            found[-1] = (row, found[-1][1], after, text)
        else:
            found.append((row, frame.at, after, text))
    return found


def time_name(begin: float, end: float) -> str:
    """A name for what is seen from one moment to another."""
    return "t" + hashlib.sha256(f"{begin:.3f} {end:.3f}".encode()).hexdigest()[:6]


def keyframes(begin: float, end: float) -> str:
    """Seen in a part of the time, and not in the others."""
    before = "0% { opacity: 0 } " if begin > 0 else ""
    after = f" {end * 100:.3f}% {{ opacity: 0 }}" if end < 1 else ""
    return f"{before}{begin * 100:.3f}% {{ opacity: 1 }}{after}"


def drawn_line(line: str, row: int) -> str:
    """One row: the grounds of its parts, then the parts."""
    text = Text.from_ansi(line)
    parts: list[str] = []
    column = 0
    top = TITLE + row * HIGH
    for content, style in styled_parts(text):
        width = cell_len(content)
        ink, ground = colour(style.color), colour(style.bgcolor)
        if style.reverse:
            ink, ground = ground or GROUND, ink or INK
        x = MARGIN + column * WIDE
        if ground and ground != GROUND:
            parts.append(
                f'<rect x="{x:.1f}" y="{top:.0f}" width="{width * WIDE:.1f}" height="{HIGH:.0f}" fill="{ground}"/>'
            )
        if content.strip():
            bold = ' font-weight="bold"' if style.bold else ""
            fill = f' fill="{ink}"' if ink and ink != INK else ""
            shown = content.rstrip()
            parts.append(
                f'<text x="{x:.1f}" y="{top + 13.5:.1f}" textLength="{cell_len(shown) * WIDE:.1f}"{fill}{bold}'
                f' xml:space="preserve">{html.escape(shown)}</text>'
            )
        column += width
    return "".join(parts)


def styled_parts(text: Text) -> list[tuple[str, Style]]:
    """The parts of a line that look the same."""
    marks = sorted({0, len(text), *(each.start for each in text.spans), *(each.end for each in text.spans)})
    found: list[tuple[str, Style]] = []
    for begin, end in itertools.pairwise(marks):
        styles = [
            each.style if isinstance(each.style, Style) else Style.parse(each.style)
            for each in text.spans
            if each.start <= begin and end <= each.end
        ]
        found.append((text.plain[begin:end], Style.combine([Style.null(), *styles])))
    return found


def colour(given: Color | None) -> str:
    """A colour as SVG writes it; empty for the terminal's own."""
    if given is None or given.is_default:
        return ""
    triplet: ColorTriplet = given.get_truecolor()
    return triplet.hex
