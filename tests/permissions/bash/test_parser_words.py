"""What the parser makes of quotes, expansions, globs and braces in a word."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import Part, ShellWord, WordPiece


def only(text: str) -> Part:
    """The one part of a text."""
    (part,) = parse(text)
    return part


def last_word(text: str) -> ShellWord:
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
    assert last_word(f"echo {typed}") == ShellWord((WordPiece(value, "text", True),), typed)


@pytest.mark.parametrize(
    ("typed", "pieces"),
    [
        ("$x", [WordPiece("$x", "variable")]),
        ('"$x"', [WordPiece("$x", "variable", True)]),
        ("${x}", [WordPiece("${x}", "variable")]),
        ("${#x}", [WordPiece("${#x}", "variable")]),
        ("$10", [WordPiece("$1", "variable"), WordPiece("0")]),
        ("$?", [WordPiece("$?", "variable")]),
        ("a$x'b c'", [WordPiece("a"), WordPiece("$x", "variable"), WordPiece("b c", "text", True)]),
        ('"a $x"', [WordPiece("a ", "text", True), WordPiece("$x", "variable", True)]),
        ("$x$y", [WordPiece("$x", "variable"), WordPiece("$y", "variable")]),
        ("$(true)", [WordPiece("$(true)", "substitution")]),
        ('"$(true)"', [WordPiece("$(true)", "substitution", True)]),
        ("`true`", [WordPiece("`true`", "substitution")]),
        ("<(true)", [WordPiece("<(true)", "substitution")]),
        ("a<(true)", [WordPiece("a"), WordPiece("<(true)", "substitution")]),
        ("$((1+2))", [WordPiece("$((1+2))", "substitution")]),
        ("$[1+2]", [WordPiece("$[1+2]", "substitution")]),
        ("*.py", [WordPiece("*", "glob"), WordPiece(".py")]),
        ("a?", [WordPiece("a"), WordPiece("?", "glob")]),
        ("a[bc]d", [WordPiece("a"), WordPiece("[", "glob"), WordPiece("bc]d")]),
        ("[a']'", [WordPiece("[", "glob"), WordPiece("a"), WordPiece("]", "text", True)]),
        ("{a,b}", [WordPiece("{", "brace"), WordPiece("a,b}")]),
        ("x{1..3}", [WordPiece("x"), WordPiece("{", "brace"), WordPiece("1..3}")]),
        ("{a},b}", [WordPiece("{", "brace"), WordPiece("a},b}")]),
        ("{a,$x}", [WordPiece("{", "brace"), WordPiece("a,"), WordPiece("$x", "variable"), WordPiece("}")]),
        ("{'a',b}", [WordPiece("{", "brace"), WordPiece("a", "text", True), WordPiece(",b}")]),
    ],
)
def test_what_bash_expands_is_a_dynamic_piece(typed: str, pieces: list[WordPiece]) -> None:
    assert last_word(f"echo {typed}") == ShellWord(tuple(pieces), typed)


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
