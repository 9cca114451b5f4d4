"""Agents that are spawned: they work beside a conversation, with fewer turns and tools than if sent."""

from msgspec.structs import replace

from gencode.core.outcome import how_ended, outcome_of, report_lines
from gencode.core.spec import AgentSpec
from gencode.core.task import Task
from gencode.core.text import one_line

MOST_TURNS = 15
WITHHELD = ("message", "cron", "spawn", "spawn_subagent")
LONGEST_LABEL = 80
LONGEST_TASK = 500
TELL_THE_USER = (
    "Tell the user what came of it, in a sentence or two of your own; ids and how the work was done do not "
    "matter to them."
)


def spawned(spec: AgentSpec) -> AgentSpec:
    """An agent as it is when it is spawned: it reaches nobody, spawns nobody and ends sooner."""
    tools = replace(spec.tools, deny=(*spec.tools.deny, *WITHHELD))
    return replace(spec, tools=tools, max_turns=min(spec.max_turns or MOST_TURNS, MOST_TURNS))


def spawned_result(task: Task, cap: int, rest: str) -> str:
    """The result of a spawned task as the system message of its spawner says it; `rest` is where all is."""
    outcome = outcome_of(task)
    label = one_line(task.created.description, LONGEST_LABEL) or task.id
    head = f"[Subagent '{label}' {'completed' if outcome.success else 'failed'}]"
    how = "" if outcome.success else f" {how_ended(outcome)}"
    report = report_lines(outcome, cap, rest=rest)
    return f"{head}\nTask: {one_line(task.created.prompt, LONGEST_TASK)}\nResult:{how}\n{report}"
