"""The tables are the specification's, word for word."""

import re
from pathlib import Path

import pytest

from gencode.permissions.bash import readonly_tables as tables
from gencode.permissions.bash.options import OptionTable

pytestmark = pytest.mark.needs("shared")


@pytest.fixture
def text(shared: Path) -> str:
    return (shared / "permissions.md").read_text("utf-8")


def row(text: str, command: str) -> str:
    """The condition of one command in the tables of the text."""
    (found,) = re.findall(rf"^\| {re.escape(command)} \| (.*) \|$", text, re.MULTILINE)
    return found


def lists(cell: str) -> list[frozenset[str]]:
    """Everything between backticks, each as the set of its words."""
    return [frozenset(each.split()) for each in re.findall(r"`([^`]*)`", cell)]


def longs(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name[2:] for name in names if name.startswith("--"))


def test_the_commands_that_take_any_arguments(text: str) -> None:
    (found,) = re.findall(r"\*\*R1, any arguments .*?:\*\* `([^`]*)`", text, re.DOTALL)
    assert frozenset(found.split()) == tables.ANY_ARGUMENTS


def test_the_safe_names(text: str) -> None:
    (found,) = re.findall(r"Safe names: `([^`]*)`", text, re.DOTALL)
    assert frozenset(found.split()) == tables.SAFE_NAMES | {f"{tables.SAFE_NAME_START}*"}


def test_the_harmless_names(text: str) -> None:
    (found,) = re.findall(r"\*harmless\*: (.*?)\. Only", text, re.DOTALL)
    assert re.findall(r"`([^`]*)`", found) == [
        tables.HARMLESS_NAME,
        tables.HARMFUL_NAME_END,
        *sorted(tables.HARMFUL_NAMES, reverse=True),
    ]


def test_find(text: str) -> None:
    assert lists(row(text, "`find`")) == [tables.FIND_VALUED, tables.FIND_PLAIN]


def test_rg(text: str) -> None:
    assert lists(row(text, "`rg`")) == [
        tables.RG.flags,
        tables.RG.valued,
        tables.RG.long,
        tables.RG.long_valued,
    ]


def test_sort(text: str) -> None:
    assert lists(row(text, "`sort`")) == [
        tables.SORT.flags,
        tables.SORT.valued,
        tables.SORT.long,
        tables.SORT.long_valued,
    ]


def test_uniq(text: str) -> None:
    assert lists(row(text, "`uniq`")) == [
        tables.UNIQ.flags,
        tables.UNIQ.valued,
        tables.UNIQ.long,
        tables.UNIQ.long_valued,
    ]


def test_date(text: str) -> None:
    assert row(text, "`date`") == (
        "`-u --utc -R -I… --iso-8601… --rfc-3339=… -d V --date=V`; every operand starts with `+`"
    )
    assert (
        OptionTable(
            flags=frozenset("uR"),
            valued=frozenset("d"),
            optional=frozenset("I"),
            long=frozenset({"utc"}),
            long_valued=frozenset({"rfc-3339", "date"}),
            long_optional=frozenset({"iso-8601"}),
        )
        == tables.DATE
    )


def test_file(text: str) -> None:
    flags, spelled = lists(row(text, "`file`"))
    assert OptionTable(flags=flags, long=longs(spelled)) == tables.FILE


def test_jq(text: str) -> None:
    flags, spelled, _ = lists(row(text, "`jq`"))
    assert flags == tables.JQ.flags
    assert longs(spelled) == tables.JQ.long | tables.JQ.long_valued | tables.JQ.long_pairs
    assert "--indent V --arg N V --argjson N V`" in row(text, "`jq`")


def test_base64(text: str) -> None:
    assert row(text, "`base64`") == "`-d -D -i -w V --decode --ignore-garbage --wrap=V`"
    assert (
        OptionTable(
            flags=frozenset("dDi"),
            valued=frozenset("w"),
            long=frozenset({"decode", "ignore-garbage"}),
            long_valued=frozenset({"wrap"}),
        )
        == tables.BASE64
    )


def test_test(text: str) -> None:
    found = lists(row(text, "`test`, `[`"))
    assert tables.TEST_UNARY in found
    assert tables.TEST_BINARY in found


def test_git(text: str) -> None:
    readers = " ".join(sorted(tables.GIT_READERS))
    (command,) = re.findall(r"^\| `(status log [^`]*)` \|", text, re.MULTILINE)
    cell = row(text, f"`{command}`")
    assert " ".join(sorted(command.split())) == readers
    assert [each for each in lists(cell) if len(each) > 3] == [tables.GIT_LONG, tables.GIT_LONG_VALUED]
    assert frozenset(re.findall(r"letters from `([^`]*)`", cell)[0]) == tables.GIT_CLUSTER
    assert frozenset(re.findall(r"-[A-Z](?=…)", cell)) == tables.GIT_SEARCHES


def test_git_branch(text: str) -> None:
    spelled, *_ = lists(row(text, "`branch`"))
    assert longs(spelled) == tables.GIT_BRANCH.long
    assert frozenset("".join(each[1:] for each in spelled if each[1] != "-")) == tables.GIT_BRANCH.flags


def test_an_option_that_takes_the_next_word_takes_a_value() -> None:
    assert tables.GIT_HUNGRY < tables.GIT_LONG_VALUED
    assert tables.FIND_BEFORE_PATHS < tables.FIND_PLAIN
