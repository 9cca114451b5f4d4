"""The gate: decides about every tool call of an agent, and asks a person where a rule says so."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from gencode.agent.plugin_calls import cancel_or_abandon
from gencode.agent.toolbox import Tool, Toolbox
from gencode.core.errors import Denied
from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Asker, NobodyAvailable, Question
from gencode.core.rules import (
    Action,
    DecidedBy,
    Decision,
    Mode,
    Policy,
    Remedy,
    Rule,
    RuleOrigin,
    RuleSource,
    merge,
    strictest,
)
from gencode.core.spec import Workspace
from gencode.core.text import disarmed_line
from gencode.permissions.calls import (
    SPAWN_TOOLS,
    AgentKind,
    Approval,
    CallFacts,
    Source,
    agent_of,
    approval_for,
    wider_words,
)
from gencode.permissions.chain import grant_for
from gencode.permissions.decision import NEEDS_APPROVAL, decide, paths_of
from gencode.permissions.grants import Grants
from gencode.permissions.hidden_paths import hidden_paths
from gencode.permissions.links import as_links_lead
from gencode.permissions.paths import PATH_TOOLS, Resolved, decide_path, places_of, resolve, shown
from gencode.permissions.tool_table import NAMED_TOOLS

Relation = Literal["own", "kin", "foreign"]
"""Whose a task or shell is: the caller's, its parent's or a sibling's, or somebody else's."""

_MOST_REMEMBERED = 4_096
WRITES = "SendMessage"
_SOURCES: dict[str, Source] = {"builtin": "builtin", "mcp": "mcp"}
_ANSWER = RuleOrigin(RuleSource.ANSWER)
_OUTPUT = RuleOrigin(RuleSource.OUTPUT)
CHANGED = "It was allowed a moment ago, but the policy or the file has changed since."
ABOUT_TASKS = frozenset({"TaskOutput", "TaskStop", WRITES})
_TARGET_FIELDS = ("task_id", "shell_id")


class RelatedTasks(Protocol):
    """The tasks and background commands that an agent may name in a call."""

    def relation(self, target: str) -> Relation:
        """What a task or command is to the agent."""
        ...

    def own(self, target: str) -> Sequence[str]:
        """The latest of its own, tasks or commands, whichever kind `target` is of."""
        ...

    def reachable(self) -> Sequence[str]:
        """Whom beside its own it may write to if its file says so."""
        ...

    async def meet(self, target: str) -> None:
        """Learn of a task that is not known here; another process may have started it."""
        ...


class NoRelatedTasks:
    """Those of an agent that runs alone: every task is somebody else's."""

    def relation(self, target: str) -> Relation:
        """Nothing is its own."""
        return "foreign"

    def own(self, target: str) -> Sequence[str]:
        """It has started nothing."""
        return ()

    def reachable(self) -> Sequence[str]:
        """It may write to nobody."""
        return ()

    async def meet(self, target: str) -> None:
        """A task that is not known here is not known at all."""


class AgentPolicies(Protocol):
    """What starting an agent means for a decision."""

    def agent_kind(self, name: str) -> AgentKind:
        """Whether an agent is built in and only reads, and so may be started without a question."""
        ...

    def agent_mode(self, name: str) -> Mode | None:
        """The mode of an agent's file; None where it has none and takes its parent's."""
        ...

    def equivalent_call(self, call: ToolCall) -> ToolCall | None:
        """The call that another one leads to, which is judged as well (a skill that starts an agent)."""
        ...


class NoAgents:
    """The policies of agents where there are none to start."""

    def agent_kind(self, name: str) -> AgentKind:
        """None of them only reads."""
        return "other"

    def agent_mode(self, name: str) -> Mode | None:
        """No file says one."""
        return None

    def equivalent_call(self, call: ToolCall) -> ToolCall | None:
        """A call is just what it says."""
        return None


DECLINED = "The user declined this call."
RESPECT = (
    "Respect that: do not try to reach the same by other means. Ask what to do instead, or continue "
    "without it and say so."
)
LONGEST_REASON = 2_000
NESTED = (
    "A subagent can start others only if max_depth in the settings of its machine allows it, and only those "
    "its file names, as in Task(Explore)."
)


class Admission(Struct, frozen=True):
    """What came of a call at the gate; `network` when a person let this one command reach it."""

    decision: Decision
    network: bool = False


class CallingAgent(Struct, frozen=True):
    """Whose calls a gate decides about: its task, its name, the agents above it, the tools its file names."""

    task: str
    name: str
    lineage: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()


class Approvals(Struct, kw_only=True, eq=False):
    """What a person approved and how more can be approved.

    `once` is shared by the session: what is asked only once in it. `given` are the rules that answers gave.
    Questions of a background agent reach nobody, unless a client has taken them on (`disturbs`).
    """

    once: set[Approval]
    given: Grants = field(default_factory=Grants)
    asker: Asker | None = None
    background: bool = False
    disturbs: bool = False

    @property
    def unattended(self) -> bool:
        """Whether the agent works in the background and its questions reach nobody."""
        return self.background and not self.disturbs

    def move_to_background(self) -> None:
        """From now on the agent works in the background."""
        self.background = True


class Gate(Struct, kw_only=True, eq=False):
    """Decides about the calls of one agent. `chain` is read at every call, the root first, its own last."""

    chain: Sequence[Policy]
    toolbox: Toolbox
    workspace: Workspace
    agent: CallingAgent
    approvals: Approvals
    agents: AgentPolicies = NoAgents()
    relatives: RelatedTasks = NoRelatedTasks()
    _handed: dict[str, Rule] = {}
    _readable: dict[tuple[Resolved, tuple[Policy, ...]], bool] = {}

    @property
    def named(self) -> frozenset[str]:
        """The tools that the agent's file names, under the names they have here."""
        box = self.toolbox
        return frozenset(box[name].name if name in box else name for name in self.agent.named)

    @property
    def chain_names(self) -> tuple[str, ...]:
        """The policies that decide here and now, the root first: whose each is, and its mode."""
        return tuple(f"{policy.owner}: {policy.mode}" for policy in self.chain)

    def judge(self, call: ToolCall) -> Decision:
        """The decision without asking anybody; the strictest, where a call leads to another one."""
        decision, other = self._judged(call), self.agents.equivalent_call(call)
        return decision if other is None else strictest((decision, self._judged(other)))

    async def meet(self, call: ToolCall) -> None:
        """Learn of the task that a call speaks of before that is judged."""
        target = _target(call)
        if target is None or call.name not in self.toolbox or self.relatives.relation(target) != "foreign":
            return
        if self.toolbox[call.name].name in ABOUT_TASKS:
            await self.relatives.meet(target)

    def _judged(self, call: ToolCall) -> Decision:
        tool = self.toolbox.get(call.name)
        if tool is None:
            return self._absent(call)
        texts = [text for text in call.input.values() if isinstance(text, str)] if self._handed else ()
        decision = decide(self._facts(call, tool), self._now(*texts))
        if decision.action is Action.ALLOW and (why := tool.doubt()):
            nobody = self.approvals.unattended or self.approvals.asker is None
            decision = needs_person(why, self.chain, nobody=nobody)
        return self._with_candidates(call, decision) if decision.action is Action.DENY else decision

    async def admit(self, call: ToolCall, preview: str = "") -> Admission:
        """The decision, after asking a person where it says so: only `allow` or `deny` come back."""
        decision, asker = self.judge(call), self.approvals.asker
        if decision.action is not Action.ASK or asker is None:
            return Admission(decision)
        wanted, other = call, self.agents.equivalent_call(call)
        if other is not None and self._judged(call).action is Action.ALLOW:
            call = other  # that is what a person has to know
        facts = self._facts(call, self.toolbox[call.name])
        if facts.widens is not None and decision.grants is None:  # a rule asks, and says nothing of the mode
            why = f"{decision.why} Also, {wider_words(facts)}."
            decision = replace(decision, why=why, grants=facts.widens)
        rules = decision.lasting
        question = Question(
            task=self.agent.task,
            agent=self.agent.name,
            call=call,
            decision=decision,
            path=self.agent.lineage,
            preview=preview,
            rules=tuple(rule.spelled for rule in rules),
            cwd=str(self.workspace.cwd),
        )
        try:
            answer = await self._answered(asker, question, wanted)
        except NobodyAvailable:
            problem_only = replace(self, approvals=replace(self.approvals, asker=None)).judge(wanted)
            if problem_only.action is Action.ALLOW:
                return Admission(problem_only)
            answer = Answer(False, why=NEEDS_APPROVAL, by=DecidedBy.NOBODY)
        if answer is None:
            return Admission(self.judge(wanted))
        if not answer.allow:
            return Admission(_declined(decision, answer))
        for rule in rules:
            self.approvals.given.add(replace(rule, origin=_ANSWER), answer.reach)
        approved = (approval_for(facts), approval_for(replace(facts, widens=None)))
        self.approvals.once.update(each for each in approved if each)
        allowed = replace(
            decision,
            action=Action.ALLOW,
            why=f"The user approved this call. {decision.why}",
            remedy=Remedy.OFFERS,
            offers=(),
            removes="",
            by=DecidedBy.USER,
        )
        return Admission(allowed, answer.network)

    async def _answered(self, asker: Asker, question: Question, wanted: ToolCall) -> Answer | None:
        """What a person says; None when an answer to somebody else has come to allow this call as well."""
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def judge_anew() -> None:
            if not given.done() and self.judge(wanted).action is Action.ALLOW:
                given.set_result(None)

        asking = asyncio.ensure_future(asker.ask(question))
        self.approvals.given.listen(given, judge_anew)
        try:
            await asyncio.wait([asking, given], return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            self.approvals.given.listen(given, None)
            given.cancel()
            await cancel_or_abandon(asking, f"the asker {type(asker).__name__}")

    def places(self, call: ToolCall) -> frozenset[str]:
        """Where the paths of a call lead at this moment, every link followed."""
        if call.name not in self.toolbox or self.toolbox[call.name].name not in PATH_TOOLS:
            return frozenset()
        facts = self._facts(call, self.toolbox[call.name])
        return frozenset(path.real for path in paths_of(facts) if not path.refusal)

    def place(self, call: ToolCall, path_text: str, said_yes: frozenset[str]) -> Resolved:
        """A path of an admitted call, judged now; `said_yes` are the places a person agreed to."""
        tool = self.toolbox[call.name]
        name = tool.name
        if name not in PATH_TOOLS:  # a tool from outside is judged as what it does
            name = "Read" if tool.effect == "read" else "Write"
        if self.workspace.copied is not None:
            from gencode.workspaces.transfer.path_translation import path_in_copy

            path_text = path_in_copy(path_text, self.workspace.copied)
        resolved = resolve(path_text, self.workspace)
        decision = strictest(
            decide_path(name, resolved, policy, self.workspace, tool.aliases)
            for policy in self._now(path_text)
        )
        agreed = decision.action is Action.ASK and resolved.real in said_yes
        if decision.action is not Action.ALLOW and not agreed:
            raise Denied(f"{decision.why} {CHANGED}")
        return resolved

    def may_read(self, path_text: str) -> bool:
        """Whether this one file may be looked into without asking: no rule for Read or Grep is against it.

        The disk is looked at anew each time.
        """
        resolved = resolve(path_text, self.workspace)
        places = places_of(self.workspace)
        chain = tuple(as_links_lead(policy, places) for policy in self._now())
        key = (resolved, chain)
        known = self._readable.get(key)
        if known is None:
            known = bool(chain) and all(
                decide_path("Grep", resolved, policy, self.workspace).action is Action.ALLOW
                for policy in chain
            )
            if len(self._readable) >= _MOST_REMEMBERED:
                self._readable.clear()
            self._readable[key] = known
        return known

    def closed(self) -> tuple[str, ...]:
        """Files and folders that a deny rule for Read names by their whole names, as they are now."""
        return hidden_paths(self._now(), places_of(self.workspace))

    def allow_reading(self, file: Path) -> None:
        """Let this agent read a file that GenCode wrote for it, wherever it lies."""
        self._handed[file.name] = Rule("Read", str(file), Action.ALLOW, _OUTPUT)

    def _now(self, *texts: str) -> tuple[Policy, ...]:
        """The chain at this moment, with what a person said yes to for this agent or those above it.

        Of the files that were handed out only those count that one of these texts names: there may be many.
        """
        chain = tuple(self.chain)
        given = self.approvals.given.rules()
        if self._handed:
            names = {text.rpartition("/")[2] for text in texts}
            given = (*given, *(self._handed[name] for name in names if name in self._handed))
        return (
            tuple(replace(policy, rules=merge(policy.rules, given)) for policy in chain) if given else chain
        )

    def _facts(self, call: ToolCall, tool: Tool) -> CallFacts:
        target = _target(call)
        relation = "foreign" if target is None else self.relatives.relation(target)
        agent = agent_of(tool.name, call.input) if tool.name in SPAWN_TOOLS else None
        return CallFacts(
            tool=tool.name,
            input=call.input,
            effect=tool.effect,
            workspace=self.workspace,
            source=_SOURCES.get(tool.source, "plugin"),
            aliases=tool.aliases,
            background=self.approvals.unattended,
            answerable=self.approvals.asker is not None,
            named=self.named if tool.name in NAMED_TOOLS else frozenset(),
            agent_kind="" if agent is None else self.agents.agent_kind(agent),
            own=relation == "own",
            kin=relation == "kin",
            already=self.approvals.once,
            caller=self.agent.task,
            widens=grant_for(self.chain[-1], self.agents.agent_mode(agent)) if agent and self.chain else None,
        )

    def _with_candidates(self, call: ToolCall, decision: Decision) -> Decision:
        """A refusal of somebody else's task or shell, with those that are the caller's own."""
        target = _target(call)
        if target is None or self.relatives.relation(target) != "foreign":
            return decision
        own = ", ".join(self.relatives.own(target)) or "none"
        why = f"{decision.why} Your own are: {own}."
        if self.may_write and self.toolbox[call.name].name == WRITES and (kin := self.relatives.reachable()):
            why = f"{why} You can also write to: {', '.join(kin)}."
        return replace(decision, why=why)

    @property
    def may_write(self) -> bool:
        """Whether the agent may write to its sender and to those beside it: its file says so."""
        return WRITES in self.named and WRITES in self.toolbox

    def _absent(self, call: ToolCall) -> Decision:
        if absence := self.toolbox.why_absent(call.name):
            why = f"{shown(call.name)} is not available now. {absence.why}"
            by = DecidedBy.NOBODY if absence.unapproved else DecidedBy.RULES
            return Decision(Action.DENY, why, remedy=Remedy.SERVER, by=by)
        there = ", ".join(self.toolbox) or "none"
        why = f"There is no tool {shown(call.name)} for {self.agent.name}. The tools are: {there}."
        if call.name in SPAWN_TOOLS and call.name in self.named:
            why = f"{why} {NESTED}"
        return Decision(Action.DENY, why, remedy=Remedy.OTHER_AGENT)


def needs_person(why: str, chain: Sequence[Policy], *, nobody: bool) -> Decision:
    """A call that only a person can let through: where nobody can approve it, it is refused."""
    if nobody or any(policy.mode is Mode.UNATTENDED for policy in chain):
        return Decision(Action.DENY, f"{NEEDS_APPROVAL}. {why}", remedy=Remedy.APPROVAL, by=DecidedBy.NOBODY)
    return Decision(Action.ASK, why, remedy=Remedy.APPROVAL)


def _declined(asked: Decision, answer: Answer) -> Decision:
    """The refusal of a call that somebody was asked about: a person declined it, or nobody answered."""
    by_user = answer.by is DecidedBy.USER
    said = answer.why.strip() if by_user else ""
    head = DECLINED + (f" Their reason: {said.rstrip('.')}." if said else "") if by_user else f"{answer.why}."
    return replace(asked, action=Action.DENY, why=f"{head} {asked.why}", by=answer.by, said=said)


def refusal(decision: Decision) -> str:
    """What the model reads about a call that was refused: who refused it, and what to do next."""
    match decision.by:
        case DecidedBy.USER:
            reason = f" Their reason: {disarmed_line(decision.said, LONGEST_REASON)}" if decision.said else ""
            return f"{DECLINED}{reason}\n{RESPECT}"
        case DecidedBy.NOBODY | DecidedBy.SILENCE:
            return f"Refused: {decision.why[:1].lower()}{decision.why[1:]}"
        case DecidedBy.RULES | DecidedBy.HOOK:
            return decision.why


def _target(call: ToolCall) -> str | None:
    """The task or shell that a call speaks of."""
    for name in _TARGET_FIELDS:
        if name in call.input:
            target = call.input[name]
            return target if isinstance(target, str) else None
    return None
