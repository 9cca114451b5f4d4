"""The gate: decides about every tool call of an agent, and asks a person where a rule says so."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

from gencode.agent.plugin_calls import cancel_or_abandon
from gencode.agent.toolbox import Tool, Toolbox
from gencode.core.errors import Denied
from gencode.core.messages import ToolCall
from gencode.core.questions import RUNS_COMMANDS, Answer, Asker, NobodyAvailable, Question
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
from gencode.core.structs import replace
from gencode.core.text import disarmed_line
from gencode.permissions.bash.prefix_rules import prefix_rules
from gencode.permissions.calls import (
    SPAWN_TOOLS,
    AgentKind,
    Approval,
    CallFacts,
    Source,
    SpawnApproval,
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

Relation = Literal["own", "related", "foreign"]
"""The owner of a task or shell: the caller, its parent or a sibling, or another agent."""

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
        """The relation of a task or command to the agent."""
        ...

    def own(self, target: str) -> Sequence[str]:
        """Its own latest tasks or commands, of the kind that `target` is of."""
        ...

    def reachable(self) -> Sequence[str]:
        """The other agents it may send messages to, if its file says so."""
        ...

    async def look_up(self, target: str) -> None:
        """Look up a task that is not known here; another process may have started it."""
        ...


class NoRelatedTasks:
    """The related tasks of an agent that runs alone: none."""

    def relation(self, target: str) -> Relation:
        """Every task is somebody else's."""
        return "foreign"

    def own(self, target: str) -> Sequence[str]:
        """There are none."""
        return ()

    def reachable(self) -> Sequence[str]:
        """There are none."""
        return ()

    async def look_up(self, target: str) -> None:
        """There is no store to look in."""


class AgentPolicies(Protocol):
    """What starting an agent means for a decision."""

    def agent_kind(self, name: str) -> AgentKind:
        """Whether an agent is built in and only reads, and so may be started without approval."""
        ...

    def agent_mode(self, name: str) -> Mode | None:
        """The mode in an agent's file; None if it takes its parent's."""
        ...

    def equivalent_call(self, call: ToolCall) -> ToolCall | None:
        """The call that another one results in, which is decided as well (a skill that starts an agent)."""
        ...


class NoAgents:
    """The policies of agents if there are none to start."""

    def agent_kind(self, name: str) -> AgentKind:
        """None of them only reads."""
        return "other"

    def agent_mode(self, name: str) -> Mode | None:
        """No file sets one."""
        return None

    def equivalent_call(self, call: ToolCall) -> ToolCall | None:
        """A call results in no other."""
        return None


DECLINED = "The user declined this call."
RESPECT = (
    "Respect that: do not try to achieve the same by other means. Ask what to do instead, or continue "
    "without it and say so."
)
FOLLOW = "Follow what they wrote, and do not try to achieve the same by other means unless they ask for that."
LONGEST_REASON = 2_000
NESTED = (
    "A subagent can start others only if max_depth in the settings of its machine allows it, and only those "
    "its file names, as in Task(Explore)."
)


SWITCHED_OFF = "The user can enable {name} with the setting tools, as in GEN_TOOLS={name}."
READS_ONLY = "Only reading is allowed in this mode, so tools that change something are not available."
NO_TOOLS = Toolbox()


class Admission(Struct, frozen=True):
    """The gate's decision about a call; `network` if a person gave this one command access to it."""

    decision: Decision
    network: bool = False


class CallingAgent(Struct, frozen=True):
    """The agent of a gate: its task, its name, the agents above it, the tools its file names.

    `project`: its file came with the folder it works in.
    """

    task: str
    name: str
    lineage: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()
    project: bool = False


class Approvals(Struct, kw_only=True, eq=False):
    """What a person approved, and how more can be approved.

    `once` are the approvals that a session asks for only once. `given` are the rules that answers granted.
    Questions of a background agent reach nobody, unless a client accepts them (`disturbs`).
    """

    once: set[Approval]
    given: Grants = field(default_factory=Grants)
    asker: Asker | None = None
    background: bool = False
    disturbs: bool = False
    spawning: SpawnApproval = "session"
    web_read_hosts: tuple[str, ...] = ()

    @property
    def unattended(self) -> bool:
        """Whether the agent is in the background and its questions reach nobody."""
        return self.background and not self.disturbs

    @property
    def reach_person(self) -> bool:
        """Whether a person can approve calls."""
        return self.asker is not None and not self.unattended

    def move_to_background(self) -> None:
        """Mark the agent as working in the background."""
        self.background = True


class Gate(Struct, kw_only=True, eq=False):
    """Decides the calls of one agent. `chain` is read at every call, the root first, its own last."""

    chain: Sequence[Policy]
    toolbox: Toolbox
    workspace: Workspace
    agent: CallingAgent
    approvals: Approvals
    agents: AgentPolicies = NoAgents()
    relatives: RelatedTasks = NoRelatedTasks()
    registered: Toolbox = NO_TOOLS
    """Every tool there is, for an agent that a person gives more of them by a setting."""
    _handed: dict[str, Rule] = {}
    _readable: dict[tuple[Resolved, tuple[Policy, ...]], bool] = {}

    @property
    def named(self) -> frozenset[str]:
        """The tools that the agent's file names, by their names here."""
        box = self.toolbox
        return frozenset(box[name].name if name in box else name for name in self.agent.named)

    @property
    def chain_names(self) -> tuple[str, ...]:
        """The policies that decide now, the root first: the owner of each, and its mode."""
        return tuple([f"{policy.owner}: {policy.mode}" for policy in self.chain[:]])

    @property
    def grants_network(self) -> bool:
        """Whether a person can give a command network access; one that only reads is given none."""
        if not self.approvals.reach_person:
            return False
        return {policy.mode for policy in self.chain}.isdisjoint((Mode.PLAN, Mode.UNATTENDED))

    def judge(self, call: ToolCall) -> Decision:
        """The decision without asking anybody; the strictest one if a call results in another."""
        decision, other = self._judged(call), self.agents.equivalent_call(call)
        return decision if other is None else strictest((decision, self._judged(other)))

    async def look_up(self, call: ToolCall) -> None:
        """Look up the task that a call names before the call is decided."""
        target = _target(call)
        if target is None or call.name not in self.toolbox or self.relatives.relation(target) != "foreign":
            return
        if self.toolbox[call.name].name in ABOUT_TASKS:
            await self.relatives.look_up(target)

    def _judged(self, call: ToolCall) -> Decision:
        tool = self.toolbox.get(call.name)
        if tool is None:
            return self._absent(call)
        texts = [text for text in call.input.values() if isinstance(text, str)] if self._handed else ()
        decision = decide(self._facts(call, tool), self._now(*texts))
        wish = network_request(call, tool)
        if decision.action is Action.ALLOW and (why := wish or tool.doubt()):
            decision = needs_person(why, self.chain, nobody=not self.approvals.reach_person)
        elif wish and decision.by is DecidedBy.NOBODY:  # a rule would not be enough
            decision = replace(decision, why=f"{decision.why} {wish}", offers=())
        return self._with_candidates(call, decision) if decision.action is Action.DENY else decision

    async def admit(self, call: ToolCall, preview: str = "") -> Admission:
        """The decision, after asking a person if needed: only `allow` or `deny` are returned."""
        decision, asker = self.judge(call), self.approvals.asker
        if decision.action is not Action.ASK or asker is None:
            return Admission(decision)
        wanted, other = call, self.agents.equivalent_call(call)
        if other is not None and self._judged(call).action is Action.ALLOW:
            call = other  # the person has to see this call
        facts = self._facts(call, self.toolbox[call.name])
        if facts.widens is not None and decision.grants is None:  # a rule asks, without a mode
            why = f"{decision.why} Also, {wider_words(facts)}."
            decision = replace(decision, why=why, grants=facts.widens)
        rules = decision.lasting
        prefixes = prefix_rules(rules)
        question = Question(
            task=self.agent.task,
            agent=self.agent.name,
            call=call,
            decision=decision,
            path=self.agent.lineage,
            preview=preview,
            rules=tuple(rule.spelled for rule in rules),
            prefixes=tuple(rule.spelled for rule in prefixes),
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
        for rule in prefixes if answer.prefix else rules:
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
        return Admission(allowed, answer.network or bool(network_request(call, self.toolbox[call.name])))

    async def _answered(self, asker: Asker, question: Question, wanted: ToolCall) -> Answer | None:
        """The answer of a person; None if the answer to another question now allows this call as well."""
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
        """Where the paths of a call lead at this moment, with every link resolved."""
        if call.name not in self.toolbox or self.toolbox[call.name].name not in PATH_TOOLS:
            return frozenset()
        facts = self._facts(call, self.toolbox[call.name])
        return frozenset(path.real for path in paths_of(facts) if not path.refusal)

    def place(self, call: ToolCall, path_text: str, said_yes: frozenset[str]) -> Resolved:
        """A path of an admitted call, resolved now; `said_yes` are the places that a person approved."""
        tool = self.toolbox[call.name]
        name = tool.name
        if name not in PATH_TOOLS:  # a tool from outside is decided by what it does
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
        """Whether this file may be read without approval: no rule for Read or Grep is against it.

        The disk is read each time.
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
        """Files and folders that a deny rule for Read names exactly, as they are now."""
        return hidden_paths(self._now(), places_of(self.workspace))

    def allow_reading(self, file: Path) -> None:
        """Let this agent read a file that GenCode wrote for it, wherever that is."""
        self._handed[file.name] = Rule("Read", str(file), Action.ALLOW, _OUTPUT)

    def _now(self, *texts: str) -> tuple[Policy, ...]:
        """The chain at this moment, with the rules that a person granted to this agent or its ancestors.

        Of the output files only those are included that one of these texts names: there may be many.
        """
        chain = tuple(self.chain[:])
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
            of_project=self.agent.project,
            agent_kind="" if agent is None else self.agents.agent_kind(agent),
            own=relation == "own",
            kin=relation == "related",
            already=self.approvals.once,
            caller=self.agent.task,
            widens=grant_for(self.chain[-1], self.agents.agent_mode(agent)) if agent and self.chain else None,
            spawn_approval=self.approvals.spawning,
            web_read_hosts=self.approvals.web_read_hosts,
        )

    def _with_candidates(self, call: ToolCall, decision: Decision) -> Decision:
        """The refusal of somebody else's task or shell, with a list of the caller's own."""
        target = _target(call)
        if target is None or self.relatives.relation(target) != "foreign":
            return decision
        own = ", ".join(self.relatives.own(target))
        why = f"{decision.why} {f'Your own are: {own}.' if own else 'You have none.'}"
        if self.may_write and self.toolbox[call.name].name == WRITES and (kin := self.relatives.reachable()):
            why = f"{why} You can also write to: {', '.join(kin)}."
        return replace(decision, why=why)

    @property
    def may_write(self) -> bool:
        """Whether the agent may send messages to its parent and siblings, because its file says so."""
        return WRITES in self.named and WRITES in self.toolbox

    def _absent(self, call: ToolCall) -> Decision:
        if absence := self.toolbox.why_absent(call.name):
            why = f"{shown(call.name)} is not available now. {absence.why}"
            by = DecidedBy.NOBODY if absence.unapproved else DecidedBy.RULES
            return Decision(Action.DENY, why, remedy=Remedy.SERVER, by=by)
        there = ", ".join(each.name for each in self.toolbox.schemas() if each.name in self.toolbox) or "none"
        why = f"There is no tool {shown(call.name)} for {self.agent.name}. The tools are: {there}."
        if call.name in SPAWN_TOOLS and call.name in self.named:
            why = f"{why} {NESTED}"
        elif call.name in self.registered and self._can_be_enabled(tool := self.registered[call.name]):
            why = f"{why} {SWITCHED_OFF.format(name=tool.name)}"
        if any(policy.mode is Mode.PLAN for policy in self.chain):
            why = f"{why} {READS_ONLY}"
        return Decision(Action.DENY, why, remedy=Remedy.OTHER_AGENT)

    def _can_be_enabled(self, tool: Tool) -> bool:
        """Whether a setting would give this agent a tool that it does not have now."""
        plans = any(policy.mode is Mode.PLAN for policy in self.chain)
        return tool.on_request and not (plans and tool.effect == "write")


def network_request(call: ToolCall, tool: Tool) -> str:
    """The reason a command gives for network access, which only a person can grant, for this one call."""
    reason = call.input.get("network") if tool.name in RUNS_COMMANDS else None
    return "It asks for network access." if isinstance(reason, str) and reason.strip() else ""


def needs_person(why: str, chain: Sequence[Policy], *, nobody: bool) -> Decision:
    """A call that only a person can allow: if nobody can approve it, it is refused."""
    if nobody or any(policy.mode is Mode.UNATTENDED for policy in chain):
        return Decision(Action.DENY, f"{NEEDS_APPROVAL}. {why}", remedy=Remedy.APPROVAL, by=DecidedBy.NOBODY)
    return Decision(Action.ASK, why, remedy=Remedy.APPROVAL)


def _declined(asked: Decision, answer: Answer) -> Decision:
    """The refusal of a call after a question: the user declined it, or nobody answered."""
    by_user = answer.by is DecidedBy.USER
    said = answer.why.strip() if by_user else ""
    head = DECLINED + (f" They wrote: {said.rstrip('.')}." if said else "") if by_user else f"{answer.why}."
    return replace(asked, action=Action.DENY, why=f"{head} {asked.why}", by=answer.by, said=said)


def refusal(decision: Decision) -> str:
    """What the model reads about a refused call: who refused it, and what to do next."""
    match decision.by:
        case DecidedBy.USER:
            if decision.said:
                return f"{DECLINED} They wrote: {disarmed_line(decision.said, LONGEST_REASON)}\n{FOLLOW}"
            return f"{DECLINED}\n{RESPECT}"
        case DecidedBy.NOBODY | DecidedBy.SILENCE:
            rules = decision.offers if decision.by is DecidedBy.NOBODY else ()
            named = " and ".join(f"`{rule.spelled}`" for rule in rules)
            mode = "the mode acceptEdits or " if decision.remedy is Remedy.OFFERS_OR_ACCEPT_EDITS else ""
            plural = "s" if rules[1:] else ""
            way = f" The user can allow it with {mode}the rule{plural} {named}." if rules else ""
            return f"Refused: {decision.why[:1].lower()}{decision.why[1:]}{way}"
        case DecidedBy.RULES if decision.remedy not in (Remedy.OTHER_AGENT, Remedy.SERVER):
            return f"Refused: {decision.why}"
        case DecidedBy.RULES | DecidedBy.HOOK:
            return decision.why


def _target(call: ToolCall) -> str | None:
    """The task or shell that a call names."""
    for name in _TARGET_FIELDS:
        if name in call.input:
            target = call.input[name]
            return target if isinstance(target, str) else None
    return None
