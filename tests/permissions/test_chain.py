"""The chain over an agent: built from the root's policy as it is now, every link and every grant."""

from msgspec.structs import replace

from gencode.core.rules import Action, Mode, Policy, Rule, written_in
from gencode.permissions.chain import Chain, ChainLink, Root, grant_for, rebuilt

LS = Rule("LS", "*", Action.ALLOW, written_in("settings"))
RM = Rule("Bash", "rm:*", Action.DENY, written_in("settings"))
OWN = Rule("Bash", "ls", Action.ALLOW, written_in("file"))


def modes(chain: Chain) -> list[str]:
    return [policy.mode.value for policy in chain]


def test_a_child_has_its_files_mode_and_rules_and_its_parents_allow_rules() -> None:
    root = Root(Policy(Mode.DEFAULT, (LS, RM)))
    chain = Chain(root).below(ChainLink("agent a", Mode.PLAN, (OWN,))).below(ChainLink("agent b"))
    assert chain.now == (
        Policy(Mode.DEFAULT, (LS, RM), "session"),
        Policy(Mode.PLAN, (OWN, LS), "agent a"),
        Policy(Mode.PLAN, (OWN, LS), "agent b"),
    )
    assert (len(chain), list(chain), chain[-1]) == (3, list(chain.now), chain.now[2])


def test_whatever_changes_at_the_root_counts_below_at_once() -> None:
    root = Root(Policy(Mode.ACCEPT_EDITS))
    chain = Chain(root).below(ChainLink("agent a")).below(ChainLink("agent b", Mode.DEFAULT))
    before = modes(chain)
    root.switch(Mode.PLAN)
    root.policy = replace(root.policy, rules=(LS, RM))
    assert (before, modes(chain)) == (["acceptEdits", "acceptEdits", "default"], ["plan", "plan", "default"])
    assert [policy.rules for policy in chain] == [(LS, RM), (LS,), (LS,)]


def test_a_grant_lifts_default_and_accept_edits_above_it_and_nothing_else() -> None:
    links = [ChainLink("p", Mode.PLAN), ChainLink("u", Mode.UNATTENDED), ChainLink("e", Mode.ACCEPT_EDITS)]
    chain = Chain(Root(Policy(rules=(RM,))))
    for link in links:
        chain = chain.below(link)
    granted = chain.below(ChainLink("g", Mode.DONT_ASK, grant=Mode.DONT_ASK))
    below = granted.below(ChainLink("b", Mode.DEFAULT))
    assert modes(below) == ["dontAsk", "plan", "unattended", "dontAsk", "dontAsk", "default"]
    assert [policy.owner for policy in below] == ["session by grant", "p", "u", "e by grant", "g", "b"]
    assert below[0].rules == (RM,)
    bare = [policy.mode.value for policy in below.bare]
    assert bare == ["default", "plan", "unattended", "acceptEdits", "dontAsk", "default"]
    assert modes(chain) == ["default", "plan", "unattended", "acceptEdits"]


def test_a_grant_does_not_outlive_a_switch_to_plan() -> None:
    root = Root(Policy())
    chain = Chain(root).below(ChainLink("g", Mode.DONT_ASK, grant=Mode.DONT_ASK))
    root.switch(Mode.PLAN)
    assert modes(chain) == ["plan", "dontAsk"]
    root.switch(Mode.ACCEPT_EDITS)
    assert modes(chain) == ["dontAsk", "dontAsk"]


def test_a_grant_is_needed_for_a_wider_mode_that_can_be_lifted() -> None:
    needed = {
        (sender.value, mode.value)
        for sender in Mode
        for mode in Mode
        if grant_for(Policy(sender), mode) is not None
    }
    assert needed == {("default", "acceptEdits"), ("default", "dontAsk"), ("acceptEdits", "dontAsk")}
    assert grant_for(Policy(), None) is None


def test_a_ceiling_is_the_narrowest_policy_above_that_binds() -> None:
    root = Root(Policy())
    wide = Chain(root).below(ChainLink("w", Mode.DONT_ASK))
    assert (Chain(root).ceiling(), Chain(root).below(ChainLink("n", Mode.PLAN)).ceiling()) == (None, None)
    assert (wide.ceiling(), wide.mode) == (Policy(), Mode.DEFAULT)
    assert wide.below(ChainLink("inherits")).ceiling() == Policy()
    assert Chain(root).below(ChainLink("w", Mode.DONT_ASK, grant=Mode.DONT_ASK)).ceiling() is None
    root.switch(Mode.UNATTENDED)
    assert (wide.ceiling(), wide.mode) == (Policy(Mode.UNATTENDED), Mode.UNATTENDED)


def test_a_chain_is_rebuilt_from_what_was_written_of_it() -> None:
    links = (ChainLink("main", Mode.ACCEPT_EDITS), ChainLink("agent a", None, (OWN,), Mode.DONT_ASK))
    chain = Chain(Root(Policy(Mode.DEFAULT, (LS, RM))), links)
    again = rebuilt(chain.bare, Mode.DONT_ASK)
    assert (again.bare, again.now) == (chain.bare, chain.now)


def test_another_root_takes_the_place_of_the_stored_one() -> None:
    written = Chain(Root(Policy(Mode.DEFAULT, (RM,)))).below(ChainLink("agent a", None, (OWN,))).bare
    root = Root(Policy(Mode.ACCEPT_EDITS, (LS,)))
    followed = rebuilt(written, None, root, follows=True)
    assert (modes(followed), followed[-1].rules) == (["acceptEdits", "acceptEdits"], (OWN, LS))
    root.switch(Mode.PLAN)
    assert modes(followed) == ["plan", "plan"]
    assert modes(rebuilt(written, None, root, follows=False)) == ["plan", "default"]


def test_a_mode_that_was_not_its_parents_is_kept_under_another_root() -> None:
    written = Chain(Root(Policy(Mode.DEFAULT))).below(ChainLink("agent a", Mode.PLAN)).bare
    assert modes(rebuilt(written, None, Root(Policy(Mode.DONT_ASK)), follows=True)) == ["dontAsk", "plan"]
