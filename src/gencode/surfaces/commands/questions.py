"""`gen task questions | answer`: what agents of other processes and machines ask, and what they are told."""

import argparse
import asyncio
import contextlib

import msgspec

from gencode.runtime.asking import Answer, Question
from gencode.runtime.broker import Broker
from gencode.runtime.questions import ALL, Travelling, check_answer, reaches_of
from gencode.settings import remember
from gencode.surfaces.commands.opening import opened
from gencode.surfaces.far_questions import box_of, far_questions
from gencode.surfaces.follow import painter_for
from gencode.surfaces.person import TerminalPerson, inquiry_text, shown, somebody_is_there
from gencode.surfaces.plain import answer, answer_json, note, seconds
from gencode.surfaces.questions import SAID_NO, allows

WAITING = "Waiting for questions of agents in this folder, also of those in the background; Ctrl-C leaves."
WAITING_ALL = (
    "Waiting for questions of agents in every folder, also of those in the background; Ctrl-C leaves."
)


def asked(args: argparse.Namespace) -> int:
    """The questions that wait; at a terminal they are asked, and those that come as well."""
    with contextlib.suppress(KeyboardInterrupt):
        return asyncio.run(_asked(args))
    return 0


async def _asked(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        box = box_of(gen)
        if "json" not in args and somebody_is_there():
            person = Broker(TerminalPerson(painter_for("text", verbose=False)), always=remember)
            note(WAITING_ALL if "all" in args else WAITING)
            everywhere = "all" in args
            async with far_questions(
                gen, person, background=True, everywhere=everywhere, follows=lambda: ALL
            ):
                await asyncio.Event().wait()
        found = await box.waiting("" if "all" in args else str(gen.workspace.cwd))
        if "json" in args:
            answer_json({"questions": [_told(each) for each in found]})
        elif not found:
            answer("No question is waiting.")
        else:
            answer("\n\n".join(_text(each) for each in found))
    return 0


def answered(args: argparse.Namespace) -> int:
    """Answer one question."""
    return asyncio.run(_answered(args))


async def _answered(args: argparse.Namespace) -> int:
    from gencode.delegation.far_asking import who_answers

    allow, words = args.answer == "yes", tuple(getattr(args, "words", ()))
    why = getattr(args, "why", "") or ("" if allow else SAID_NO)
    said = Answer(allow, getattr(args, "reach", "call"), why, network="network" in args, words=words)
    async with opened(args) as gen:
        box = box_of(gen)
        waiting = next((each for each in await box.waiting("") if each.number == args.number), None)
        if waiting is not None:
            check_answer(waiting.question, said)
        await box.answer(args.number, said, who_answers())
    if "json" in args:
        answer_json({"number": args.number, "allow": allow})
    else:
        answer(f"Question {args.number} is answered: {args.answer}.")
    return 0


def _told(each: Travelling) -> dict[str, object]:
    question: Question = each.question
    return {
        **msgspec.to_builtins(question),
        "number": each.number,
        "reaches": reaches_of(question),
        "asked": round(each.asked, 1),
        "left": round(each.left, 1),
        "background": each.background,
    }


def _text(each: Travelling) -> str:
    question = each.question
    head = f"{each.number}  task {question.task}, {seconds(each.asked)} ago, {seconds(each.left)} left"
    if question.inquiries:
        said = "\n".join(inquiry_text(question, inquiry) for inquiry in question.inquiries)
        way = f"gen task answer {each.number} yes{' --words TEXT' * len(question.inquiries)}"
    else:
        said, way = shown(question), f"gen task answer {each.number} yes|no"
    more = f"\n  --for agent, --for subtree: it then also allows {allows(question)}" if question.rules else ""
    return f"{head}\n{said}{more}\n  {way}"
