"""Which replies only announce work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.unfinished_reply import announces

ANNOUNCING = [
    "I will now update the configuration file.",
    "I'll now run the tests.",
    "I’ll now run the tests.",
    "Let me check the tests.",
    "Let me check the tests:",
    "Let me look at the handlers in more detail.",
    "Now let me read the configuration.",
    "Now, let me read the configuration:",
    "Next, let me verify this.",
    "The configuration is missing. Let me search for it.",
    "I found three callers.\n\nLet me see whether they are tested.",
    "Found it! Let me see if it works.",
    "Okay, let me fix that.",
    "Good. Now I'll create the missing file.",
    "Now I will create the missing file.",
    "Now that the structure is clear, I'll start by reading the parser.",
    "I'm going to read the rest of the file.",
    "I am about to run the migration.",
    "I'm now going to fix the import.",
    "I'll look at the database layer.",
    "I'll check the remaining files next.",
    "I will go ahead and write the tests.",
    "I'll proceed with implementing the change.",
    "I will proceed to delete the old module.",
    "I'll start by reading the tests.",
    "Based on these results, I'll now write the report.",
    "To be sure, let me run the tests once more.",
    "The function is in `a.py`, so let me read it.",
    "I will create the following files:",
    "I'll write it in three steps…",
    "I'll fix this...",
    "Let's explore the other modules.",
    "**Let me check the tests:**",
    "The tests pass. **Now let me update the documentation.**",
    "- a.py\n- b.py\n\nLet me open both.",
    "Let me summarize what I found:",
    "I see (it is in a.py). Let me take a closer look.",
    "LET ME CHECK THE TESTS.",
]

TELLING = [
    "",
    "   \n",
    "Done.",
    "The tests pass.",
    "Authentication errors are handled in `src/auth.py:12`.",
    "I updated the configuration and ran the tests.",
    "I have now updated the configuration file.",
    "Here are the results:",
    "The following files were changed:",
    "Let me know if anything is unclear.",
    "Let me know which one you prefer.",
    "Let me add that the tests are slow.",
    "Let me be clear: this is not tested.",
    "Shall I now update the configuration?",
    "Would you like me to fix this?",
    "Let me check: is it the right file?",
    "If you want, I'll now fix it.",
    "If that is right, I'll now fix it.",
    "Once the migration has run, I'll check the data.",
    "When you are ready, I will now start the migration.",
    "I'll now wait for your answer.",
    "I will now wait.",
    "I'll fix it if needed.",
    "I'll check the other files if necessary.",
    "Please confirm and I will now start.",
    "I will not change anything.",
    "I won't run the tests now.",
    "I'll stop here.",
    "I'll leave it at that.",
    "I'd check the tests next.",
    "You will now find the file in src.",
    "It will now create the table on start.",
    "The script will now run the tests.",
    "We will add more in the next release.",
    "In the next release, we will add more.",
    "First I will create the table. Then I will add the index.",
    "Plan: I will add a column, then I will migrate the data.",
    'The comment says: "I will now open the file."',
    "The log prints `Let me check the tests` and exits.",
    "He wrote that I will now run the tests.",
    "1. I will now read the file.",
    "- Let me check the tests.",
    "> Let me check the tests.",
    "| Let me check | the tests |",
    "```\nLet me check the tests.\n```",
    "Let me check the tests.\nThey pass.",
    "Let me check the tests. They all pass.",
    "Ich werde jetzt die Tests ausführen.",
    "Next step: run the tests.",
    "Let me check the tests, please.",
    "I'll check with your permission.",
]


@pytest.mark.parametrize("text", ANNOUNCING)
def test_a_reply_that_announces_work_is_recognised(text: str) -> None:
    assert announces(text)


@pytest.mark.parametrize("text", TELLING)
def test_a_reply_that_tells_something_is_left_alone(text: str) -> None:
    assert not announces(text)


@pytest.mark.parametrize("text", ANNOUNCING)
def test_how_long_a_reply_is_does_not_matter(text: str) -> None:
    assert announces(f"{'This was found and is told at length. ' * 500}\n\n{text}")


@pytest.mark.parametrize("text", ANNOUNCING)
def test_an_announcement_that_was_followed_by_something_is_none(text: str) -> None:
    assert not announces(f"{text}\n\nAll tests pass now.")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300))
def test_a_question_is_never_an_announcement(text: str) -> None:
    assert not announces(f"{text}?")


def test_a_reply_of_ten_million_characters_is_looked_at_only_at_its_end() -> None:
    assert not announces("let me " * 1_500_000)
    assert announces("a, " * 3_000_000 + "\nLet me check it.")
