"""A question to a person in its parts."""

from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Inquiry, Option, Question
from gencode.core.rules import Action, Decision
from gencode.interfaces.chat.question_text import (
    answer_from_words,
    call_text,
    choices,
    headline,
    inquiry_choices,
    preview_lines,
    reason,
    rules_text,
)

BASH = Question(
    "9f3a1c2e",
    "Explore",
    ToolCall("1", "Bash", {"command": "rm \x1b[2Jx", "timeout": 5}),
    Decision(Action.ASK, "It writes.", "ask Bash(rm:*)", "session"),
    ("main", "Explore"),
    rules=("Bash(rm x)",),
)


def test_it_says_who_wants_exactly_what_and_which_rule_asked() -> None:
    assert headline(BASH) == "main › Explore needs approval to use Bash"
    assert call_text(BASH) == "rm \\x1b[2Jx\ntimeout: 5"
    assert reason(BASH) == "It writes. (rule ask Bash(rm:*) · set by: session policy)"
    assert rules_text(BASH) == "Bash(rm x)"


def test_answers_reach_as_far_as_rules_say() -> None:
    found = {choice.key: choice.answer for choice in choices(BASH)}
    assert list(found) == ["y", "w", "a", "t", "s", "!", "n"]
    assert found["t"] == Answer(True, "subtree")
    assert found["w"] == Answer(True, network=True)
    assert found["n"] == Answer(False)


def test_without_a_rule_a_yes_stands_for_one_call() -> None:
    edit = Question("1", "main", ToolCall("1", "Edit", {"file_path": "a"}), BASH.decision, preview="-a\n+b")
    assert [choice.key for choice in choices(edit)] == ["y", "n"]
    assert preview_lines(edit) == ["-a", "+b"]


def test_inquiries_are_answered_one_by_one() -> None:
    inquiry = Inquiry("Which?", options=(Option("A", "the first"), Option("B")))
    assert inquiry_choices(inquiry) == [("A", "the first"), ("B", "")]
    assert answer_from_words(["A", "my own"]) == Answer(True, words=("A", "my own"))
    assert answer_from_words(["A", " "]) == Answer(True, words=("A", ""))
    assert answer_from_words(["", " "]) == Answer(False, why="The user left the answer empty")
