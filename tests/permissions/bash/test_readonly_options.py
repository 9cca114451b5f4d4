"""The option reader: which words are options, which are values, which are operands."""

import pytest

from gencode.permissions.bash.options import NotReadOnly, OptionTable, ParsedOptions, read
from gencode.permissions.bash.parts import ShellWord, WordPiece

TABLE = OptionTable(
    flags=frozenset("nrv"),
    valued=frozenset("ke"),
    optional=frozenset("I"),
    long=frozenset({"quiet", "color"}),
    long_valued=frozenset({"key"}),
    long_optional=frozenset({"color", "iso"}),
    long_pairs=frozenset({"arg"}),
)


def plain(*texts: str) -> tuple[ShellWord, ...]:
    return tuple(ShellWord((WordPiece(text),), text) for text in texts)


def reading(operands: str = "", values: str = "", apart: str | None = None) -> ParsedOptions:
    """`apart` are the values that stand as words of their own; without it, all do."""
    return ParsedOptions(
        plain(*operands.split()),
        tuple(values.split()),
        plain(*(values if apart is None else apart).split()),
    )


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", reading()),
        ("a b", reading("a b")),
        ("-n a -r b", reading("a b")),
        ("-nrv a", reading("a")),
        ("-k 2 a", reading("a", "2")),
        ("-k2 a", reading("a", "2", "")),
        ("-rnk2 a", reading("a", "2", "")),
        ("-rnk 2 a", reading("a", "2")),
        ("-ne -o a", reading("a", "-o")),
        ("-en a", reading("a", "n", "")),
        ("-k -- a", reading("a", "--")),
        ("-I a", reading("a")),
        ("-nIo a", reading("a", "o", "")),
        ("--quiet a", reading("a")),
        ("--key 2 a", reading("a", "2")),
        ("--key=2 a", reading("a", "2", "")),
        ("--key=a=b", reading("", "a=b", "")),
        ("--key -o", reading("", "-o")),
        ("--color a", reading("a")),
        ("--color=a b", reading("b", "a", "")),
        ("--iso a", reading("a")),
        ("--arg x y z", reading("z", "x y")),
        ("-- -o --key", reading("-o --key")),
        ("a -- -n", reading("a -n")),
        ("-", reading("-")),
        ("- -n -", reading("- -")),
    ],
)
def test_words_are_sorted_out(typed: str, expected: ParsedOptions) -> None:
    assert read("tool", TABLE, plain(*typed.split())) == expected


def test_an_empty_value_after_the_equals_sign_is_a_value() -> None:
    assert read("tool", TABLE, plain("--key=", "a")) == ParsedOptions(plain("a"), ("",), ())


def test_an_empty_word_is_an_operand() -> None:
    assert read("tool", TABLE, plain("", "-n")) == ParsedOptions(plain(""), (), ())


@pytest.mark.parametrize(
    ("typed", "refusal"),
    [
        ("-o", "tool -o is not among the options that only read"),
        ("-no x", "tool -o is not among the options that only read"),
        ("a -o", "tool -o is not among the options that only read"),
        ("-n-", "tool -- is not among the options that only read"),
        ("-5", "tool -5 is not among the options that only read"),
        ("--qui", "tool --qui is not among the options that only read"),
        ("--quiet=yes", "tool --quiet=yes is not among the options that only read"),
        ("--ke=2", "tool --ke=2 is not among the options that only read"),
        ("--arg=x y", "tool --arg=x is not among the options that only read"),
        ("--quiet ---", "tool --- is not among the options that only read"),
        ("-k", "tool -k lacks its value"),
        ("-nk", "tool -k lacks its value"),
        ("a --key", "tool --key lacks its value"),
        ("--arg x", "tool --arg lacks its value"),
    ],
)
def test_what_is_not_listed_is_refused(typed: str, refusal: str) -> None:
    with pytest.raises(NotReadOnly) as refused:
        read("tool", TABLE, plain(*typed.split()))
    assert str(refused.value) == refusal
