"""A question to a person in its parts: who asks, exactly what, which rule asked, and the answers by scope."""

import json
import time
from collections.abc import Callable

from msgspec import Struct

from gencode.core.questions import LEFT_EMPTY, Answer, Inquiry, Question, Reach
from gencode.core.visible import exact, exact_line, visible_line
from gencode.interfaces.render.plain_text import seconds

MOST_LINES = 240
RUNS_COMMANDS = frozenset({"Bash"})
WITH_NETWORK = "w"
NOT_ANSWERED = "The user did not answer"
REACHES: dict[str, tuple[Reach, str]] = {
    "y": ("call", "yes, this once"),
    "a": ("agent", "yes, for this agent"),
    "t": ("subtree", "yes, for this agent and those below it"),
    "s": ("session", "yes, for this session"),
    "!": ("always", "yes, always"),
}
_TEXT_FIELDS = ("command", "url", "file_path", "path", "prompt")
_SHOWN_BY_PREVIEW = frozenset({"content", "old_string", "new_string", "edits"})


class Choice(Struct, frozen=True):
    """One answer: the key that gives it, what it means, and what it then allows."""

    key: str
    says: str
    answer: Answer


def who(question: Question) -> str:
    """The agents from the main one down to the one that asks."""
    return " › ".join(exact_line(agent) for agent in question.path) or exact_line(question.agent)


def where(question: Question) -> list[str]:
    """The folder in which it would run and, of another process, where it was asked and how long it waits."""
    lines = [f"in {exact_line(question.cwd)}"] if question.cwd else []
    if (away := question.away) is None:
        return lines
    asked = f"asked by another process on {exact_line(away.place)}"
    if away.folder and away.folder != question.cwd:
        asked += f", for {exact_line(away.folder)}"
    behind = ", in the background" if away.background else ""
    waits = "until it is answered" if away.left is None else f"at most {seconds(away.left)} more"
    return [*lines, f"{asked}{behind}; it waits {waits}"]


def due(question: Question, inquiry: Inquiry | None = None) -> str:
    """What counts, and when, if nobody answers; empty where it waits until somebody does."""
    if question.until is None:
        return ""
    left = max(round(question.until - time.time()), 0)
    at = time.strftime("%H:%M:%S", time.localtime(question.until))
    when = f"at {at}, in {left // 60}:{left % 60:02}"
    if inquiry is None:
        return f"Without an answer it is a no {when}."
    if not inquiry.default:
        return f"Without an answer nothing is decided {when}."
    return f"Without an answer this counts {when}: {_short(inquiry.default, 200, visible_line)}"


def headline(question: Question) -> str:
    """Who wants to do what."""
    return f"{who(question)} wants to use {exact_line(question.call.name)}"


def exactly(question: Question) -> str:
    """The text that would be run, fetched or written to, then everything else the call says."""
    arguments = dict(question.call.input)
    main = next((name for name in _TEXT_FIELDS if isinstance(arguments.get(name), str)), "")
    lines = [exact(str(arguments.pop(main)))] if main else []
    for name, value in arguments.items():
        if not (question.preview and name in _SHOWN_BY_PREVIEW):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{_short(name, 40)}: {_short(text, 300)}")
    return "\n".join(lines)


def preview_lines(question: Question) -> list[str]:
    """What would change, as lines of a diff; the first of them, and how many are not shown."""
    if not question.preview:
        return []
    lines = exact(question.preview.replace("\r\n", "\n")).splitlines()
    more = [f"… {len(lines) - MOST_LINES} more lines that are not shown"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]


def reason(question: Question) -> str:
    """Why a person is asked, and by which rule or policy."""
    decision = question.decision
    by = " · ".join(
        part
        for part in (
            f"rule {exact_line(decision.rule)}" if decision.rule else "",
            f"policy of {exact_line(decision.policy)}" if decision.policy else "",
        )
        if part
    )
    return exact(decision.why) + (f"\n({by})" if by else "")


def choices(question: Question) -> list[Choice]:
    """The answers there are: those beyond this call only where a rule says what they would allow."""
    found = [
        Choice(key, says, Answer(True, reach))
        for key, (reach, says) in REACHES.items()
        if question.rules or key == "y"
    ]
    if question.call.name in RUNS_COMMANDS:
        found.insert(1, Choice(WITH_NETWORK, "yes, with the network", Answer(True, network=True)))
    return [*found, Choice("n", "no", Answer(False))]


def allows(question: Question) -> str:
    """What a yes for more than this call would let through from then on."""
    return ", ".join(exact_line(rule) for rule in question.rules)


def inquiry_choices(inquiry: Inquiry) -> list[tuple[str, str]]:
    """The answers an agent offers, each with what it says about it."""
    return [(visible_line(each.label), visible_line(each.description)) for each in inquiry.options]


def answered(words: list[str]) -> Answer:
    """The answer to all inquiries of a question; for those left empty a default counts where there is one."""
    said = tuple(word.strip() for word in words)
    return Answer(True, words=said) if any(said) else Answer(False, why=LEFT_EMPTY)


def when_empty(inquiry: Inquiry) -> str:
    """What an empty answer means: the same as none."""
    default = _short(inquiry.default, 60, visible_line)
    return f"counts as: {default}" if inquiry.default else "leaves it undecided"


def _short(text: str, most: int, shown: Callable[[str], str] = exact_line) -> str:
    """`text` on one line, and how much of it is not shown."""
    line = shown(text[:most])
    return line if len(text) <= most else f"{line}… ({len(text) - most:,} more characters)"
