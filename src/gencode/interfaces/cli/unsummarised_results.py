"""What agents handed back to one that came to no reply any more: its budget or time is up, or its model gone.

It is shown to the person as it is, without asking a model.
"""

from collections.abc import Mapping, Sequence

from gencode.core.status import Status
from gencode.core.task import Task, receipt
from gencode.interfaces.render.agent_view import CUT_SHORT, AgentView, View, seen
from gencode.interfaces.render.number_format import name_of
from gencode.tasks.delivery import as_sent, undelivered

NOT_SUMMED_UP = "This was not summed up any more. What agents handed back:"
STOPPED = frozenset({Status.CANCELLED, Status.TIMED_OUT, Status.INTERRUPTED})


def handed_back(view: View, task: str) -> list[AgentView]:
    """The agents whose results a task that was cut short has not answered, if they said anything."""
    lead = view.agents.get(task)
    if lead is None or lead.status not in CUT_SHORT:
        return []
    return results_of(lead.unanswered, view.agents)


def come_late(session: Task, children: Sequence[Task]) -> list[AgentView]:
    """What came back to a conversation when it heard nothing any more; not who was stopped with it.

    Each is an agent as it was at one of its ends, and may be at work again.
    """
    came = [end for each in as_sent(session, children) for end in undelivered(session, each)]
    return with_results([seen(end) for end in came if end.status not in STOPPED])


def results_of(receipts: Sequence[str], agents: Mapping[str, AgentView]) -> list[AgentView]:
    """The agents that some receipts or bare ids tell of, each as it was at the end that is meant."""
    return with_results([_meant(each, receipts, agents) for each in receipts])


def tasks_of(receipts: Sequence[str]) -> list[str]:
    """The tasks that some receipts tell of, each once."""
    return [*dict.fromkeys(each.partition("@")[0] for each in receipts)]


def _meant(what: str, receipts: Sequence[str], agents: Mapping[str, AgentView]) -> AgentView | None:
    """Who was sent is meant as it is now, unless that was handed over by itself."""
    task, _, at = what.partition("@")
    agent = agents.get(task)
    if agent is None or not agent.ends or (not at and not agent.status.ended):
        return agent
    ends = [end for end in agent.ends if end.at == at or (not at and receipt(task, end.at) not in receipts)]
    return agent.as_of(ends[-1]) if ends else None


def with_results(agents: Sequence[AgentView | None]) -> list[AgentView]:
    """Those of some agents that have ended and said something."""
    return [each for each in agents if each is not None and each.status.ended and each.result.strip()]


def in_words(agents: Sequence[AgentView]) -> str:
    """What agents came to, for a person who reads; nothing where there are none."""
    told = [f"{name_of(each)} ({each.id}), {each.status}:\n{each.result.strip()}" for each in agents]
    return "\n\n".join((NOT_SUMMED_UP, *told)) if told else ""
