"""Redirections and here-documents as parts, inputs and fed text."""

import pytest

from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import Part, ShellWord, WordPiece


def targets(text: str) -> list[str]:
    """The targets of the write parts."""
    return [part.words[0].value for part in parse(text) if part.kind == "write"]


@pytest.mark.parametrize(
    "text",
    [
        *("a > f", "a >f", "a >> f", "a >| f", "a &> f", "a &>> f", "a >& f", "a <> f", "a 2> f", "a 7>> f"),
        *("> f a", "x=1 > f", "> f", "a > 'f'", "a 2>&1 > f", "{ a; } > f", "(a) >f", "a b> f", "a 3<>f"),
        *("if a; then b; fi > f", "while a; do b; done >f", "for x in y; do a; done > f", "[[ a ]] > f"),
        *("case a in a) b > f; esac", "f() { a; } > f", "a $(b > f)", "a | b > f", "a <(b >f)", "((1)) >f"),
    ],
)
def test_every_write_redirection_is_a_part(text: str) -> None:
    assert targets(text) == ["f"]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a 2>&1",
            "a >&2",
            "a 2>&-",
            "a >&-",
            "a <&-",
            "a <&3",
            "a > /dev/null",
            "a &> /dev/null",
            "a >& 2",
        ),
        *("a >> '/dev/null'", "a > /dev/stdout", "a 2> /dev/stderr", "a < f", "a <<< f", "a >&/dev/null"),
    ],
)
def test_descriptors_and_harmless_targets_are_no_parts(text: str) -> None:
    assert [part.kind for part in parse(text)] == ["command"]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("a <> /dev/null", "/dev/null"),
        ("a > /dev/null.txt", "/dev/null.txt"),
        ("a > $x", "$x"),
        ("a > /dev/$x", "/dev/$x"),
        ("a >&$x", "$x"),
        ("a >&2x", "2x"),
        ("a > *.txt", "*.txt"),
        ("a 2>&1>f", "f"),
        ("a > >(b)", ">(b)"),
        ("a >&'f'", "f"),
    ],
)
def test_what_may_be_written_is_a_part(text: str, target: str) -> None:
    assert targets(text) == [target]


def test_a_number_belongs_to_the_redirection_only_if_it_touches_it() -> None:
    values = [
        [word.value for word in part.words] for part in parse("a 2>f 3 >g b4>h") if part.kind == "command"
    ]
    assert values == [["a", "3", "b4"]]


def test_inputs_belong_to_their_command() -> None:
    (part,) = parse("a < f 3< 'g h' <&$x")
    assert [word.value for word in part.inputs] == ["f", "g h", "$x"]


def test_inputs_of_a_group_are_inert() -> None:
    assert parse("{ a; } < f")[-1] == Part("inert", inputs=(ShellWord((WordPiece("f"),), "f"),), source="< f")


def test_a_file_that_is_only_read_is_inert() -> None:
    inner, _ = parse("a $(< f)")
    assert (inner.kind, [word.value for word in inner.inputs]) == ("inert", ["f"])


@pytest.mark.parametrize(
    ("text", "fed"),
    [
        ("a <<E\nb\nc\nE", ("b\nc\n",)),
        ("a <<E\nE", ("",)),
        ("a <<'E'\n$b \\\nE\n", ("$b \\\n",)),
        ('a <<"E"\n`b`\nE\n', ("`b`\n",)),
        ("a <<\\E\n$b\nE\n", ("$b\n",)),
        ("a <<E\n$b\nE\n", (None,)),
        ("a <<E\n\\$b \\\\ \\x \"'\nE\n", ("$b \\ \\x \"'\n",)),
        ("a <<E\nb\\\nE\nE\n", ("bE\n",)),
        ("a <<-E\n\tb\n\t\tc\n\tE\n", ("b\nc\n",)),
        ("a <<E <<F\nb\nE\nc\nF\n", ("b\n", "c\n")),
        ("a <<< b", ("b",)),
        ("a <<< 'b c'", ("b c",)),
        ('a <<< "$b"', (None,)),
        ("a <<E <<< b\nc\nE", ("c\n", "b")),
    ],
)
def test_fed_text_is_known_where_bash_leaves_it_alone(text: str, fed: tuple[str | None, ...]) -> None:
    (part,) = parse(text)
    assert part.fed == fed


def test_each_command_of_a_line_gets_its_own_here_document() -> None:
    parts = parse("a <<E && b <<F | c\nd\nE\ne\nF\nf")
    assert [(part.source, part.fed) for part in parts] == [
        ("a <<E", ("d\n",)),
        ("b <<F", ("e\n",)),
        ("c", ()),
        ("f", ()),
    ]


def test_a_here_document_may_be_the_last_thing_in_a_substitution() -> None:
    inner, outer = parse('git commit -m "$(cat <<\'EOF\'\nIt\'s "done" $(x)\nEOF\n)" -q')
    assert (inner.fed, len(outer.words)) == (('It\'s "done" $(x)\n',), 5)
