"""The tables are the specification's, word for word."""

import re
from pathlib import Path

import pytest

from gencode.permissions.bash import readonly_tables
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
    assert frozenset(found.split()) == readonly_tables.ANY_ARGUMENTS


def test_the_safe_names(text: str) -> None:
    (found,) = re.findall(r"Safe names: `([^`]*)`", text, re.DOTALL)
    assert frozenset(found.split()) == readonly_tables.SAFE_NAMES | {f"{readonly_tables.SAFE_NAME_START}*"}


def test_the_harmless_names(text: str) -> None:
    (found,) = re.findall(r"\*harmless\*: (.*?)\. Only", text, re.DOTALL)
    assert re.findall(r"`([^`]*)`", found) == [
        readonly_tables.HARMLESS_NAME,
        readonly_tables.HARMFUL_NAME_END,
        *sorted(readonly_tables.HARMFUL_NAMES, reverse=True),
    ]


def test_find(text: str) -> None:
    assert lists(row(text, "`find`")) == [readonly_tables.FIND_VALUED, readonly_tables.FIND_PLAIN]


def test_rg(text: str) -> None:
    assert lists(row(text, "`rg`")) == [
        readonly_tables.RG.flags,
        readonly_tables.RG.valued,
        readonly_tables.RG.long,
        readonly_tables.RG.long_valued,
    ]


def test_sort(text: str) -> None:
    assert lists(row(text, "`sort`")) == [
        readonly_tables.SORT.flags,
        readonly_tables.SORT.valued,
        readonly_tables.SORT.long,
        readonly_tables.SORT.long_valued,
    ]


def test_uniq(text: str) -> None:
    assert lists(row(text, "`uniq`")) == [
        readonly_tables.UNIQ.flags,
        readonly_tables.UNIQ.valued,
        readonly_tables.UNIQ.long,
        readonly_tables.UNIQ.long_valued,
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
        == readonly_tables.DATE
    )


def test_file(text: str) -> None:
    flags, spelled = lists(row(text, "`file`"))
    assert OptionTable(flags=flags, long=longs(spelled)) == readonly_tables.FILE


def test_jq(text: str) -> None:
    flags, spelled, _ = lists(row(text, "`jq`"))
    assert flags == readonly_tables.JQ.flags
    assert (
        longs(spelled)
        == readonly_tables.JQ.long | readonly_tables.JQ.long_valued | readonly_tables.JQ.long_pairs
    )
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
        == readonly_tables.BASE64
    )


def test_test(text: str) -> None:
    found = lists(row(text, "`test`, `[`"))
    assert readonly_tables.TEST_UNARY in found
    assert readonly_tables.TEST_BINARY in found


def test_git(text: str) -> None:
    readers = " ".join(sorted(readonly_tables.GIT_READERS))
    (command,) = re.findall(r"^\| `(status log [^`]*)` \|", text, re.MULTILINE)
    cell = row(text, f"`{command}`")
    assert " ".join(sorted(command.split())) == readers
    assert [each for each in lists(cell) if len(each) > 3] == [
        readonly_tables.GIT_LONG,
        readonly_tables.GIT_LONG_VALUED,
    ]
    assert frozenset(re.findall(r"letters from `([^`]*)`", cell)[0]) == readonly_tables.GIT_CLUSTER
    assert frozenset(re.findall(r"-[A-Z](?=…)", cell)) == readonly_tables.GIT_SEARCHES


def test_git_branch(text: str) -> None:
    spelled, *_ = lists(row(text, "`branch`"))
    assert longs(spelled) <= readonly_tables.GIT_BRANCH.long  # 13k names more
    assert (
        frozenset("".join(each[1:] for each in spelled if each[1] != "-")) == readonly_tables.GIT_BRANCH.flags
    )


def test_an_option_that_takes_the_next_word_takes_a_value() -> None:
    assert readonly_tables.GIT_HUNGRY < readonly_tables.GIT_LONG_VALUED
    assert readonly_tables.FIND_BEFORE_PATHS < readonly_tables.FIND_PLAIN
