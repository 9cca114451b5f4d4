"""What a person is offered to allow for an agent that works in a copy of their folder."""

from msgspec.structs import replace

from gencode.core.messages import ToolCall
from gencode.core.questions import Question
from gencode.core.rules import Action, Decision, parse_rule
from gencode.fleet.worker_folder import question_for_sender

COPY = "/far/.gen-worktrees/repository-1a2b/9f3a-12345678"


def asking(*rules: str) -> Question:
    decision = Decision(Action.ASK, "x", "y", offers=tuple(parse_rule(rule, Action.ALLOW) for rule in rules))
    return Question("9f3a", "tester", ToolCall("1", "Bash", {}), decision, rules=rules)


def test_rules_for_a_copy_are_offered_for_the_folder_that_it_is_a_copy_of() -> None:
    asked = asking(f"Write({COPY}/a.txt)", "Bash(make)")
    assert question_for_sender(asked, COPY, "/home/me/project") == asking(
        "Write(/home/me/project/a.txt)", "Bash(make)"
    )


def test_a_rule_that_cannot_be_told_for_the_folder_at_home_is_not_offered() -> None:
    asked = asking("Bash(cd ../9f3a-12345678)", "Bash(make)")
    assert question_for_sender(asked, COPY, "/home/me/project") == asking()


def test_why_it_is_asked_is_told_for_the_folder_at_home() -> None:
    asked = Decision(Action.ASK, f"Write of {COPY}/a")
    told = question_for_sender(replace(asking(), decision=asked), COPY, "/p").decision
    assert told == Decision(Action.ASK, "Write of /p/a")
