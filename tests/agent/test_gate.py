from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.agent.gate import (
    NESTED,
    READS_ONLY,
    Approvals,
    CallingAgent,
    Gate,
    NoAgents,
    NoRelatedTasks,
    RelatedTasks,
    Relation,
    refusal,
)
from gencode.agent.toolbox import Tool, Toolbox, ToolContext, tool
from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Asker, Question
from gencode.core.rules import Action, DecidedBy, Decision, Effect, Mode, Policy, Remedy, parse_rule
from gencode.core.spec import Workspace
from gencode.permissions.calls import AgentKind, Approval


class ScriptedAsker:
    """Answers in the order it was given, and keeps what it was asked."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(self.answers.pop(0))


def make(name: str, effect: Effect = "read", aliases: tuple[str, ...] = (), source: str = "builtin") -> Tool:
    @tool(effect=effect, name=name, aliases=aliases, description=f"{name} for a test.")
    async def nothing(ctx: ToolContext) -> str:
        return ""

    return replace(nothing, source=source)


BOX = Toolbox(
    [
        make("Read", aliases=("read_file",)),
        make("Write", "write"),
        make("WebFetch"),
        make("Task", "delegate"),
        make("TaskStop", "execute"),
        make("SendMessage", "execute"),
        make("memory_write", "write"),
        make("deploy", "execute", source="plugin"),
        make("mcp__a__b", source="mcp"),
    ]
)


class ExploreReads(NoAgents):
    """One built-in agent that only reads."""

    def agent_kind(self, name: str) -> AgentKind:
        return "builtin-reader" if name == "Explore" else "other"


@pytest.fixture
def where(tmp_path: Path) -> Workspace:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.txt").write_text("a")
    return Workspace(tmp_path / "ws", tmp_path / "ws", tmp_path / "home")


def gate(
    where: Workspace,
    *policies: Policy,
    chain: Sequence[Policy] = (),
    toolbox: Toolbox = BOX,
    named: frozenset[str] = frozenset(),
    once: set[Approval] | None = None,
    asker: Asker | None = None,
    background: bool = False,
    relatives: RelatedTasks | None = None,
) -> Gate:
    return Gate(
        chain=chain or policies or (Policy(),),
        toolbox=toolbox,
        workspace=where,
        agent=CallingAgent("9f3a1c2e", "main", named=named),
        approvals=Approvals(once=set() if once is None else once, asker=asker, background=background),
        agents=ExploreReads(),
        relatives=relatives or NoRelatedTasks(),
    )


def call(name: str, **given: Any) -> ToolCall:
    return ToolCall("c1", name, given)


def test_a_tool_that_is_not_in_the_box_is_refused_with_the_tools_that_are(where: Workspace) -> None:
    small = gate(where, Policy(Mode.DONT_ASK), toolbox=BOX.only(["Read", "Task"]))
    assert small.judge(call("Write", file_path="a.txt")) == Decision(
        Action.DENY,
        "There is no tool 'Write' for main. The tools are: Read, Task.",
        remedy=Remedy.OTHER_AGENT,
    )


def test_where_only_reading_is_allowed_a_missing_tool_is_explained(where: Workspace) -> None:
    small = gate(where, Policy(Mode.PLAN), toolbox=BOX.only(["Read"]))
    said = small.judge(call("Write", file_path="a.txt")).why
    assert said == f"There is no tool 'Write' for main. The tools are: Read. {READS_ONLY}"


def test_a_refusal_without_an_approver_names_what_the_user_can_allow(where: Workspace) -> None:
    said = refusal(gate(where).judge(call("Write", file_path="a.txt")))
    assert said.startswith("Refused: this needs approval, and nobody can approve it in this run. Write of ")
    assert said.endswith(
        f" The user can allow it with the mode acceptEdits or the rule `Write({where.cwd}/a.txt)`."
    )


def test_a_refusal_by_a_rule_says_that_it_is_one(where: Workspace) -> None:
    denied = gate(where, Policy(rules=(parse_rule("Read", Action.DENY),)))
    said = refusal(denied.judge(call("Read", file_path="a.txt")))
    assert said.startswith("Refused: Read of 'a.txt': the rule ")


def test_an_agent_whose_file_names_others_in_vain_is_told_what_is_needed(where: Workspace) -> None:
    small = gate(where, toolbox=BOX.only(["Read"]), named=frozenset({"Read", "Task"}))
    said = small.judge(call("Task", subagent_type="Explore")).why
    assert said == f"There is no tool 'Task' for main. The tools are: Read. {NESTED}"


def test_an_alias_is_judged_as_its_tool(where: Workspace) -> None:
    assert gate(where).judge(call("read_file", file_path="a.txt")).action == "allow"
    assert gate(where).judge(call("READ-FILE", file_path="/proc/self/mem")).action == "deny"


def test_without_an_asker_what_is_asked_is_denied(where: Workspace) -> None:
    assert gate(where).judge(call("Write", file_path="a.txt")).action == "deny"


async def test_a_yes_admits_exactly_this_call(where: Workspace) -> None:
    asker = ScriptedAsker(True, False)
    door = gate(where, asker=asker)
    write = call("Write", file_path="a.txt")
    asked = door.judge(write)
    assert asked.action == "ask"
    assert (await door.admit(write)).decision == Decision(
        Action.ALLOW,
        f"The user approved this call. {asked.why}",
        asked.rule,
        asked.policy,
        by=DecidedBy.USER,
    )
    assert (await door.admit(write)).decision == Decision(
        Action.DENY,
        f"The user declined this call. {asked.why}",
        asked.rule,
        asked.policy,
        asked.remedy,
        by=DecidedBy.USER,
        offers=asked.offers,
    )
    rules = (f"Write({where.root.resolve()}/a.txt)",)
    question = Question("9f3a1c2e", "main", write, asked, rules=rules, cwd=str(where.cwd))
    assert asker.asked == [question] * 2


async def test_nobody_is_asked_about_what_is_allowed_or_denied(where: Workspace) -> None:
    asker = ScriptedAsker()
    door = gate(where, asker=asker)
    found = [(await door.admit(call("Read", file_path=path))).decision for path in ("a.txt", "/dev/null")]
    assert ([each.action for each in found], asker.asked) == (["allow", "deny"], [])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (call("WebFetch", url="https://x.org/a"), call("WebFetch", url="https://X.org/b")),
        (call("Task", subagent_type="my agent"), call("Task", subagent_type="My-Agent")),
        (call("mcp__a__b", x=1), call("mcp__a__b", x=2)),
    ],
)
async def test_a_yes_is_remembered_for_the_session_where_the_table_says_so(
    first: ToolCall, second: ToolCall, where: Workspace
) -> None:
    once: set[Approval] = set()
    asker = ScriptedAsker(True)
    parent = gate(where, asker=asker, once=once)
    child = gate(where, Policy(), Policy(), asker=asker, once=once)
    assert (await parent.admit(first)).decision.action == "allow"
    assert (await child.admit(second)).decision.action == "allow"
    assert len(asker.asked) == 1


async def test_a_no_is_not_remembered(where: Workspace) -> None:
    asker = ScriptedAsker(False, True)
    door = gate(where, asker=asker)
    fetch = call("WebFetch", url="https://x.org/")
    assert [(await door.admit(fetch)).decision.action for _ in range(2)] == ["deny", "allow"]


async def test_a_remembered_yes_does_not_answer_an_ask_rule(where: Workspace) -> None:
    asker = ScriptedAsker(True, True)
    door = gate(where, Policy(rules=(parse_rule("WebFetch", Action.ASK),)), asker=asker)
    for _ in range(2):
        assert (await door.admit(call("WebFetch", url="https://x.org/"))).decision.action == "allow"
    assert len(asker.asked) == 2


async def test_a_background_agent_asks_nobody(where: Workspace) -> None:
    asker = ScriptedAsker()
    door = gate(where, asker=asker, background=True)
    assert (await door.admit(call("Write", file_path="a.txt"))).decision.action == "deny"
    assert asker.asked == []


def test_the_kind_of_agent_decides_about_spawning(where: Workspace) -> None:
    door = gate(where, asker=ScriptedAsker())
    found = [door.judge(call("Task", subagent_type=name)).action for name in ("Explore", "mine")]
    assert found == ["allow", "ask"]


def test_whose_task_it_is_decides_about_stopping_it(where: Workspace) -> None:
    class Two(NoRelatedTasks):
        """A child and a sibling."""

        def relation(self, target: str) -> Relation:
            return "own" if target == "mine" else "related" if target == "sibling" else "foreign"

    door = gate(where, relatives=Two(), named=frozenset({"send_message"}))
    found = {
        (name, target): door.judge(call(name, task_id=target)).action.value
        for name in ("TaskStop", "SendMessage")
        for target in ("mine", "sibling", "stranger")
    }
    assert found == {
        ("TaskStop", "mine"): "allow",
        ("TaskStop", "sibling"): "deny",
        ("TaskStop", "stranger"): "deny",
        ("SendMessage", "mine"): "allow",
        ("SendMessage", "sibling"): "allow",
        ("SendMessage", "stranger"): "deny",
    }
    assert gate(where).judge(call("TaskStop", task_id="mine")).action == "deny"


def test_tools_the_agents_file_names_are_known_by_any_spelling(where: Workspace) -> None:
    door = gate(where, named=frozenset({"MemoryWrite"}))
    assert door.judge(call("memory_write")).action == "allow"


def test_a_plugin_is_judged_by_its_effect(where: Workspace) -> None:
    door = gate(where, Policy(Mode.PLAN), asker=ScriptedAsker())
    assert door.judge(call("deploy")).action == "deny"


def test_the_policy_in_force_at_the_call_decides(where: Workspace) -> None:
    chain = [Policy()]
    door = gate(where, chain=chain, asker=ScriptedAsker())
    write = call("Write", file_path="a.txt")
    before = (door.judge(write).action, door.may_read("a.txt"))
    chain[0] = Policy(Mode.ACCEPT_EDITS, (parse_rule("Read(a.txt)", Action.DENY),), "session")
    assert (before, (door.judge(write).action, door.may_read("a.txt"))) == (("ask", True), ("allow", False))


def test_the_chain_is_named_from_the_root_down(where: Workspace) -> None:
    door = gate(where, Policy(owner="session"), Policy(Mode.PLAN, owner="agent Explore"))
    assert door.chain_names == ("session: default", "agent Explore: plan")


def test_may_read_is_the_decision_for_read(where: Workspace) -> None:
    (where.root / ".env").write_text("KEY=1")
    (where.root / "gone").symlink_to("/etc/hosts")
    deny = parse_rule("Read(*.secret)", Action.DENY)
    door = gate(where, Policy(), Policy(rules=(deny,)), asker=ScriptedAsker())
    paths = ["a.txt", "missing.txt", ".env", "gone", "x.SECRET", "/dev/null", "", "../x"]
    by_rule = [door.judge(call("Read", file_path=path)).action == "allow" for path in paths]
    assert [door.may_read(path) for path in paths] == by_rule
    assert by_rule == [True, True, False, False, False, False, False, False]


def test_may_read_notices_a_file_that_became_a_link(where: Workspace) -> None:
    door = gate(where)
    before = door.may_read("a.txt")
    (where.root / "a.txt").unlink()
    (where.root / "a.txt").symlink_to("/etc/hosts")
    assert (before, door.may_read("a.txt")) == (True, False)


def test_may_read_stays_right_beyond_its_memory(where: Workspace) -> None:
    door = gate(where, Policy(rules=(parse_rule("Read(*7)", Action.DENY),)))
    assert {name for name in range(5_000) if not door.may_read(f"f{name}")} == set(range(7, 5_000, 10))
