"""The offline model's understanding of a prompt: its parts, and what is wanted besides a search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.offline_search.intents import (
    CollectIntent,
    DefinitionIntent,
    GreetingIntent,
    Intent,
    ListIntent,
    ReadIntent,
    RefusalIntent,
    SearchIntent,
    UnsearchableIntent,
    intent_of,
)
from gencode.offline_search.question_splitter import MOST_PARTS, split_question, task_title


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (
            "Where are tool arguments validated, and where are events written to the database?",
            ["Where are tool arguments validated?", "Where are events written to the database?"],
        ),
        ("Where are read and write timeouts set?", ["Where are read and write timeouts set?"]),
        ("Where are passwords hashed and verified?", ["Where are passwords hashed and verified?"]),
        ("Show me how and where requests are retried", ["Show me how and where requests are retried"]),
        (
            "Where is the cache configured, and where is it flushed?",
            ["Where is the cache configured?", "Where is it flushed? (about: cache)"],
        ),
        (
            "How are errors logged? Which file parses settings?",
            ["How are errors logged?", "Which file parses settings?"],
        ),
        (
            "Where are errors logged; how are retries done",
            ["Where are errors logged?", "How are retries done?"],
        ),
        (
            "1. Where are errors logged?\n2. parsing of settings",
            ["Where are errors logged?", "Parsing of settings"],
        ),
        (
            "In the http client:\n- redirects\n- cookies",
            ["Redirects (about: http client)", "Cookies (about: http client)"],
        ),
        (
            "In the parser module, where are tokens read and how are errors reported?",
            ["In the parser module where are tokens read", "How are errors reported? (about: parser)"],
        ),
        (
            "Find the config loader. Also find the CLI parser.",
            ["Find the config loader.", "Find the CLI parser."],
        ),
    ],
)
def test_a_compound_question_is_split_and_a_simple_one_is_not(text: str, pieces: list[str]) -> None:
    assert split_question(text) == pieces


@given(st.text(max_size=300))
def test_any_text_has_between_one_and_eight_parts(text: str) -> None:
    assert 1 <= len(split_question(text)) <= MOST_PARTS


@given(st.text(max_size=120))
def test_a_title_has_three_to_five_words_on_one_line(text: str) -> None:
    assert 2 < len(task_title(text).split()) < 6
    assert "\n" not in task_title(text)


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("read README.md", ReadIntent("README.md")),
        ("Read the file `docs/a b.txt`", ReadIntent("docs/a b.txt")),
        ("show src/core/ids.py lines 3-9", ReadIntent("src/core/ids.py", 3, 9)),
        ("What is in src/app.py?", ReadIntent("src/app.py")),
        ("please open the file Makefile", ReadIntent("Makefile")),
        ("list the python files in src", ListIntent("**/*.py", "src")),
        ("which files are in docs", ListIntent("**/*", "docs", shallow=True)),
        ("list files", ListIntent("**/*", "", shallow=True)),
        ("ls", ListIntent("**/*", "", shallow=True)),
        ("list *.toml", ListIntent("*.toml")),
        ("find all test files", ListIntent("**/*{test,Test,spec}*")),
        ("Fix the bug in main.py", RefusalIntent()),
        ("Can you please add a test?", RefusalIntent()),
        ("Explain how the loop works", SearchIntent(explains=True)),
        ("Why does it crash?", SearchIntent(explains=True)),
        ("Show me the Session class", DefinitionIntent("Session")),
        ("where is flask.url_for() function defined?", DefinitionIntent("url_for")),
        ("list all management commands", CollectIntent(("management", "commands"))),
        ("Which parts have no tests?", UnsearchableIntent()),
        ("run pytest", RefusalIntent()),
        ("Find where retries happen and fix them", RefusalIntent()),
        ("hello", GreetingIntent()),
        ("", GreetingIntent()),
        ("???", GreetingIntent()),
        ("What can you do?", GreetingIntent()),
        ("show me where errors are handled", SearchIntent()),
        ("How is retry handled?", SearchIntent()),
        ("how do I run the tests?", SearchIntent()),
        ("Build configuration", SearchIntent()),
        ("List all the places where errors are handled", SearchIntent()),
        ("which files handle auth?", SearchIntent()),
        ("Find all database-related files", SearchIntent()),
        ("read and write timeouts", SearchIntent()),
        ('"Where are auth errors handled?"', SearchIntent()),
        ("在哪里验证参数", SearchIntent()),
    ],
)
def test_what_a_text_wants(text: str, intent: Intent) -> None:
    assert intent_of(text) == intent


@given(st.text(max_size=500))
def test_any_text_wants_something(text: str) -> None:
    assert isinstance(
        intent_of(text), GreetingIntent | ListIntent | ReadIntent | RefusalIntent | SearchIntent
    )
