"""`gen task questions|answer`: lists and answers questions of agents in other processes and machines."""

import argparse
import contextlib

import msgspec

from gencode.core.errors import UserMistake
from gencode.core.questions import ALL, Answer, QuestionRow, check_answer, reaches_of
from gencode.core.structs import replace
from gencode.interfaces.chat.question_text import rules_text
from gencode.interfaces.cli.foreground_run import renderer_for
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import Commands, add, count
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
from gencode.interfaces.render.plain_text import note, print_record
from gencode.questions.question_desk import Audience, shown_from, who_answers

WAITING = (
    "Waiting for questions of agents in {where}, also of those in the background; "
    "Ctrl-C or Ctrl-D leaves without answering."
)
NONE_WAITS = "No question is waiting, so your line was ignored."
NO_ALONE = "--for, --network and --words work only with yes; to decline, use no and --why."


def add_commands(tasks: Commands) -> None:
    """`gen task questions` and `gen task answer`."""
    waiting = add(
        tasks,
        "questions",
        asked,
        "list questions of agents in other processes; in a terminal, answer them",
        ("gen task questions", "gen task questions --all --json"),
    )
    waiting.add_argument("--all", action="store_true", help="of all folders")
    reply = add(
        tasks,
        "answer",
        answered,
        "answer a question of an agent in another process",
        ("gen task answer 3 yes", 'gen task answer 3 no --why "Not on this machine"'),
    )
    reply.add_argument(
        "number", type=count, metavar="NUMBER", help="the question's number in gen task questions"
    )
    reply.add_argument("answer", choices=("yes", "no"), help="approve or decline")
    reply.add_argument(
        "--for",
        dest="reach",
        choices=("call", "agent", "subtree"),
        help="what to approve (default: this call)",
    )
    reply.add_argument("--network", action="store_true", help="also let this one command use the network")
    reply.add_argument(
        "--words", action="append", metavar="TEXT", help="the answer to an open question; may be repeated"
    )
    reply.add_argument("--why", metavar="TEXT", help="why you decline, for the agent")


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
    text = "\n\n".join(map(_text, found)) or "There are no pending questions."
    print_record(args, {"questions": [_told(each) for each in found]}, text)
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


async def answered(args: argparse.Namespace) -> int:
    """Answer one question."""
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
    text = f"Answered question {args.number}: {args.answer}."
    print_record(args, {"number": args.number, "allow": allow}, text)
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
    more = f"\n  --for agent, --for subtree: also allows {rules_text(question)}" if question.rules else ""
    return f"{head}\n{said}{more}\n  {way}"
