"""What can be typed."""

import re

import pytest

from gencode import __version__
from gencode.core.errors import UserMistake
from gencode.interfaces.cli.parser import build_parser, parse


def typed(*words: str) -> dict[str, object]:
    return vars(parse(words))


def test_options_that_were_not_given_are_absent() -> None:
    assert typed("-p", "why?") == {"command": None, "prompt": "why?"}


def test_a_prompt_may_come_through_the_pipe() -> None:
    assert typed("-p") == {"command": None, "prompt": ""}


@pytest.mark.parametrize(
    "words",
    [
        ("-p", "why?", "--model", "offline", "--continue"),
        ("-p", "--model", "offline", "--continue", "why?"),
        ("--model", "offline", "-p", "--continue", "why?"),
        ("--print", "--model=offline", "why?", "--continue"),
    ],
)
def test_options_may_stand_around_the_prompt(words: tuple[str, ...]) -> None:
    assert typed(*words) == {"command": None, "prompt": "why?", "model": "offline", "go_on": True}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("why is it slow?",), {"opening": "why is it slow?"}),
        (("--model", "offline", "why is it slow?", "-c"), {"opening": "why is it slow?", "go_on": True}),
        (("why is it slow?", "-p"), {"prompt": "why is it slow?"}),
        (("-p", "task list"), {"prompt": "task list"}),
    ],
)
def test_a_question_alone_begins_a_conversation(words: tuple[str, ...], expected: dict[str, object]) -> None:
    given = {name: value for name, value in typed(*words).items() if name not in ("command", "model")}
    assert given == expected


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    for words in (("help",), ("--help",), ("help", "task", "list"), ("task", "list", "--help"), ("version",)):
        with pytest.raises(SystemExit) as ended:
            parse(words)
        assert ended.value.code == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] and told[2] == told[3] != told[0]
    assert told[4] == f"gen {__version__}\n"


def test_a_value_may_look_like_an_option_and_a_prompt_may_have_dashes() -> None:
    given = typed("-p", "--agent", "Plan", "--what is this? - a prompt", "--deny", "Read")
    assert given["prompt"] == "--what is this? - a prompt"


def test_rules_may_be_repeated() -> None:
    given = typed("task", "run", "Explore", "go", "--allow", "Read", "--allow", "Grep(src/**)")
    assert given["allow"] == ["Read", "Grep(src/**)"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("taks",), "There is no command 'taks'. Did you mean task"),
        (("whats-up",), "There is no command 'whats-up'. There are: acp, agents"),
        (("--modle", "x", "-p", "hi"), "There is no option '--modle'. Did you mean --model? See"),
        (("-C", "/tmp"), "There is no option '-C'. Did you mean --cwd? See: gen --help"),
        (("-x", "-p", "hi"), "There is no option '-x'. See: gen --help"),
        (("hlep",), "There is no command 'hlep'. Did you mean help"),
        (("agents", "add", "temas"), "Argument name: invalid choice: 'temas'. Did you mean team? See"),
        (("task", "list", "--limt", "3"), "There is no option '--limt'. Did you mean --limit"),
        (("--modle", "x", "task", "list"), "There is no option '--modle'. Did you mean --model"),
        (("why is it slow?", "--modle", "x"), "There is no option '--modle'. Did you mean --model"),
        (("task", "lst"), "There is no command 'lst'. Did you mean list"),
        (("task",), "The following arguments are required: COMMAND. See: gen task --help"),
        (("task", "show"), "The following arguments are required: ID. See: gen task show --help"),
        (("-p", "hi", "--max-turns", "0"), "'0' is not a whole number from 1 to 9,007,199,254,740,992"),
        (("-p", "hi", "--max-seconds", "nan"), "'nan' is not a number from 0.000000001 to"),
        (("-p", "hi", "--max-seconds", "1e30"), "'1e30' is not a number from 0.000000001 to 1,000,000,000"),
        (("-p", "hi", "--max-usd", "1e30"), "'1e30' is not a number from 0.000000001 to 1,000,000,000"),
        (("-p", "hi", "--max-usd", "1e-12"), "'1e-12' is not a number from 0.000000001 to 1,000,000,000"),
        (
            ("-p", "hi", "--max-tokens-total", "9" * 26),
            "is not a whole number from 1 to 9,007,199,254,740,992",
        ),
        (("-p", "hi", "--max-spawns", "9" * 5_000), "is not a whole number from 0 to 9,007,199,254,740,992"),
        (("-p", "hi", "--output-format", "xml"), "invalid choice: 'xml'"),
        (("task", "output", "9f3a", "--timeout", "-1"), "'-1' is not a whole number of 0 or more"),
        (("task", "events", "9f3a", "--after", "-5"), "'-5' is not a whole number of 0 or more"),
        (("-p", "hi", "--continue", "--session", "9f3a"), "not allowed with argument -c/--continue"),
        (("-p", "hi", "--modle", "x"), "There is no option '--modle'. Did you mean --model"),
    ],
)
def test_a_mistake_is_one_sentence_with_a_way_out(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UserMistake) as mistake:
        typed(*words)
    assert sentence in str(mistake.value)
    assert "--help" in str(mistake.value)


@pytest.mark.parametrize("words", [("--help",), ("task", "--help"), ("task", "run", "--help")])
def test_help_is_given_everywhere(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(words)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: gen")


def test_the_commands_of_tasks_are_told_in_the_order_of_their_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(("task", "--help"))
    names = re.findall(r"^    (\w+)\b", capsys.readouterr().out, re.M)
    assert names == [
        *("run", "list", "show", "output", "stop", "interrupt", "send", "resume", "fork", "budget"),
        *("questions", "answer", "background", "events", "merge", "replay", "export", "import"),
    ]


@pytest.mark.parametrize("noun", ["task", "sessions", "permissions"])
def test_the_help_of_a_noun_has_examples(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args((noun, "--help"))
    assert f"examples:\n  gen {noun} " in capsys.readouterr().out
