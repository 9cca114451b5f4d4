"""The difference of two runs: where what was said, called and found first went apart."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from gencode.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from gencode.core.outcome import Outcome

LONGEST = 200


class Difference(Struct, frozen=True):
    """One stretch of steps that only one of two runs has, or that they have in different words."""

    step: int
    one: tuple[str, ...] = ()
    other: tuple[str, ...] = ()


class Comparison(Struct, frozen=True):
    """What two runs have in common, and where they differ."""

    same_steps: int
    differences: tuple[Difference, ...]
    facts: tuple[tuple[str, str, str], ...]
    """What differs in how they ended: the name, and the value in each."""


def compare(one: Sequence[Message], other: Sequence[Message], ends: tuple[Outcome, Outcome]) -> Comparison:
    """Two transcripts side by side."""
    left, right = [*steps(one)], [*steps(other)]
    found: list[Difference] = []
    same = 0
    for tag, start, end, first, last in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            same += end - start
        else:
            found.append(Difference(start + 1, tuple(left[start:end]), tuple(right[first:last])))
    return Comparison(same, tuple(found), tuple(_facts(*ends)))


def steps(messages: Sequence[Message]) -> Iterator[str]:
    """A transcript as lines: what was heard, said, called and given."""
    for message in messages:
        match message:
            case UserMessage():
                yield f"{message.sender}: {_short(message.text)}"
            case AssistantMessage():
                if message.text.strip():
                    yield f"said: {_short(message.text)}"
                yield from (f"called: {call.name} {_short(str(call.input))}" for call in message.calls)
            case ToolMessage():
                yield from (f"{result.name} gave: {_short(result.text)}" for result in message.results)


def _facts(one: Outcome, other: Outcome) -> Iterator[tuple[str, str, str]]:
    for name in ("agent", "model", "status", "turns", "error", "result"):
        values = _short(str(getattr(one, name))), _short(str(getattr(other, name)))
        if values[0] != values[1]:
            yield name, *values
    tokens = [each.usage.tree.input_tokens + each.usage.tree.output_tokens for each in (one, other)]
    if tokens[0] != tokens[1]:
        yield "tokens", str(tokens[0]), str(tokens[1])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
