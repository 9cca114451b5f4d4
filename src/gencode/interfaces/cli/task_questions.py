"""`gen task questions|answer`: lists and answers questions of agents in other processes and machines."""

import argparse
import contextlib

import msgspec
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.questions import ALL, Answer, QuestionRow, check_answer, reaches_of
from gencode.interfaces.chat.question_text import allows
from gencode.interfaces.cli.foreground_run import renderer_for
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.terminal_questions import (
    Keyboard,
    TerminalDesk,
    TerminalPrompt,
    chosen,
    inquiry_text,
    shown,
    somebody_is_there,
)
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.number_format import seconds
from gencode.interfaces.render.plain_text import answer, answer_json, note
from gencode.questions.question_desk import Audience, shown_from, who_answers

WAITING = (
    "Waiting for questions of agents in {where}, also of those in the background; "
    "Ctrl-C or Ctrl-D leaves without answering."
)
NONE_WAITS = "No question is waiting, so your line was ignored."
NO_ALONE = "--for, --network and --words work only with yes; to decline, use no and --why."


def asked(args: argparse.Namespace) -> int:
    """The questions that wait; at a terminal they are asked, and those that come as well."""
    with contextlib.suppress(KeyboardInterrupt):
        return run_to_end(_asked(args))
    return 0


async def _asked(args: argparse.Namespace) -> int:
    if "json" not in args and somebody_is_there():
        await _asked_here(args, everywhere="all" in args)
        return 0
    async with opened(args) as gen:
        found = await gen.questions.waiting("" if "all" in args else str(gen.workspace.cwd))
        if "json" in args:
            answer_json({"questions": [_told(each) for each in found]})
        elif not found:
            answer("There are no pending questions.")
        else:
            answer("\n\n".join(_text(each) for each in found))
    return 0


async def _asked_here(args: argparse.Namespace, *, everywhere: bool) -> None:
    """Ask the person at the terminal until they leave; leaving answers nothing."""
    keyboard = Keyboard(unasked=lambda _line: note(NONE_WAITS))
    person = TerminalPrompt(renderer_for("text", verbose=False), keyboard)
    audience = Audience(follows=lambda: ALL, background=True, everywhere=everywhere)
    async with opened(args, asker=TerminalDesk(person, audience=audience)):
        note(WAITING.format(where="every folder" if everywhere else "this folder"))
        keyboard.open()
        await keyboard.left.wait()


def answered(args: argparse.Namespace) -> int:
    """Answer one question."""
    return run_to_end(_answered(args))


async def _answered(args: argparse.Namespace) -> int:
    allow, words = args.answer == "yes", tuple(getattr(args, "words", ()))
    if not allow and any(name in args for name in ("reach", "network", "words")):
        raise UserMistake(NO_ALONE)
    why = getattr(args, "why", "")
    said = Answer(allow, getattr(args, "reach", "call"), why, network="network" in args, words=words)
    async with opened(args) as gen:
        rows = gen.questions
        waiting = next((each for each in await rows.waiting("") if each.number == args.number), None)
        if waiting is not None:
            check_answer(waiting.question, said)
            said = replace(said, words=tuple(map(chosen, words, waiting.question.inquiries)))
        await rows.answer(args.number, said, who_answers())
    if "json" in args:
        answer_json({"number": args.number, "allow": allow})
    else:
        answer(f"Answered question {args.number}: {args.answer}.")
    return 0


def _told(each: QuestionRow) -> dict[str, object]:
    question = shown_from(each)
    return {
        **msgspec.to_builtins(question),
        "number": each.number,
        "reaches": reaches_of(question),
        "asked": round(each.asked, 1),
        "left": None if each.left is None else round(each.left, 1),
        "background": each.background,
    }


def _text(each: QuestionRow) -> str:
    question = shown_from(each)
    head = f"{each.number}  task {question.task}, {seconds(each.asked)} ago"
    if question.inquiries:
        said = "\n".join(inquiry_text(question, inquiry) for inquiry in question.inquiries)
        way = f"gen task answer {each.number} yes{' --words TEXT' * len(question.inquiries)}"
    else:
        said, way = shown(question), f"gen task answer {each.number} yes|no"
    more = f"\n  --for agent, --for subtree: also allows {allows(question)}" if question.rules else ""
    return f"{head}\n{said}{more}\n  {way}"
