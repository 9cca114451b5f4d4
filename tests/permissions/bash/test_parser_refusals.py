"""What the parser refuses: all that bash refuses, and all that cannot be read for certain."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import Unparsable
from tests.permissions.bash.random_commands import FRAGMENT_SOUP, WHOLE_COMMANDS, spoiled
from tests.permissions.bash.real_bash import RealBash


@pytest.mark.needs("bash")
@pytest.mark.parametrize(
    "text",
    [
        *(
            "a 'b",
            'a "b',
            "a `b",
            "a $(b",
            "a ${b",
            "a $((1)",
            "a $'b",
            "(a",
            "{ a;",
            "a)",
            "a }; }",
        ),
        *("| a", "a |", "a ||", "&& a", "a &&", "; a", "a ;; b", "a; ; b", "a & & b", "a | | b", "a & ; b"),
        *(
            "if a",
            "if a; then b",
            "if a; fi",
            "then a",
            "fi",
            "do a",
            "done",
            "esac",
            "else",
            "}",
            "in a",
            "]]",
        ),
        *(
            "while a; done",
            "while a; do b",
            "while ; do b; done",
            "for",
            "for x in a b",
            "for x in a; b; done",
        ),
        *(
            "for ((;)); do a; done",
            "for x { a; }",
            "case a",
            "case a in b",
            "case a in b) c",
            "case a in b c) d;; esac",
        ),
        *(
            "a (b)",
            "a b()",
            "f() a",
            "f() coproc a",
            "function",
            "a=1 f() { b; }",
            "()",
            "{ }",
            "a=(1",
            "a=(b;c)",
        ),
        *(
            "[[ a",
            "[[ a b ]]",
            "[[ a == ]]",
            "[[ -f ]]",
            "[[ ( a ]]",
            "[[ a == b c ]]",
        ),
        *(
            "a >",
            "a > ; b",
            "a >& ",
            "a <",
            "a <<",
            "a <<<",
            "a < > b",
            "a >(b",
            "a @(b)",
            "a | ! b",
            "{ a; } b",
        ),
        *(
            "(a) b",
            "{ { a; } > b }",
            "a > 2>b",
            "coproc",
            "coproc a fi",
            "time {",
            "$(time { a; })",
            "f() g() { a; }",
        ),
    ],
)
def test_what_bash_refuses_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    assert RealBash(tmp_path_factory.mktemp("bash")).refuses(text)
    with pytest.raises(Unparsable):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " \t\n", "# a", "!", "time", ">&2"),
        *(
            "a <<E\nb",
            "a <<E",
            "a <<E\nE b",
            "a $(b <<E\nE)",
            "a $(b <<E)\nE",
            "a <<E 'b\nc'\nE",
            "a <<E \\\nb\nE",
        ),
        *("a <<$x\n$x", "a <<''\n\n", "a <<E $(b\nE\n)", "a $(b <<E\nc\nEx)\nE\n)", "a $( (b <<E\nE\n) )"),
        *(
            "a $((b) | c)",
            "((a) | b)",
            "a $(( 'b' ))",
            "a $[b[0]]",
            'a $(("b"))',
            "a ${ b; }",
            "a ${|b;}",
            "a ${}",
        ),
        *("a \"${x:-'}'}\"", "a ${x:-<(b)}", "a ${x:-$'b'}", "a ${x y}", "a ${$x}", 'a "$$(b)"', "a $é"),
        *(
            "a $'\\0b'",
            "a $'\\x00'",
            "a $'\\x'",
            "a $'\\ud800'",
            "a $'\\c['",
            "a $'\\U110000'",
            "a $'\\x{41}'",
        ),
        *(
            "a &\\\n& b",
            "a $\\\n(b)",
            "a $x\\\ny",
            "a `b\\\nc`",
            "a <\\\n(b)",
            "a \\",
            'a "\\',
            "a ${x:-\\\n}",
            "$(\\\n(1))",
        ),
        *(
            "i\\\nf a",
            "2\\\n>a b",
            "a >&-b",
            "a 99999999999>b",
            "a[b c]=1",
            "a[`b`]=1",
            "a=([b c]=1)",
            "a=(1)b",
        ),
        *("a >&'$(b)'", "a >&\\`b\\`", "a >&'b c'", "a >&'*'", "a >&'~'", "a $(coproc b)", "a $(x=(\\;))"),
        *(
            "!(a)",
            "[[ a == @(b) ]]",
            "[[ a =~ b||c ]]",
            "[[ <(a) ]]",
            "[[ a\n&& b ]]",
            "[[ a #b\n]]",
            "[[ 1>2 ]]",
        ),
        *(
            "a |\ntime b",
            "coproc A if b; then c; fi",
            "for x\nin a; do b; done",
            "case if in if) esac) a;; esac",
        ),
        *(
            "-c a",
            "+x",
            "--version",
            "time -f a",
            "! -x",
            "[[ ]]",
            "[[ a && ]]",
            "a <<E\nb$(",
            "time -p \\\n-- a",
        ),
    ],
)
def test_what_cannot_be_read_for_certain_is_refused(text: str) -> None:
    with pytest.raises(Unparsable):
        parse(text)


@pytest.mark.parametrize(
    "character", "\r\0\x1b\x7f\x85\u00a0\u00ad\u200b\u200d\u202e\u2028\u3000\ufeff\ue000\U000e0041\ud800"
)
@pytest.mark.parametrize("text", ["a{}b", "a '{}'", "a # {}", "a <<'E'\n{}\nE"])
def test_characters_that_deceive_are_refused(text: str, character: str) -> None:
    with pytest.raises(Unparsable):
        parse(text.format(character))


@pytest.mark.parametrize(
    "text",
    [
        "set -o history -o histexpand\necho rm x\n!!:1*",
        "set -H\na",
        "set -eHu\na",
        "set -k\na",
        "builtin set -o posix\na",
        "command -- set -o $x\na",
        "shopt -s extglob\na",
        "shopt -s expand_aliases\na",
        "shopt -s compat31\na",
        "if set $x; then a; fi\nb",
    ],
)
def test_what_changes_the_reading_of_later_lines_is_refused(text: str) -> None:
    with pytest.raises(Unparsable, match="later lines"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["set -euo pipefail\na", "set -- $x\na", "set -H; a", "shopt -s globstar\na", "echo set -H\na"]
)
def test_ordinary_settings_may_stand_before_other_lines(text: str) -> None:
    assert len(parse(text)) == 2


def test_length_is_limited() -> None:
    assert len(parse("a" * 32_768)) == 1
    with pytest.raises(Unparsable, match="32768"):
        parse("a" * 32_769)


def test_the_number_of_parts_is_limited() -> None:
    with pytest.raises(Unparsable, match="too many parts"):
        parse("a;" * 2_501)


@pytest.mark.parametrize("text", ["$x", "{a,", "[a]", "'a'b", "$()", "<a "])
def test_the_work_for_one_line_is_limited(text: str) -> None:
    assert len(parse("a " + text * 2_000)) == 1
    with pytest.raises(Unparsable, match="too complicated"):
        parse("a " + text * 8_001)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        *(
            ("$(", ")"),
            ("( ", ")"),
            ("{ ", ";}"),
            ('"$(', ')"'),
            ("${x:-", "}"),
            ('"${x:-', '}"'),
            ("$((", "))"),
        ),
        *(
            ("<(", ")"),
            ("if ", ";then a;fi"),
            ("while ", ";do a;done"),
            ("case a in a) ", ";; esac"),
            ("f() { ", ";}"),
        ),
        *(
            ("[[ ", " ]]"),
            ("[[ (" + "(" * 9, ")" * 10 + " ]]"),
            ("for x in a;do ", ";done"),
            ("! (", ")"),
            ("x=$(", ")"),
        ),
    ],
)
def test_nesting_is_limited(opening: str, closing: str) -> None:
    for depth in (60, 400):
        with pytest.raises(Unparsable):
            parse(opening * depth + "a" + closing * depth)


@pytest.mark.parametrize(
    "opening", ["$(", "(", "{ ", '"$(', "${x:-", '"${x:-"', "if ", "! ", "[[ ( ", "<<a "]
)
def test_hostile_nesting_ends_in_a_refusal(opening: str) -> None:
    with pytest.raises(Unparsable):
        parse((opening * 20_000)[:32_768])


@given(st.one_of(st.text(), FRAGMENT_SOUP, spoiled(WHOLE_COMMANDS)))
@example("a" * 32_768)
def test_whatever_the_text_it_is_read_or_refused(text: str) -> None:
    try:
        parts = parse(text)
    except Unparsable as refusal:
        assert str(refusal) != ""
    else:
        assert parts != ()
