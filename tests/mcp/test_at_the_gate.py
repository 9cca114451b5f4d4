"""What the gate says about tools of servers, in every mode."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.gate import Approvals, CallingAgent, Gate
from gencode.agent.toolbox import Toolbox
from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Question
from gencode.core.rules import Action, Mode, Policy, parse_rule
from gencode.mcp.tool_list import parse_tool
from tests.mcp.fleet import Fleet, offer


class Person:
    """Says yes to everything, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(True)


async def gate(fleet: Fleet, mode: Mode, *rules: str, reads: tuple[str, ...] = ()) -> tuple[Gate, Person]:
    """A gate before a server with the tool `look`, which calls itself reading, and `change`."""
    tools = [*offer("look", annotations={"readOnlyHint": True}), *offer("change")]
    servers = await fleet.open(odd={**fleet.odd(tools=tools), "reads": list(reads)})
    person = Person()
    policy = Policy(mode, tuple(parse_rule(rule, Action.ALLOW) for rule in rules))
    made = Gate(
        chain=(policy,),
        toolbox=Toolbox(servers.tools()),
        workspace=fleet.desk.workspace,
        agent=CallingAgent("0000abcd", "main"),
        approvals=Approvals(once=fleet.answered, asker=person),
    )
    return made, person


LOOK, CHANGE = ToolCall("c1", "mcp__odd__look", {}), ToolCall("c2", "mcp__odd__change", {})


@pytest.mark.parametrize(
    ("mode", "reads", "rules", "expected"),
    [
        (Mode.DEFAULT, (), (), ["ask", "ask"]),
        (Mode.ACCEPT_EDITS, (), (), ["ask", "ask"]),
        (Mode.DEFAULT, (), ("mcp__odd__look",), ["allow", "ask"]),
        (Mode.DONT_ASK, (), (), ["allow", "allow"]),
        (Mode.UNATTENDED, (), (), ["deny", "deny"]),
        (Mode.PLAN, (), (), ["deny", "deny"]),
        (Mode.PLAN, ("*",), (), ["allow", "deny"]),
    ],
)
async def test_modes(
    fleet: Fleet, mode: Mode, reads: tuple[str, ...], rules: tuple[str, ...], expected: list[str]
) -> None:
    made, _ = await gate(fleet, mode, *rules, reads=reads)
    assert [str(made.judge(call).action) for call in (LOOK, CHANGE)] == expected


async def test_a_tool_is_asked_about_once_in_a_session(fleet: Fleet) -> None:
    made, person = await gate(fleet, Mode.DEFAULT)
    for call in (LOOK, LOOK, CHANGE):
        assert (await made.admit(call)).decision.action is Action.ALLOW
    assert [question.call.name for question in person.asked] == [LOOK.name, CHANGE.name]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(("description", "title", "annotations", "outputSchema", "inputSchema"))


@given(key=KEYS, value=JSON)
def test_whatever_changes_in_a_tool_changes_what_was_approved(key: str, value: Any) -> None:
    (before,) = offer("one")
    after = {**before, key: {**before["inputSchema"], "x": value} if key == "inputSchema" else value}
    same = before.get(key) == after.get(key)
    assert (parse_tool(before).digest == parse_tool(after).digest) is same
