"""AskUserQuestion: the agent asks the user, or its parent, to decide something."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError
from gencode.core.messages import Trace
from gencode.core.questions import Inquiry, Option

MOST_QUESTIONS = 4


class AskedOption(Struct, frozen=True):
    """One option of a question."""

    label: str
    description: str = ""


class AskedQuestion(Struct, frozen=True, rename="camel"):
    """One question with its options; the user can always type another answer.

    `default` applies when nobody answers; without one nothing is decided then.
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
        "One to four",
    ],
    default: Annotated[
        str,
        Param("What to continue with if nobody answers, for questions that name none", hidden=True),
    ] = "",
) -> ToolOutput:
    """Ask the user, or your parent agent, for a decision that only they can make; they may also type another
    answer. Put the option you recommend first. Do not ask what you can find out, nor for permission to make a
    call: GenCode asks for that itself. If nobody answers, `default` applies; without one nothing is decided.
    """
    if ctx.delegate is None:
        raise ToolError("Nobody can answer in this run, so nothing is decided; report the open decision.")
    if empty := [each for each in questions if not each.question.strip()]:
        raise ToolError(f"{len(empty)} of the questions are empty; say what you want to know.")
    inquiries = [
        Inquiry(
            each.question,
            each.header,
            tuple(Option(option.label, option.description) for option in each.options),
            each.multi_select,
            _default(each, default, alone=len(questions) == 1),
        )
        for each in questions
    ]
    with ctx.parked():
        reply = await ctx.delegate.ask_questions(inquiries, ctx.call)
    if reply.later:
        return ToolOutput(f"{reply.by} answered; the answer is the message after this one.")
    head = f"{reply.by} answered:" if reply.words else f"{reply.by}."
    said = [*reply.words, *[""] * len(inquiries)][: len(inquiries)]
    text = "\n".join((head, *_lines(inquiries, said), *_missing(inquiries, said)))
    return ToolOutput(text, Trace(unanswered=reply.silent))


def _default(asked: AskedQuestion, default: str, *, alone: bool) -> str:
    """The agent's own default for a question nobody answers; empty: none."""
    fits = alone or default in [option.label for option in asked.options]
    return asked.default or (default if fits else "")


def _missing(inquiries: Sequence[Inquiry], said: Sequence[str]) -> Iterator[str]:
    """What to do about questions without an answer."""
    left = [each for each, word in zip(inquiries, said, strict=True) if not word]
    if any(each.default for each in left):
        yield "Say in your report which defaults you assumed."
    if not all(each.default for each in left):
        yield (
            "Where nobody answered and there is no default, nothing is decided: treat no option as chosen. "
            "Continue with what does not depend on it, and report the open decision."
        )


def _lines(inquiries: Sequence[Inquiry], said: Sequence[str]) -> Iterator[str]:
    for each, word in zip(inquiries, said, strict=True):
        usual = f"no answer; your default: {each.default}" if each.default else "no answer; not decided"
        yield f"- {each.question} → {word or f'({usual})'}"
