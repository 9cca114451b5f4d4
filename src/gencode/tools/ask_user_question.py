"""tools: AskUserQuestion, a question that an agent cannot answer by itself."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from gencode.core.errors import ToolError
from gencode.runtime.asking import Inquiry, Option
from gencode.runtime.toolbox import ToolContext, tool

MOST_QUESTIONS = 4


class AskedOption(Struct, frozen=True):
    """One answer to choose."""

    label: str
    description: str = ""


class AskedQuestion(Struct, frozen=True, rename="camel"):
    """One question with the answers to choose from; another one can always be typed.

    `default` is what counts when nobody answers it.
    """

    question: str
    header: str = ""
    options: tuple[AskedOption, ...] = ()
    multi_select: bool = False
    default: str = ""


@tool(effect="read", name="AskUserQuestion", timeout=None)
async def ASK_USER_QUESTION(
    ctx: ToolContext,
    questions: Annotated[
        list[AskedQuestion],
        Meta(min_length=1, max_length=MOST_QUESTIONS),
        "What to ask, each with a few options to choose from",
    ],
    default: Annotated[
        str,
        "What counts when nobody answers: for the only question, or those of several that offer it; a "
        "question's own default comes before it, and its first option after it",
    ] = "",
) -> str:
    """Ask what only the user, or the agent that sent you, can decide. The work waits for the answer, for a
    while. Do not ask what you can find out, or what does not change what you do next."""
    if ctx.delegate is None:
        raise ToolError("There is nobody here to ask; decide yourself and say what you assumed.")
    if empty := [each for each in questions if not each.question.strip()]:
        raise ToolError(f"{len(empty)} of the questions are empty; say what you want to know.")
    inquiries = [
        Inquiry(
            each.question,
            each.header,
            tuple(Option(option.label, option.description) for option in each.options),
            each.multi_select,
            _usual(each, default, alone=len(questions) == 1),
        )
        for each in questions
    ]
    with ctx.parked():
        reply = await ctx.delegate.inquire(inquiries, ctx.call)
    if reply.later:
        return f"{reply.by} answered; the answer is the message after this one."
    assumed = [each.default or "decide yourself" for each in inquiries]
    if reply.words:
        left = "(no answer; the default is: {})"
        words = [said or left.format(usual) for said, usual in zip(reply.words, assumed, strict=False)]
        return "\n".join((f"{reply.by} answered:", *_lines(inquiries, words)))
    head = f"{reply.by}. These are the defaults; say in your report that you assumed them:"
    return "\n".join((head, *_lines(inquiries, assumed)))


def _usual(asked: AskedQuestion, default: str, *, alone: bool) -> str:
    """What counts when nobody answers a question; empty where that is up to the agent."""
    labels = [option.label for option in asked.options]
    fits = default if alone or default in labels else ""
    return asked.default or fits or (labels[0] if labels else "")


def _lines(inquiries: Sequence[Inquiry], words: Sequence[str]) -> list[str]:
    return [f"- {each.question} → {said}" for each, said in zip(inquiries, words, strict=False)]
