"""Which parts the parser finds, wherever a command can stand."""

import pytest
from msgspec.structs import replace

from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import Assignment, Part, ShellWord, WordPiece


def plain(text: str) -> ShellWord:
    return ShellWord((WordPiece(text),), text)


def commands(text: str) -> list[str]:
    """The words of every command part, joined by blanks."""
    return [" ".join(word.value for word in part.words) for part in parse(text) if part.kind == "command"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a; b & c && d || e | f |& g\nh", ["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("(a; (b)) && { c; d\n}", ["a", "b", "c", "d"]),
        ("! a", ["a"]),
        ("time a; time -p b; time -p -- c; ! time ! d", ["a", "b", "c", "d"]),
        ("a | time b", ["a", "time b"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("if (a) then (b) else { c; } fi", ["a", "b", "c"]),
        ("while a; do b; done; until c\ndo d\ndone", ["a", "b", "c", "d"]),
        ("for x in $(a); do b; done", ["a", "b"]),
        ("for x do a; done", ["a"]),
        ("for ((;;)); do a; done", ["a"]),
        ("for x in 1; { a; }", ["a"]),
        ("select x in 1; do a; done", ["a"]),
        ("case $(a) in $(b)) c;; x|y) d;& (z) e;;& *) f; esac", ["a", "b", "c", "d", "e", "f"]),
        ("case x in x) ;; esac; a", ["a"]),
        ("f() { a; }; function g { b; }; function h() (c)", ["a", "b", "c"]),
        ("coproc a; coproc N { b; }", ["a", "b"]),
        ("[[ $(a) ]]", ["a"]),
        ("a $(b $(c))", ["c", "b $(c)", "a $(b $(c))"]),
        ('a "x $(b "y $(c)")"', ["c", "b y $(c)", 'a x $(b "y $(c)")']),
        ("a `b \\`c\\``", ["c", "b `c`", "a `b \\`c\\``"]),
        ('a "`b \\"x y\\"`"', ["b x y", 'a `b \\"x y\\"`']),
        ("a <(b) >(c)", ["b", "c", "a <(b) >(c)"]),
        ("a > $(b) < `c`", ["b", "c", "a"]),
        ("a <<< $(b)", ["b", "a"]),
        ("x=$(a) y[0]=`b` z=($(c))", ["a", "b", "c", ""]),
        ("a ${x:-$(b)} ${y/$(c)/`d`}", ["b", "c", "d", "a ${x:-$(b)} ${y/$(c)/`d`}"]),
        ("a $((1+$(b))) $((`c`))", ["b", "c", "a $((1+$(b))) $((`c`))"]),
        ("(($(a)))", ["a"]),
        ("a $(case x in x) b;; esac) c", ["b", "a $(case x in x) b;; esac) c"]),
        ("a $( (b) )", ["b", "a $( (b) )"]),
        ("a $(b # c )\n)", ["b", "a $(b # c )\n)"]),
        ("a <<E\n$(b) `c` ${x-$(d)}\nE", ["b", "c", "d", "a"]),
        ("a <<'E'\n$(b)\nE", ["a"]),
        ("a '$(b)' \"\\$(b)\" \\`b", ["a $(b) $(b) `b"]),
        ("a $()", ["a $()"]),
    ],
)
def test_every_command_is_found(text: str, expected: list[str]) -> None:
    assert commands(text) == expected


def test_a_simple_command_is_one_part() -> None:
    expected = Part(
        "command",
        (plain("cmd"), plain("-x"), plain("c=3")),
        (Assignment("a", plain("1")), Assignment("b", plain("2"))),
        source="a=1 b+=2 cmd -x c=3",
    )
    assert parse(" a=1 b+=2 cmd -x c=3 # why") == (expected,)


def test_a_bare_assignment_is_a_part() -> None:
    assert parse("a='b c'") == (
        Part(
            "command",
            assignments=(Assignment("a", ShellWord((WordPiece("b c", "text", True),), "'b c'")),),
            source="a='b c'",
        ),
    )


def test_an_empty_assignment_has_an_empty_value() -> None:
    assert parse("a= cmd")[0].assignments == (Assignment("a", ShellWord((), "")),)


@pytest.mark.parametrize("text", ["'a'=1", "1a=1", "a\\==1", "a-b=1", "$a=1", "é=1"])
def test_what_only_looks_like_an_assignment_is_a_command(text: str) -> None:
    (part,) = parse(text)
    assert (part.kind, len(part.words), part.assignments) == ("command", 1, ())


def test_the_words_of_a_loop_are_inert_and_its_variable_is_assigned() -> None:
    loop, body = parse("for x in a b; do ls; done")
    assert replace(loop, frame=None) == Part(
        "inert",
        (plain("a"), plain("b")),
        (Assignment("x", ShellWord((), "")),),
        source="for x in a b",
    )
    assert replace(body, frame=None) == Part("command", (plain("ls"),), source="ls")


def test_the_word_and_patterns_of_a_case_are_inert() -> None:
    *_, part = parse("case a in b|c) ls;; esac")
    assert part == Part("inert", (plain("a"), plain("b"), plain("c")), source="case a in b|c) ls;; esac")


def test_the_operands_of_a_condition_are_inert() -> None:
    (part,) = parse("[[ -f a && ( b == c || ! d =~ ^(e|f)+$ ) ]]")
    assert (part.kind, [word.value for word in part.words]) == ("inert", ["a", "b", "c", "d", "^(e|f)+$"])


def test_reserved_words_are_words_after_a_command() -> None:
    assert commands("echo if then { } ! [[ done") == ["echo if then { } ! [[ done"]


def test_a_quoted_reserved_word_is_a_command() -> None:
    assert commands("\\if a; 'then' b") == ["if a", "then b"]


def test_a_reserved_word_behind_an_assignment_is_a_command() -> None:
    assert commands("x=1 if a") == ["if a"]


def test_parts_hold_the_text_as_it_was_typed() -> None:
    assert [part.source for part in parse("ls  -l |  wc  >out; { a ; } <in")] == [
        "ls  -l",
        ">out",
        "wc  >out",
        "a",
        "<in",
    ]


def test_two_thousand_parts_are_fine() -> None:
    assert len(parse("a;" * 2000)) == 2000
