"""A child never gets more than any ancestor: random chains, modes, rules, grants and switches of the mode."""

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from gencode.core.rules import Action, Mode, Policy, Rule
from gencode.core.spec import Workspace
from gencode.permissions.calls import SPAWN_TOOLS, Approval, CallFacts
from gencode.permissions.chain import Chain, ChainLink, Root
from gencode.permissions.decision import decide

WHERE = Workspace(Path("/ws"), Path("/ws"), Path("/home/me"))
STRICTNESS = {Action.ALLOW: 0, Action.ASK: 1, Action.DENY: 2}
LIFTABLE = (Mode.DEFAULT, Mode.ACCEPT_EDITS)

COMMANDS = [
    *("ls", "git status", "git push origin main", "rm -rf build", "sudo rm x", "timeout 9 git push", "$x y"),
    *("cat .env", "cat src/a.py > b", "echo $(rm x)", "FOO=1 make", "sh -c 'rm x'", "find . -exec rm {} +"),
    *("cat 'unclosed", "cd src && cat a.py", ""),
]
PATHS = ["a.py", "src/a.py", "src/deep/b", ".env", ".git/x", "/srv/x", "~/x", "../y", "~bob/x", ""]
URLS = ["https://x.org/", "http://X.org./a", "https://sub.x.org/", "nonsense", "http://10.0.0.1/"]
FILE_TOOLS = ["Read", "LS", "Glob", "Grep", "Write", "Edit", "delete_file", "get_file_info"]
OTHERS = ["WebFetch", "http_get", "Task", "spawn", "http_post", "TodoWrite", "memory_write", "TaskStop"]
FOREIGN = ["SendMessage", "mcp__a__b", "surprise", "count_lines"]
BASH_PATTERNS = ["git push:*", "rm:*", "git *", "ls", "cat *", "* x", "*", "make:*", "git status"]
PATTERNS = ["a.py", "A.PY", "*.py", "src/**", "**/b", "/srv/*", "~/x", ".env", "mine", "domain:x.org", ""]

RULES = st.one_of(
    st.builds(Rule, st.just("Bash"), st.sampled_from(BASH_PATTERNS), st.sampled_from(Action)),
    st.builds(
        Rule,
        st.sampled_from([*FILE_TOOLS, *OTHERS, *FOREIGN, "*", "bash", "task"]),
        st.sampled_from([*PATTERNS, *BASH_PATTERNS]),
        st.sampled_from(Action),
    ),
)
RULE_LISTS = st.lists(RULES, max_size=4).map(tuple)
POLICIES = st.builds(Policy, st.sampled_from(Mode), RULE_LISTS)
LINKS = st.builds(
    ChainLink,
    st.sampled_from(["agent a", "agent b"]),
    st.none() | st.sampled_from(Mode),
    RULE_LISTS,
    st.none() | st.sampled_from(Mode),
)
ROOTS = st.builds(Root, POLICIES)
CHAINS = st.builds(Chain, ROOTS, st.lists(LINKS, max_size=5).map(tuple))
ALREADY = [
    Approval("host", "x.org"),
    Approval("agent", "mine"),
    Approval("tool", "http_post"),
    Approval("grant", "mine", mode=Mode.DONT_ASK),
]


@st.composite
def calls(draw: st.DrawFn) -> CallFacts:
    tool = draw(st.sampled_from(["Bash"] * 6 + FILE_TOOLS + OTHERS + FOREIGN))
    path = draw(st.sampled_from(PATHS))
    given: dict[str, Any] = {
        "file_path": path,
        "pattern": path or "*",
        "command": draw(st.sampled_from(COMMANDS)),
        "url": draw(st.sampled_from(URLS)),
        "subagent_type": "mine",
    }
    return CallFacts(
        tool=tool,
        input={"path": path} if tool == "delete_file" else given,
        effect=draw(st.sampled_from(["read", "write", "execute", "delegate"])),
        workspace=WHERE,
        source="plugin" if tool == "count_lines" else "builtin",
        background=draw(st.booleans()),
        answerable=draw(st.booleans()),
        named=draw(st.sampled_from([frozenset[str](), frozenset({"memory_write", "SendMessage"})])),
        agent_kind=draw(st.sampled_from(["builtin-reader", "other"])),
        own=draw(st.booleans()),
        kin=draw(st.booleans()),
        already=draw(st.sets(st.sampled_from(ALREADY))),
        widens=draw(st.none() | st.sampled_from([Mode.ACCEPT_EDITS, Mode.DONT_ASK])),
    )


def strictness(call: CallFacts, chain: Any) -> int:
    return STRICTNESS[decide(call, chain).action]


def ungranted(chain: Chain) -> Chain:
    """The same chain, as if nobody had granted anything."""
    return Chain(Root(chain.bare[0]), tuple(replace(link, grant=None) for link in links_of(chain)))


def freed(policy: Policy) -> Policy:
    """A policy after the widest grant there is."""
    return replace(policy, mode=Mode.DONT_ASK) if policy.mode in LIFTABLE else policy


def links_of(chain: Chain) -> list[ChainLink]:
    """Links that build the bare policies of a chain again, without grants."""
    return [ChainLink(policy.owner, policy.mode, policy.rules) for policy in chain.bare[1:]]


@given(calls(), CHAINS)
def test_without_a_grant_a_chain_is_as_strict_as_every_beginning_of_it(call: CallFacts, chain: Chain) -> None:
    policies = ungranted(chain).now
    decided = strictness(call, policies)
    assert all(decided >= strictness(call, policies[:end]) for end in range(1, len(policies)))


@given(calls(), CHAINS)
def test_without_a_grant_a_child_gets_no_more_than_any_ancestor_alone(call: CallFacts, chain: Chain) -> None:
    policies = ungranted(chain).now
    if call.tool in SPAWN_TOOLS:
        # Below an unattended policy nobody can be asked, and then the table lets spawning through.
        policies = tuple(each for each in policies if each.mode is not Mode.UNATTENDED) or (Policy(),)
    decided = strictness(call, policies)
    assert all(decided >= strictness(call, [ancestor]) for ancestor in policies[:-1])


@given(calls(), CHAINS)
def test_a_grant_never_lifts_plan_unattended_or_any_deny_or_ask_rule(call: CallFacts, chain: Chain) -> None:
    if call.tool in SPAWN_TOOLS and any(each.mode is Mode.UNATTENDED for each in chain):
        call = replace(call, background=True)
    decided = strictness(call, chain)
    for ancestor in chain.bare[:-1]:
        assert decided >= strictness(call, [freed(ancestor)])


@given(CHAINS)
def test_only_ancestors_of_a_granted_agent_in_default_or_accept_edits_are_lifted(chain: Chain) -> None:
    last_grant = max((place for place, link in enumerate(granting(chain), 1) if link.grant), default=0)
    for place, (bare, now) in enumerate(zip(chain.bare, chain.now, strict=True)):
        assert now.rules == bare.rules
        if place >= last_grant or bare.mode not in LIFTABLE:
            assert now == bare


def granting(chain: Chain) -> tuple[ChainLink, ...]:
    return chain._links  # pyright: ignore[reportPrivateUsage]


@given(calls(), CHAINS, LINKS)
def test_one_more_agent_without_a_grant_never_gets_more(
    call: CallFacts, chain: Chain, link: ChainLink
) -> None:
    assert strictness(call, chain.below(replace(link, grant=None))) >= strictness(call, chain)


@given(calls(), CHAINS, st.data())
def test_one_more_deny_or_ask_rule_anywhere_never_makes_anything_laxer(
    call: CallFacts, chain: Chain, data: st.DataObject
) -> None:
    policies = list(chain.now)
    at = data.draw(st.integers(0, len(policies) - 1))
    narrowing = data.draw(RULES.filter(lambda each: each.action is not Action.ALLOW))
    before = strictness(call, policies)
    policies[at] = replace(policies[at], rules=(*policies[at].rules, narrowing))
    assert strictness(call, policies) >= before


@given(calls(), CHAINS)
def test_nobody_to_ask_is_never_laxer_except_that_agents_are_sent_without_a_grant(
    call: CallFacts, chain: Chain
) -> None:
    asked = replace(call, background=False, answerable=True)
    for alone in (replace(asked, background=True), replace(asked, answerable=False)):
        decided = decide(alone, chain).action
        assert decided is not Action.ASK
        if call.tool not in SPAWN_TOOLS:
            assert STRICTNESS[decided] >= strictness(asked, chain)
        elif STRICTNESS[decided] < strictness(asked, chain):
            assert decided is Action.ALLOW
            # An unattended child of somebody who would be asked is refused: the stricter of two readings.
            unattended = any(policy.mode is Mode.UNATTENDED for policy in chain)
            assert decide(asked, chain).action is Action.ASK or unattended


class Family(RuleBasedStateMachine):
    """Agents are sent, modes are switched, rules are added, and every call is checked against the family."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Root(Policy())
        self.chains = [Chain(self.root)]
        self.parents: list[tuple[int, bool]] = [(0, False)]

    @precondition(lambda self: len(self.chains) < 12)
    @rule(data=st.data(), link=LINKS, person_says_yes=st.booleans())
    def send(self, data: st.DataObject, link: ChainLink, person_says_yes: bool) -> None:
        """An agent sends another one; the person is only asked where there is something to grant."""
        shallow = [place for place, chain in enumerate(self.chains) if len(chain) < 6]
        sender = data.draw(st.sampled_from(shallow))
        wider = self.chains[sender].grant_for(link.mode)
        grant = wider if person_says_yes else None
        self.chains.append(self.chains[sender].below(replace(link, grant=grant)))
        self.parents.append((sender, grant is not None))

    @rule(mode=st.sampled_from(Mode))
    def switch(self, mode: Mode) -> None:
        """The person goes on in another mode."""
        self.root.switch(mode)

    @rule(rule_=RULES)
    def add_rule(self, rule_: Rule) -> None:
        """The person answers `always`, or forbids something."""
        self.root.policy = replace(self.root.policy, rules=(*self.root.policy.rules, rule_))

    @rule(call=calls())
    def check(self, call: CallFacts) -> None:
        """No agent gets more than its sender, unless a person gave it more; rules hold in any case."""
        for place, (sender, granted) in enumerate(self.parents[1:], start=1):
            chain, above = self.chains[place], self.chains[sender]
            if not granted:
                assert strictness(call, chain) >= strictness(call, above)
            elif call.tool not in SPAWN_TOOLS:
                assert strictness(call, chain) >= strictness(call, [freed(each) for each in above.bare])

    @invariant()
    def nothing_is_stale(self) -> None:
        """Every chain is what would be built now from the root down."""
        for chain in self.chains:
            assert chain.now == Chain(Root(self.root.policy), granting(chain)).now
            assert chain[0].rules == self.root.policy.rules


Family.TestCase.settings = settings(stateful_step_count=20)
TestFamily = Family.TestCase
