"""`gen -p`: runs one turn of the main conversation and prints the answer."""

import argparse
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from gencode.app import GenCode, ServerReport
from gencode.core.errors import UserMistake
from gencode.core.events import Event
from gencode.core.messages import Message, UserMessage
from gencode.core.outcome import Outcome, RefusedCall, RunOutcome, StoppedWork, TreeUsage
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task, replies_of_turn, whole_transcript
from gencode.core.text import inert
from gencode.interfaces.cli.claude_code_options import NOT_TOLD
from gencode.interfaces.cli.command_input import piped_text, schema
from gencode.interfaces.cli.foreground_run import follow, renderer_for, tell_ending, tell_refused, tell_work
from gencode.interfaces.cli.open_session import check, opened
from gencode.interfaces.cli.terminal_questions import asker_for
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.agent_view import CUT_SHORT, AgentView, View, fold
from gencode.interfaces.render.plain_text import answer, answer_json
from gencode.interfaces.render.transcript import come_late, handed_back, in_words, tasks_of
from gencode.journal.store import TaskQuery
from gencode.tasks.running_task import RunningTask


class PromptResult(Struct, frozen=True, rename="camel", tag_field="type", tag="result"):
    """What `gen -p --output-format json` prints; its type tells it apart from the events of a stream."""

    result: str
    status: Status
    session_id: str
    model: str
    turns: int
    usage: TreeUsage
    tasks: list[Outcome]
    servers: list[ServerReport]
    """The MCP servers of the session, as they are at its end."""
    error: str | None = None
    output: Any | UnsetType = UNSET
    """Only where the agent that leads has a schema, and the answer fits."""
    refused: tuple[RefusedCall, ...] = ()
    """The refused calls of this turn, of the leading agent and all its descendants."""
    stopped: tuple[StoppedWork, ...] = ()
    """What was stopped because the turn was over and its process ended."""


def run(args: argparse.Namespace) -> int:
    """Ask, show what happens, print the answer."""
    return run_to_end(_ask(args, _prompt(args)))


async def _ask(args: argparse.Namespace, prompt: str) -> int:
    form = schema(args)
    output: str = getattr(args, "output_format", "json" if "json" in args else "text")
    renderer = renderer_for(output, verbose="verbose" in args)
    async with opened(args, asker=asker_for(output, renderer)) as gen:
        told = check(gen, args)
        earlier = await _earlier(gen, args)
        told = "\n".join(filter(None, (told, _not_told(gen, earlier))))
        if earlier:
            renderer.view = View({earlier.id: AgentView(earlier.id, earlier.agent, conversation=True)})
        agent = getattr(args, "agent", earlier.agent if earlier and earlier.agent != "main" else "")
        session = earlier.id if earlier else None
        begun: list[RunningTask] = []

        async def begin() -> RunningTask:
            begun.append(await gen.start_turn(prompt, session, agent, waits=True, output_schema=form))
            return begun[0]

        outcome, code = await follow(gen, begin, renderer, told)
        turn = begun[0].task
        if outcome.output is None:  # what a schema asks for is read from what fits it on
            outcome = replace(outcome, result=await _said(gen, turn) or outcome.result)
        if output == "text":
            rest = in_words(await _handed_back(gen, renderer.view, turn))
            if said := "\n\n".join(filter(None, (outcome.result, rest))):
                answer(said)
        else:
            answer_json(await _answer(gen, outcome, renderer.view), line=output == "stream-json")
        if output == "text":
            tell_work(outcome)
            tell_refused(outcome.refused or ())
        tell_ending(outcome)
        return code


async def _handed_back(gen: GenCode, view: View, turn: Task) -> list[AgentView]:
    """Results of agents that the reply does not include, such as those that came while it was interrupted."""
    if turn.status not in CUT_SHORT:
        return []
    children = await gen.history.tasks(TaskQuery(parent=turn.id))
    lead = view.agents.get(turn.id)
    for task in tasks_of(lead.unanswered if lead else ()):
        # Events of runs in which another process resumed an agent did not reach this one.
        view = _retold(view, (await gen.journal(task)).events)
    told = handed_back(view, turn.id)
    known = {(each.id, each.ended_at) for each in told}
    return [*told, *(each for each in come_late(turn, children) if (each.id, each.ended_at) not in known)]


def _retold(view: View, events: Sequence[Event]) -> View:
    """The view with the stored state of one agent in place of the events seen here."""
    written = View()
    for event in events:
        written = fold(written, event)
    return View({**view.agents, **written.agents})


async def _said(gen: GenCode, turn: Task) -> str:
    """Everything the reply told the person, before and after messages that came in between.

    While it waits for background work, another process may continue the conversation: what is written after
    the end of this turn belongs to that one.
    """
    events = (await gen.journal(turn.id)).events
    messages = whole_transcript(event for event in events if (event.seq or 0) <= turn.seq)
    asked = max((at for at, each in enumerate(messages) if _is_prompt(each)), default=0)
    return replies_of_turn(messages[asked:])


def _is_prompt(message: Message) -> bool:
    """Whether a message starts a turn; one that arrives during a turn does not."""
    return isinstance(message, UserMessage) and message.sender == "user" and not message.mail


def _prompt(args: argparse.Namespace) -> str:
    typed: str = args.prompt
    piped = piped_text()
    prompt = "\n\n".join(part for part in (typed, piped) if part.strip())
    if not prompt:
        raise UserMistake('The prompt is empty. Write gen -p "your question", or pipe it in.')
    return prompt


def _not_told(gen: GenCode, earlier: Task | None) -> str:
    """A line when what should be added to the system prompt comes too late for it."""
    wanted = inert(gen.settings.append_system_prompt).strip()
    system = earlier.terms.system if earlier else ""
    return NOT_TOLD if wanted and system and wanted not in system else ""


async def _earlier(gen: GenCode, args: argparse.Namespace) -> Task | None:
    """The conversation to continue, if one was named."""
    if "session" in args:
        found = await gen.find(args.session, conversation=True)
        if not found.conversation:
            raise UserMistake(
                f"{found.id} is a task of {found.agent}, not a conversation. "
                f"Show it with: gen task show {found.id}"
            )
        return found
    if "go_on" not in args:
        return None
    here = TaskQuery(cwd=str(gen.workspace.cwd), conversations=True, limit=1)
    for found in await gen.history.tasks(here):
        return found
    raise UserMistake("There is no conversation in this folder yet; leave --continue out to start one.")


async def _answer(gen: GenCode, outcome: RunOutcome, view: View) -> PromptResult:
    return PromptResult(
        result=outcome.result,
        status=outcome.status,
        session_id=outcome.agent_id,
        model=outcome.model,
        turns=outcome.turns,
        usage=outcome.usage,
        tasks=[await gen.get(task) for task in view.launched(outcome.agent_id)],
        servers=gen.mcp_servers.reports(),
        error=outcome.error,
        output=UNSET if outcome.output is None else outcome.output,
        refused=outcome.refused or (),
        stopped=outcome.stopped or (),
    )
