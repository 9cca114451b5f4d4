"""What a scheduled run may do: what it could when it was planned, and nothing that today is against."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.events import CallDecided
from gencode.core.rules import Action, Mode, Policy, Rule, RuleOrigin, RuleSource, parse_rule, written_in
from gencode.journal.store import TaskQuery
from gencode.tasks.scheduler import scheduled_policy
from gencode.testing import call, says
from tests.tasks.office import Office

FLAG = RuleOrigin(RuleSource.FLAG, "--allow")
WRITE = [says("", call("Write", file_path="new.txt", content="x")), says("Tried.")]


@pytest.mark.parametrize(
    ("stored", "today", "written"),
    [
        (Policy(Mode.DEFAULT), {}, False),
        (Policy(Mode.ACCEPT_EDITS), {}, True),
        (Policy(Mode.ACCEPT_EDITS), {"permission_mode": "plan"}, False),
        (Policy(Mode.ACCEPT_EDITS), {"deny": ["Write"]}, False),
        (Policy(Mode.ACCEPT_EDITS), {"ask": ["Write"]}, False),
        (Policy(Mode.DEFAULT), {"permission_mode": "dontAsk", "allow": ["Write"]}, False),
        (Policy(Mode.DEFAULT, (parse_rule("Write", Action.ALLOW, FLAG),)), {}, True),
        (Policy(Mode.DEFAULT, (parse_rule("Write", Action.ALLOW, written_in("settings.toml")),)), {}, False),
        (
            Policy(Mode.DEFAULT, (parse_rule("Write", Action.ALLOW, written_in("settings.toml")),)),
            {"allow": ["Write"]},
            True,
        ),
    ],
)
async def test_a_run_may_do_what_it_could_when_it_was_planned_and_nothing_that_today_is_against(
    tmp_path: Path, stored: Policy, today: dict[str, Any], written: bool
) -> None:
    office = Office(tmp_path, main=WRITE)
    office.settings = today
    await office.plan(policy=stored)
    await office.due()
    (session,) = await office.store.tasks(TaskQuery())
    decided = [
        each.fact for each in await office.store.events(session.id) if isinstance(each.fact, CallDecided)
    ]
    assert [each.decision.action for each in decided] == [Action.ALLOW if written else Action.DENY]
    assert (tmp_path / "new.txt").exists() == written


RULES = st.builds(
    Rule,
    st.sampled_from(["Write", "Bash", "Read"]),
    st.sampled_from(["*", "a/**", "git *"]),
    st.sampled_from(Action),
    st.sampled_from([FLAG, written_in("settings.toml"), RuleOrigin(RuleSource.ENVIRONMENT, "GEN_ALLOW")]),
)
POLICIES = st.builds(Policy, st.sampled_from(Mode), st.lists(RULES, max_size=6).map(tuple))


def spoken(policy: Policy, *actions: Action) -> set[tuple[str, str, Action]]:
    return {(rule.tool, rule.pattern, rule.action) for rule in policy.rules if rule.action in actions}


@given(POLICIES, POLICIES)
def test_what_is_kept_is_never_more_than_it_was_nor_less_strict_than_today(
    stored: Policy, today: Policy
) -> None:
    kept = scheduled_policy(stored, today)
    strict = (Action.DENY, Action.ASK)
    assert spoken(kept, *strict) == spoken(stored, *strict) | spoken(today, *strict)
    assert spoken(kept, Action.ALLOW) <= spoken(stored, Action.ALLOW)
    by_hand = {rule for rule in stored.rules if rule.origin == FLAG}
    assert spoken(kept, Action.ALLOW) <= spoken(today, Action.ALLOW) | {
        (rule.tool, rule.pattern, rule.action) for rule in by_hand
    }
    assert kept.mode in (Mode.PLAN, stored.mode, *([Mode.UNATTENDED] if stored.mode is Mode.DEFAULT else []))
    assert kept.mode is Mode.PLAN or today.mode is not Mode.PLAN
    assert scheduled_policy(kept, today) == kept
