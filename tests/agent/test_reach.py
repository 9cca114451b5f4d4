"""How far an answer reaches, and that a judged place stays the place that is opened."""

import asyncio
from pathlib import Path

import pytest

from gencode.agent.gate import Approvals, CallingAgent, Gate
from gencode.agent.toolbox import Toolbox
from gencode.core.errors import Denied
from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Asker, Question, Reach
from gencode.core.rules import Action, Decision, Mode, Policy, Rule, parse_rule
from gencode.core.spec import Workspace
from gencode.permissions.calls import Approval
from gencode.permissions.grants import Grants, SessionApprovals
from gencode.tools.bash import BASH
from gencode.tools.read import READ
from gencode.tools.write import WRITE


class Person:
    """Says the same to everything, and remembers what was asked."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self._answer


@pytest.fixture
def where(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    (tmp_path / "outside").mkdir()
    return Workspace(tmp_path / "ws", tmp_path / "ws", tmp_path)


def gate(where: Workspace, given: Grants, person: Asker | None = None, mode: Mode = Mode.DEFAULT) -> Gate:
    return Gate(
        chain=(Policy(mode), Policy(mode, owner="agent worker")),
        toolbox=Toolbox([READ, WRITE, BASH]),
        workspace=where,
        agent=CallingAgent("0a0a0a0a", "worker", ("main", "worker")),
        approvals=Approvals(once=set(), given=given, asker=person),
    )


def make(text: str) -> ToolCall:
    return ToolCall("c1", "Bash", {"command": text})


@pytest.mark.parametrize(
    ("reach", "itself", "below", "beside"),
    [
        ("call", "ask", "ask", "ask"),
        ("agent", "allow", "ask", "ask"),
        ("subtree", "allow", "allow", "ask"),
        ("session", "allow", "allow", "allow"),
        ("always", "allow", "allow", "allow"),
    ],
)
async def test_an_answer_reaches_as_far_as_it_says(
    where: Workspace, reach: Reach, itself: str, below: str, beside: str
) -> None:
    session = Grants()
    agent, sibling = Grants(session), Grants(session)
    person = Person(Answer(True, reach))
    admission = await gate(where, agent, person).admit(make("make test"), "what it would do")
    (question,) = person.asked
    assert (admission.decision.action, question.path, question.preview) == (
        Action.ALLOW,
        ("main", "worker"),
        "what it would do",
    )
    assert question.rules == tuple(rule.spelled for rule in question.decision.offers) == ("Bash(make test)",)
    found = [
        gate(where, given, person).judge(make("make test")).action
        for given in (agent, Grants(agent), sibling)
    ]
    assert found == [itself, below, beside]
    assert gate(where, agent, person).judge(make("make install")).action == "ask"


@pytest.mark.parametrize(("reach", "there"), [("subtree", "ask"), ("session", "ask"), ("always", "allow")])
async def test_a_yes_for_one_session_counts_in_no_other_of_the_same_process(
    where: Workspace, reach: Reach, there: str
) -> None:
    process = Grants()
    one, other = Grants(process, session=True), Grants(process, session=True)
    await gate(where, Grants(Grants(one)), Person(Answer(True, reach))).admit(make("make test"))
    assert gate(where, Grants(other), Person(Answer(False))).judge(make("make test")).action == there
    assert (len(one.inherited()) == 1) is (reach != "subtree")


def test_what_is_asked_once_is_remembered_in_its_session_and_what_counts_for_all_in_each() -> None:
    process: set[Approval] = set()
    one, other = SessionApprovals(process), SessionApprovals(process)
    keys = (Approval("host", "example.org"), Approval("reads", "mcp__docs__find"))
    one.add(keys[0])
    process.add(keys[1])
    assert [key in one for key in keys] == [True, True]
    assert [key in other for key in keys] == [False, True]


async def test_a_yes_for_the_session_does_not_lift_plan_mode_or_a_deny_rule(where: Workspace) -> None:
    session = Grants()
    session.add(parse_rule("Bash(make test)", Action.ALLOW), "session")
    assert gate(where, session, mode=Mode.PLAN).judge(make("make test")).action == "deny"
    strict = gate(where, session)
    strict.chain = (Policy(rules=(parse_rule("Bash(make:*)", Action.DENY),)),)
    assert strict.judge(make("make test")).action == "deny"


async def test_a_file_that_was_handed_out_may_be_read_by_this_agent_only(where: Workspace) -> None:
    file = where.root.parent / "outside" / "output.txt"
    file.write_text("x")
    look = ToolCall("c1", "Read", {"file_path": str(file)})
    session = Grants()
    agent = gate(where, Grants(session), Person(Answer(False)))
    sibling = gate(where, Grants(session), Person(Answer(False)))
    assert agent.judge(look).action == "ask"
    agent.allow_reading(file)
    assert (agent.judge(look).action, sibling.judge(look).action) == ("allow", "ask")
    assert agent.judge(ToolCall("c1", "Read", {"file_path": f"{file}.other"})).action == "ask"


def test_a_path_is_judged_again_when_it_is_used(where: Workspace) -> None:
    (where.root / "a.txt").write_text("mine")
    look = ToolCall("c1", "Read", {"file_path": "a.txt"})
    door = gate(where, Grants())
    assert door.place(look, "a.txt", frozenset()).real == str(where.root.resolve() / "a.txt")
    (where.root / "a.txt").unlink()
    (where.root / "a.txt").symlink_to(where.root.parent / "outside" / "secret.txt")
    with pytest.raises(Denied, match="It was allowed a moment ago"):
        door.place(look, "a.txt", frozenset())


def test_a_yes_counts_for_the_place_that_was_shown_and_no_other(where: Workspace) -> None:
    target = where.root.parent / "outside" / "notes.txt"
    link = where.root / "notes.txt"
    link.symlink_to(target)
    change = ToolCall("c1", "Write", {"file_path": "notes.txt"})
    door = gate(where, Grants())
    agreed = door.places(change)
    assert agreed == frozenset({str(target.resolve())})
    assert door.place(change, "notes.txt", agreed).real == str(target.resolve())
    link.unlink()
    link.symlink_to(where.root.parent / "outside" / "another.txt")
    with pytest.raises(Denied):
        door.place(change, "notes.txt", agreed)


def test_rules_are_not_kept_twice() -> None:
    given = Grants(Grants())
    rule = Rule("Bash", "make", Action.ALLOW)
    for reach in ("agent", "agent", "subtree"):
        given.add(rule, reach)
    assert given.rules() == (rule, rule)


@pytest.mark.parametrize(
    ("patterns", "last"),
    [
        (["make test"], True),
        (["npm run a", "npm test"], True),
        (["npm run:*", "npm test"], False),
        (["*"], False),
        ([""], False),
        (['echo "a"'], False),
        (["a) b"], False),
        ([], True),
    ],
)
def test_only_narrow_rules_are_offered_for_more_than_one_call(patterns: list[str], last: bool) -> None:
    offers = tuple(Rule("Bash", pattern, Action.ALLOW) for pattern in patterns)
    assert Decision(Action.ASK, "it is asked", offers=offers).lasting == (offers if last else ())


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class Answering:
    """A person who answers one question when the test lets them, and leaves all others open."""

    def __init__(self, command: str, answer: Answer) -> None:
        self.open: set[str] = set()
        self.let = asyncio.Event()
        self._command = command
        self._answer = answer

    async def ask(self, question: Question) -> Answer:
        command = str(question.call.input["command"])
        self.open.add(command)
        try:
            await (self.let if command == self._command else asyncio.Event()).wait()
        finally:
            self.open.discard(command)
        return self._answer


@pytest.mark.parametrize(("reach", "settled"), [("session", True), ("subtree", False), ("call", False)])
async def test_an_answer_settles_what_is_asked_already_and_no_more_than_it_allows(
    where: Workspace, reach: Reach, settled: bool
) -> None:
    """A second agent asks for the same, and for more; both wait when the first one is answered."""
    session = Grants()
    person = Answering("make test", Answer(True, reach))
    others = Answering("", Answer(False))
    first, other = gate(where, Grants(session), person), gate(where, Grants(session), others)
    asked = [
        asyncio.create_task(door.admit(make(command)))
        for door, command in ((first, "make test"), (other, "make test"), (other, "make install"))
    ]
    await turns()
    assert (person.open, others.open) == ({"make test"}, {"make test", "make install"})
    person.let.set()
    assert (await asked[0]).decision.action == "allow"
    await turns()
    assert others.open == ({"make install"} if settled else {"make test", "make install"})
    if settled:
        assert (await asked[1]).decision == other.judge(make("make test"))
    for each in asked[1:]:
        each.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
