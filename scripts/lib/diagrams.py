"""Draws the pictures of docs/explanation as SVG: boxes on a grid, and arrows between them.

python scripts/lib/diagrams.py [--check]
"""

import argparse
import html
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
UNIT = 20
KINDS = {
    "plain": ("#ffffff", "#455a64"),
    "agent": ("#e0f2f1", "#00796b"),
    "store": ("#fff8e1", "#b28704"),
    "person": ("#e3f2fd", "#1565c0"),
    "stop": ("#ffebee", "#b71c1c"),
    "frame": ("none", "#90a4ae"),
}


class Box(NamedTuple):
    """A box: its place and size in units, its lines (the first one bold), and what it stands for."""

    x: float
    y: float
    wide: float
    high: float
    text: str
    kind: str = "plain"


class Arrow(NamedTuple):
    """From one box to another, with a word beside it; `back` draws it dashed."""

    start: str
    end: str
    text: str = ""
    back: bool = False


class Diagram(NamedTuple):
    """A picture: what it shows in one sentence, its size in units, its boxes and arrows."""

    title: str
    size: tuple[float, float]
    boxes: dict[str, Box]
    arrows: tuple[Arrow, ...]


DIAGRAMS = {
    "delegation": Diagram(
        "A conversation starts two subagents; each has its own context, tools, policy and account; reports "
        "with receipts come back",
        (46, 21),
        {
            "you": Box(1, 8.5, 6, 3, "You", "person"),
            "main": Box(12, 7, 11, 6, "Main agent\ncontext of the conversation", "agent"),
            "one": Box(
                30, 1, 14, 7, "Subagent: Explore\nempty context\ntools: Read, Grep\npolicy: plan", "agent"
            ),
            "two": Box(
                30,
                12,
                14,
                7,
                "Subagent: bug-fixer\nempty context\nworktree of its own\npolicy: edits",
                "agent",
            ),
        },
        (
            Arrow("you", "main", "prompt"),
            Arrow("main", "one", "Task(prompt)"),
            Arrow("one", "main", "", back=True),
            Arrow("main", "two", "Task(prompt)"),
            Arrow("two", "main", "report + receipt", back=True),
        ),
    ),
    "loop": Diagram(
        "The loop: take what is in the inbox, ask the model, judge its calls, run them, write the results",
        (46, 15),
        {
            "inbox": Box(1, 2, 9, 4, "Inbox\nmessages, results", "store"),
            "model": Box(14, 2, 9, 4, "Model\none reply", "plain"),
            "gate": Box(27, 2, 8, 4, "Gate\njudges each call", "stop"),
            "tools": Box(38, 2, 7, 4, "Tools\nrun", "agent"),
            "journal": Box(14, 10, 21, 4, "Journal\nreply and decisions before, results after", "store"),
        },
        (
            Arrow("inbox", "model", "turn"),
            Arrow("model", "gate", "calls"),
            Arrow("gate", "tools", ""),
            Arrow("tools", "journal", "results"),
            Arrow("model", "journal", "reply"),
            Arrow("journal", "inbox", "next turn", back=True),
        ),
    ),
    "permissions": Diagram(
        "A command line is taken apart; every policy from the session to the agent decides about every part; "
        "the strictest decision wins",
        (46, 17),
        {
            "call": Box(1, 6, 10, 4, "Bash\nmake && git push", "agent"),
            "one": Box(15, 2, 7, 3.4, "make"),
            "two": Box(15, 11, 7, 3.4, "git push"),
            "session": Box(26, 1.5, 9, 3.6, "Session\nyour rules", "person"),
            "parent": Box(26, 6.5, 9, 3.6, "Parent agent\nits file", "agent"),
            "child": Box(26, 11.5, 9, 3.6, "This agent\nits file", "agent"),
            "end": Box(38, 6, 7, 4.6, "Strictest\ndeny > ask\n> allow", "stop"),
        },
        (
            Arrow("call", "one"),
            Arrow("call", "two"),
            Arrow("one", "session"),
            Arrow("one", "parent"),
            Arrow("two", "parent"),
            Arrow("two", "child"),
            Arrow("session", "end"),
            Arrow("parent", "end"),
            Arrow("child", "end"),
        ),
    ),
    "journal": Diagram(
        "One process holds the lease of a task and appends events; everybody else reads; a task is the fold of "
        "its events",
        (46, 17),
        {
            "writer": Box(1, 2, 10, 4, "Process A\nholds the lease", "agent"),
            "other": Box(1, 11, 10, 4, "Process B\nlease has expired", "stop"),
            "events": Box(
                16,
                2,
                13,
                13,
                "Events of one task\n1 TaskCreated\n2 TaskStarted\n3 MessageAdded\n4 CallDecided\n5 TaskEnded",
                "store",
            ),
            "fold": Box(34, 2, 11, 4, "Task\nthe fold of its events"),
            "readers": Box(34, 11, 11, 4, "Readers\napp, page, gen task", "person"),
        },
        (
            Arrow("writer", "events", "append"),
            Arrow("other", "events", "refused", back=True),
            Arrow("events", "fold", "reduce"),
            Arrow("events", "readers", "follow"),
        ),
    ),
    "budgets": Diagram(
        "Before a call every account on the path to the root is checked and a hold is placed, in one "
        "transaction; the reply replaces the hold by its cost",
        (46, 17),
        {
            "agent": Box(1, 5, 9, 4, "Agent\nwants to call", "agent"),
            "own": Box(15, 12, 11, 4, "Account of the agent\nspent + held + need", "store"),
            "root": Box(15, 1, 11, 4, "Account of the conversation\nspent + held + need", "store"),
            "model": Box(37, 5, 8, 4, "Model\none call"),
            "fits": Box(28.6, 5.6, 5.2, 2.8, "fits?", "stop"),
        },
        (
            Arrow("agent", "own", "check"),
            Arrow("agent", "root", "check"),
            Arrow("own", "fits"),
            Arrow("root", "fits"),
            Arrow("fits", "model"),
            Arrow("model", "own", "cost replaces hold", back=True),
        ),
    ),
    "fleet": Diagram(
        "A sender writes a task into the shared journal; the first free worker takes it, works in a copy of the "
        "folder, and hands back the changes, which are merged at home",
        (46, 17),
        {
            "home": Box(1, 6, 10, 5, "Your machine\nfolder, questions", "person"),
            "database": Box(17, 6, 11, 5, "Postgres\njournal, queue,\nleases", "store"),
            "one": Box(34, 1, 11, 5, "Worker 1\ncopy of the folder", "agent"),
            "two": Box(34, 11, 11, 5, "Worker 2\ncopy of the folder", "agent"),
        },
        (
            Arrow("home", "database", "task"),
            Arrow("database", "one", "lease"),
            Arrow("database", "two", "lease"),
            Arrow("one", "database", "", back=True),
            Arrow("database", "home", "changes", back=True),
        ),
    ),
    "rate-limits": Diagram(
        "All agents of a model share one pace: it halves at a refusal, pauses as long as the provider says, and "
        "grows with every answer",
        (46, 11),
        {
            "agents": Box(1, 3, 9, 4.6, "Agents\nof all processes", "agent"),
            "pace": Box(16, 3, 11, 4.6, "Shared pace\nwho may ask, when", "store"),
            "provider": Box(35, 3, 10, 4.6, "Provider"),
        },
        (
            Arrow("agents", "pace", "wait"),
            Arrow("pace", "provider", "request"),
            Arrow("provider", "pace", "", back=True),
        ),
    ),
}


def main() -> int:
    """Write every picture, or say which are stale."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    check: bool = parser.parse_args().check
    stale: list[str] = []
    for name, diagram in DIAGRAMS.items():
        path = FOLDER / f"{name}.svg"
        text = drawn(diagram)
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(path.name)
            if not check:
                path.write_text(text, "utf-8")
    print(
        *(f"{'stale' if check else 'written'}: {name}" for name in stale), sep="\n", file=sys.stderr, end=""
    )
    return 1 if stale and check else 0


def drawn(diagram: Diagram) -> str:
    """A picture as SVG, on a ground of its own, so that it can be read on dark pages too."""
    wide, high = (size * UNIT for size in diagram.size)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} {high:g}" role="img">',
        f"<title>{html.escape(diagram.title)}</title>",
        "<style>text { font: 13px system-ui, sans-serif; fill: #263238; } .b { font-weight: 600; } "
        ".w { font-size: 12px; fill: #546e7a; paint-order: stroke; stroke: #fafafa; stroke-width: 6px; }</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#546e7a"/></marker></defs>',
        f'<rect width="{wide:g}" height="{high:g}" rx="10" fill="#fafafa"/>',
        *(line(diagram.boxes, arrow) for arrow in diagram.arrows),
        *(box(each) for each in diagram.boxes.values()),
        *(word(diagram.boxes, arrow) for arrow in diagram.arrows if arrow.text),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def box(each: Box) -> str:
    """One box with its lines in the middle."""
    ground, edge = KINDS[each.kind]
    x, y, wide, high = (value * UNIT for value in each[:4])
    lines = each.text.split("\n")
    top = y + high / 2 - (len(lines) - 1) * 9 + 4.5
    texts = "".join(
        f'<text x="{x + wide / 2:g}" y="{top + 18 * place:g}" text-anchor="middle"'
        f"{' class=' + chr(34) + 'b' + chr(34) if place == 0 else ''}>{html.escape(text)}</text>"
        for place, text in enumerate(lines)
    )
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="7" fill="{ground}" '
        f'stroke="{edge}" stroke-width="1.5"/>{texts}'
    )


def ends(boxes: dict[str, Box], arrow: Arrow) -> tuple[float, float, float, float]:
    """Where an arrow leaves one box and meets the other: on their edges, a little apart from the way back."""
    one, two = boxes[arrow.start], boxes[arrow.end]
    aside = 0.8 if arrow.back else 0.0
    x1, y1 = one.x + one.wide / 2, one.y + one.high / 2 + aside
    x2, y2 = two.x + two.wide / 2, two.y + two.high / 2 + aside
    ax, ay = edge_point(one, x2 - x1, y2 - y1)
    bx, by = edge_point(two, x1 - x2, y1 - y2)
    return x1 + ax, y1 + ay, x2 + bx, y2 + by


def edge_point(each: Box, dx: float, dy: float) -> tuple[float, float]:
    """From the middle of a box to its edge, in a direction."""
    scale = min(
        each.wide / 2 / abs(dx) if dx else float("inf"),
        (each.high / 2) / abs(dy) if dy else float("inf"),
    )
    return dx * scale, dy * scale


def line(boxes: dict[str, Box], arrow: Arrow) -> str:
    """One arrow."""
    x1, y1, x2, y2 = (value * UNIT for value in ends(boxes, arrow))
    dashes = ' stroke-dasharray="5 4"' if arrow.back else ""
    return (
        f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#546e7a" '
        f'stroke-width="1.4"{dashes} marker-end="url(#a)"/>'
    )


def word(boxes: dict[str, Box], arrow: Arrow) -> str:
    """The word beside an arrow."""
    x1, y1, x2, y2 = (value * UNIT for value in ends(boxes, arrow))
    below = 16 if arrow.back else -6
    return (
        f'<text class="w" x="{(x1 + x2) / 2:.0f}" y="{(y1 + y2) / 2 + below:.0f}" text-anchor="middle">'
        f"{html.escape(arrow.text)}</text>"
    )


if __name__ == "__main__":
    sys.exit(main())
