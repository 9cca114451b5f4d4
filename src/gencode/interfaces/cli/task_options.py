"""`gen task …` as it can be typed."""

import argparse

from gencode.interfaces.cli.claude_code_options import add_agents
from gencode.interfaces.cli.option_types import (
    Commands,
    add,
    add_group,
    add_model,
    add_policy,
    count,
    page,
    whole,
)

TASK_EXAMPLES = """\
examples:
  gen task run Explore "Where is the configuration read?" --max-turns 5
  gen task run Explore "Map the whole repository" --background
  gen task output 9f3a
  gen task events 9f3a --follow
  gen task send 9f3a "Leave the tests out"
  gen task stop 9f3a --keep
  gen task resume 9f3a "And where is it tested?"
  gen task fork 9f3a --at 12 "Look into the other module instead"
  gen task list --all --json
  gen task replay 9f3a
  gen task export 9f3a1c2e - | gzip > task.jsonl.gz
"""


def add_task(commands: Commands) -> None:
    """Everything that can be typed about tasks."""
    tasks = add_group(
        commands, "task", "run, list, follow, stop, resume, replay and move tasks", TASK_EXAMPLES
    )
    run = add(tasks, "run", "task:run", "one subagent, without a main conversation")
    run.add_argument("subagent", metavar="AGENT", help="which agent, for example Explore")
    run.add_argument("task", metavar="PROMPT", help="the whole task; - reads it from stdin")
    run.add_argument("--description", metavar="TEXT", help="the task in three to five words")
    run.add_argument("--background", action="store_true", help="print its id; it outlives this terminal")
    run.add_argument("--resume", metavar="ID", help="go on with this task of the agent")
    run.add_argument(
        "--isolation", choices=("process", "worktree"), help="in a process, or a git worktree, of its own"
    )
    _add_schema(run)
    add_agents(run)
    add_model(run)
    add_policy(run)
    listing = add(tasks, "list", "task:listed", "tasks of this folder, unfinished or of the last 24 hours")
    listing.add_argument("--all", action="store_true", help="the tasks of all folders and times")
    listing.add_argument("--tree", action="store_true", help="below the conversations that asked for them")
    show = add(tasks, "show", "task:show", "one task with its transcript and the gate's decisions")
    alive = _add_life(tasks)
    replay = add(tasks, "replay", "task_journal:replayed", "play a task again from the journal, no model")
    replay.add_argument("--against", metavar="ID", help="show where another run differs from it")
    export = add(tasks, "export", "task_journal:exported", "write the journal of a task as JSONL")
    for parser in (show, replay, export, *alive):
        parser.add_argument("id", metavar="ID", help="the task; the beginning of its id is enough")
    export.add_argument("file", metavar="FILE", help="where to write it; - is stdout")
    taking = add(tasks, "import", "task_journal:imported", "read a task from a JSONL file")
    taking.add_argument("file", metavar="FILE", help="where to read it; - is stdin")


def _add_life(tasks: Commands) -> list[argparse.ArgumentParser]:
    """What can be done to a task while it runs and afterwards, from any process."""
    output = add(tasks, "output", "task_life:output", "the result of a task, once it has ended")
    output.add_argument("--no-block", action="store_true", help="do not wait for the end")
    output.add_argument("--timeout", type=whole, metavar="MS", help="wait so long (30000, at most 600000)")
    output.add_argument("--page", type=page, metavar="N", help="one page of a long result, not all of it")
    stop = add(tasks, "stop", "task_life:stop", "stop a task and the work it waits for; what it said is kept")
    stop.add_argument("--tree", action="store_true", help="also what it sent to the background")
    stop.add_argument("--keep", action="store_true", help="let it first say in one turn what it has found")
    interrupt = add(
        tasks,
        "interrupt",
        "task_actions:interrupt",
        "interrupt what a task does now; it goes on from there",
    )
    interrupt.add_argument("--message", metavar="TEXT", help="what it should know when it goes on")
    send = add(
        tasks,
        "send",
        "task_actions:send",
        "say something to a task: a running one hears it, another is woken",
    )
    send.add_argument("id", metavar="ID", help="the task; the beginning of its id is enough")
    send.add_argument("text", metavar="TEXT", help="what to say; - reads it from stdin")
    resume = add(tasks, "resume", "task_life:resume", "go on with a task: same agent, folder and permissions")
    resume.add_argument("id", metavar="ID", help="the task; the beginning of its id is enough")
    resume.add_argument("task", metavar="PROMPT", help="what to do now; - reads it from stdin")
    resume.add_argument("--background", action="store_true", help="print its id; it outlives this terminal")
    _add_schema(resume)
    add_model(resume)
    add_policy(resume)
    _add_fork(tasks)
    _add_budget(tasks)
    _add_questions(tasks)
    background = add(tasks, "background", "task_life:background", "let the agent that waits for a task go on")
    events = add(tasks, "events", "task_life:events", "the facts of a task, one per line")
    events.add_argument("--follow", action="store_true", help="go on until the task has ended")
    events.add_argument("--after", type=whole, metavar="SEQ", help="only the facts after this number")
    return [output, stop, interrupt, background, events, _add_merge(tasks)]


def _add_merge(tasks: Commands) -> argparse.ArgumentParser:
    merge = add(tasks, "merge", "task_merge:merge", "take over what a task changed on another machine")
    merge.add_argument("--preview", action="store_true", help="only show what that would give")
    return merge


def _add_fork(tasks: Commands) -> None:
    fork = add(
        tasks, "fork", "task_actions:fork", "begin a new task with what another one knew at some point"
    )
    fork.add_argument("id", metavar="ID", help="the task to copy; the beginning of its id is enough")
    fork.add_argument("task", metavar="PROMPT", help="what to do now; - reads it from stdin")
    fork.add_argument("--at", type=whole, metavar="SEQ", help="after this fact (gen task events); the last")
    fork.add_argument("--description", metavar="TEXT", help="the task in three to five words")
    fork.add_argument("--background", action="store_true", help="print its id; it outlives this terminal")
    fork.add_argument("--isolation", choices=("worktree",), help="in a git worktree of its own")
    fork.add_argument(
        "--budget",
        nargs=2,
        action="append",
        metavar=("KIND", "AMOUNT"),
        help="bound only the fork, as gen task budget does, or with none lift what the original has of a "
        "kind; repeatable (--max-tokens-total, --max-usd and --max-spawns bound its conversation)",
    )
    _add_schema(fork)
    add_model(fork)
    add_policy(fork)


def _add_budget(tasks: Commands) -> None:
    budget = add(tasks, "budget", "task_budget:budget", "what a task may spend, or another budget for it")
    budget.add_argument("id", metavar="ID", help="the task; the beginning of its id is enough")
    budget.add_argument(
        "amounts",
        nargs="*",
        metavar="KIND AMOUNT",
        help="turns, tokens, usd, seconds or spawns, and how much in all, or none; or only none, for all",
    )


def _add_questions(tasks: Commands) -> None:
    """What is asked on other machines of a fleet."""
    asked = add(
        tasks, "questions", "task_questions:asked", "what agents on other machines ask; at a terminal, answer"
    )
    asked.add_argument("--all", action="store_true", help="of all folders")
    reply = add(
        tasks, "answer", "task_questions:answered", "answer a question of an agent on another machine"
    )
    reply.add_argument(
        "number", type=count, metavar="NUMBER", help="the question, as gen task questions lists"
    )
    reply.add_argument("answer", choices=("yes", "no"), help="whether it may")
    reply.add_argument(
        "--for", dest="reach", choices=("call", "agent", "subtree"), help="what a yes stands for; this call"
    )
    reply.add_argument("--network", action="store_true", help="let this one command reach the network")
    reply.add_argument(
        "--words", action="append", metavar="TEXT", help="the answer to what it wants to know; repeatable"
    )
    reply.add_argument("--why", metavar="TEXT", help="why not, for the agent")


def _add_schema(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output-schema", metavar="FILE", help="a JSON Schema that the result must fit; see output in --json"
    )
