"""What the parser makes of quotes, expansions, globs and braces in a word."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import Part, Piece, Word


def only(text: str) -> Part:
    """The one part of a text."""
    (part,) = parse(text)
    return part


def last_word(text: str) -> Word:
    """The last word of the last part, which is the command itself."""
    return parse(text)[-1].words[-1]


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("a", "a"),
        ("'a b'", "a b"),
        ('"a b"', "a b"),
        ("a\\ b", "a b"),
        ("a'b'\"c\"d", "abcd"),
        ("''", ""),
        ("'a\"b'", 'a"b'),
        ('"a\'b"', "a'b"),
        ('"\\$x \\` \\" \\\\ \\a"', '$x ` " \\ \\a'),
        ("\\$x", "$x"),
        ("$", "$"),
        ("a$", "a$"),
        ('"$ a"', "$ a"),
        ("$%", "$%"),
        ("a\\\nb", "ab"),
        ('"a\\\nb"', "ab"),
        ("'a\\\nb'", "a\\\nb"),
        ("a#b", "a#b"),
        ("'#a'", "#a"),
        ("\\#a", "#a"),
        ("~/a", "~/a"),
        ("a=b", "a=b"),
        ("[", "["),
        ("a[", "a["),
        ("]", "]"),
        ("'[a]'", "[a]"),
        ("\\*", "*"),
        ("{}", "{}"),
        ("{a}", "{a}"),
        ("stash@{0}", "stash@{0}"),
        ("@{u}..", "@{u}.."),
        ("stash@{0}..stash@{1}", "stash@{0}..stash@{1}"),
        ("'{a,b}'", "{a,b}"),
        ("{a\\,b}", "{a,b}"),
        ("\\{a,b}", "{a,b}"),
        ("{'a,b'}", "{a,b}"),
        ("{a,b", "{a,b"),
        ("a,b}", "a,b}"),
        ("é–ß", "é–ß"),
        ("!", "!"),
        ("if", "if"),
        ("2", "2"),
    ],
)
def test_a_literal_word_has_the_value_bash_gives_it(typed: str, value: str) -> None:
    word = last_word(f"echo {typed}")
    assert (word.literal, word.value, word.source) == (True, value, typed)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("$'a\\tb'", "a\tb"),
        ("$'it\\'s'", "it's"),
        ("$'\\x72\\155'", "rm"),
        ("$'\\u0072\\U0000006d'", "rm"),
        ("$'\\e\\E\\a\\b\\f\\n\\r\\v\\?\\\"\\\\'", '\x1b\x1b\a\b\f\n\r\v?"\\'),
        ("$'\\cA\\cz'", "\x01\x1a"),
        ("$'\\z'", "\\z"),
        ("$'\\xe2\\x9c\\x93'", "✓"),
        ("$'\\1015'", "A5"),
        ("$'\\xff'", "\udcff"),
    ],
)
def test_escapes_of_ansi_quotes_are_decoded(typed: str, value: str) -> None:
    assert last_word(f"echo {typed}") == Word((Piece(value, "text", True),), typed)


@pytest.mark.parametrize(
    ("typed", "pieces"),
    [
        ("$x", [Piece("$x", "variable")]),
        ('"$x"', [Piece("$x", "variable", True)]),
        ("${x}", [Piece("${x}", "variable")]),
        ("${#x}", [Piece("${#x}", "variable")]),
        ("$10", [Piece("$1", "variable"), Piece("0")]),
        ("$?", [Piece("$?", "variable")]),
        ("a$x'b c'", [Piece("a"), Piece("$x", "variable"), Piece("b c", "text", True)]),
        ('"a $x"', [Piece("a ", "text", True), Piece("$x", "variable", True)]),
        ("$x$y", [Piece("$x", "variable"), Piece("$y", "variable")]),
        ("$(true)", [Piece("$(true)", "substitution")]),
        ('"$(true)"', [Piece("$(true)", "substitution", True)]),
        ("`true`", [Piece("`true`", "substitution")]),
        ("<(true)", [Piece("<(true)", "substitution")]),
        ("a<(true)", [Piece("a"), Piece("<(true)", "substitution")]),
        ("$((1+2))", [Piece("$((1+2))", "substitution")]),
        ("$[1+2]", [Piece("$[1+2]", "substitution")]),
        ("*.py", [Piece("*", "glob"), Piece(".py")]),
        ("a?", [Piece("a"), Piece("?", "glob")]),
        ("a[bc]d", [Piece("a"), Piece("[", "glob"), Piece("bc]d")]),
        ("[a']'", [Piece("[", "glob"), Piece("a"), Piece("]", "text", True)]),
        ("{a,b}", [Piece("{", "brace"), Piece("a,b}")]),
        ("x{1..3}", [Piece("x"), Piece("{", "brace"), Piece("1..3}")]),
        ("{a},b}", [Piece("{", "brace"), Piece("a},b}")]),
        ("{a,$x}", [Piece("{", "brace"), Piece("a,"), Piece("$x", "variable"), Piece("}")]),
        ("{'a',b}", [Piece("{", "brace"), Piece("a", "text", True), Piece(",b}")]),
    ],
)
def test_what_bash_expands_is_a_dynamic_piece(typed: str, pieces: list[Piece]) -> None:
    assert last_word(f"echo {typed}") == Word(tuple(pieces), typed)


def test_more_braces_than_anybody_types_count_as_an_expansion() -> None:
    assert last_word("echo " + "{a}" * 200 + ",}").has("brace")


def test_a_command_word_is_read_like_any_other() -> None:
    assert [word.value for word in only("r'm' -rf $'\\x78'").words] == ["rm", "-rf", "x"]


def test_a_continued_line_goes_on_in_the_same_command() -> None:
    part = only("l\\\ns \\\n -l\\\na")
    assert [word.value for word in part.words] == ["ls", "-la"]
    assert part.source == "l\\\ns \\\n -l\\\na"


def test_a_comment_begins_only_where_a_word_could() -> None:
    assert [[word.value for word in part.words] for part in parse("a b#c #d $(e)\n#f\ng")] == [
        ["a", "b#c"],
        ["g"],
    ]


@given(st.lists(st.text(st.characters(min_codepoint=32, max_codepoint=126)), min_size=1))
def test_quoted_words_come_back_as_they_were(values: list[str]) -> None:
    part = only("cmd " + " ".join(map(shlex.quote, values)))
    assert [word.value for word in part.words] == ["cmd", *values]
    assert all(word.literal for word in part.words)
