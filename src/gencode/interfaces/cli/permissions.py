"""`gen permissions explain|check`: shows which calls are allowed, by which rule, and how to allow others."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from gencode.agent.toolbox import MCP
from gencode.app import GenCode, forgetful
from gencode.core.errors import UserMistake
from gencode.core.events import unicode_text
from gencode.core.outcome import as_json
from gencode.core.rules import Action
from gencode.interfaces.chat.permission_info import call_input, explanation_text
from gencode.interfaces.cli.open_session import flags, servers_tried
from gencode.interfaces.cli.parser import Commands, add, add_group, add_policy
from gencode.interfaces.render.plain_text import answer, answer_raw, note, print_record
from gencode.permissions.cases import CaseResult, judge_file

BATCH = 100
"""How many lines are written at once."""


class CaseVerdict(Struct, frozen=True):
    """A line of `gen permissions check --json`; a line that is no case has the decision `error`."""

    id: str
    decision: str
    why: str


EXAMPLES = (
    'gen permissions explain --tool Bash --input "git push"',
    """gen permissions explain --tool Read --input '{"file_path": ".env"}' --agent Explore --json""",
    "gen permissions check cases.jsonl",
)


def add_command(commands: Commands, does: str) -> None:
    """`gen permissions …`."""
    group = add_group(commands, "permissions", does, EXAMPLES)
    one = add(
        group,
        "explain",
        explained,
        "show the decision for one call, and which rule would allow it",
        (EXAMPLES[0], "gen permissions explain --tool Write --input notes.md --agent Explore --json"),
    )
    one.add_argument("--tool", required=True, metavar="T", help="the tool, for example Bash")
    one.add_argument(
        "--input", metavar="JSON", help="its input as JSON; plain text is its command, path or URL"
    )
    one.add_argument("--agent", dest="subagent", metavar="A", help="decide for this agent as a subagent")
    one.add_argument(
        "--background", action="store_true", help="decide for an agent that cannot ask for approval"
    )
    add_policy(one, "--mode", "--permission-mode")
    check = add(
        group,
        "check",
        checked,
        "show the decision for every case of a file",
        (EXAMPLES[2], "gen permissions check cases.jsonl --json"),
    )
    check.add_argument("files", nargs="+", metavar="FILE", help="cases as JSON lines; - is stdin")


async def explained(args: argparse.Namespace) -> int:
    """Decide about one call and say how it came about."""
    settings = {**flags(args), "model": "offline"}
    async with GenCode.open(getattr(args, "cwd", "."), settings=settings, store=forgetful()) as gen:
        tool: str = gen.toolbox[args.tool].name if args.tool in gen.toolbox else args.tool
        arguments = call_input(tool, getattr(args, "input", "{}"))
        agent: str = getattr(args, "subagent", "")
        if tool.startswith(MCP):
            await servers_tried(gen, gen.agents.find(agent) if agent else None)
        found = gen.explain(tool, arguments, agent=agent, background="background" in args)
    record = json.loads(unicode_text(json.dumps(msgspec.to_builtins(found), ensure_ascii=False)))
    print_record(args, record, explanation_text(found))
    return 0


def checked(args: argparse.Namespace) -> int:
    """Decide about every case of the files, as they are read."""
    codes = [_check(name, as_lines="json" in args) for name in args.files]
    return max(codes)


def _check(name: str, *, as_lines: bool) -> int:
    """The exit code: 2 for an invalid line, 1 if a decision differs from the expected one, else 0."""
    counted: Counter[str] = Counter()
    waiting: list[str] = []
    with _opened(name) as file:
        for judged in judge_file(file):
            counted[judged.decision or "error"] += 1
            counted["unmet"] += not judged.met and not judged.mistake
            counted["expected"] += judged.expect is not None
            waiting += [_verdict(judged)] if as_lines else _complaint(name, judged)
            if len(waiting) >= BATCH:
                _write(waiting, as_lines=as_lines)
    _write(waiting, as_lines=as_lines)
    (note if as_lines else answer)(_summary(name, counted))
    return 2 if counted["error"] else 1 if counted["unmet"] else 0


def _write(waiting: list[str], *, as_lines: bool) -> None:
    if waiting:
        (answer_raw if as_lines else answer)("\n".join(waiting))
        waiting.clear()


def _verdict(judged: CaseResult) -> str:
    if judged.mistake:
        broken = CaseVerdict(unicode_text(judged.id), "error", f"line {judged.line}: {judged.mistake}")
        return as_json(broken)
    return as_json(CaseVerdict(unicode_text(judged.id), str(judged.decision), unicode_text(judged.why)))


def _complaint(name: str, judged: CaseResult) -> list[str]:
    if judged.met:
        return []
    which = f"{name}:{judged.line}" + (f" ({judged.id})" if judged.id else "")
    if judged.mistake:
        return [f"{which}: {judged.mistake}"]
    return [f"{which}: expected {judged.expect}, got {judged.decision}: {judged.why}"]


def _summary(name: str, counted: Counter[str]) -> str:
    cases = sum(counted[action] for action in Action)
    said = ", ".join(f"{counted[action]} {action}" for action in Action)
    line = f"{name}: {cases} {'case' if cases == 1 else 'cases'} ({said})"
    if counted["expected"]:
        unmet = counted["unmet"]
        line += f"; {unmet} not as expected" if unmet else "; all as expected"
    return line + (f"; invalid lines: {counted['error']}" if counted["error"] else "") + "."


@contextmanager
def _opened(name: str) -> Generator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).expanduser().open("rb")
    except OSError as error:
        raise UserMistake(f"Cannot read {name}: {error.strerror}.") from None
    with file:
        yield file
