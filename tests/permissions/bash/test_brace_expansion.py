"""Braces are expanded as bash expands them, or stay unknown."""

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from gencode.permissions.bash.brace_expansion import with_braces_expanded
from gencode.permissions.bash.parser import parse
from gencode.permissions.bash.parts import Unparsable

PIECES = [
    "{a,b}",
    "{1..3}",
    "{3..1}",
    "{a..c}",
    "{1..9..4}",
    "{,x}",
    "{a,}",
    "{x}",
    "{}",
    "x",
    "-o",
    "{01..3}",
    "{a,{b,c}}",
    "'q'",
    "{a..C}",
    "{-2..2}",
    "..",
    ",",
    "{a,b",
    "c}",
    "{1..3..0}",
    "{a,b..c}",
]


def words_of(text: str) -> list[str] | None:
    """What we make of a command; None where a word stays unknown."""
    try:
        parts = [part for part in parse(f"echo {text}") if part.kind == "command"]
    except Unparsable:
        return None
    words = with_braces_expanded(parts[0]).words[1:]
    return [word.value for word in words] if all(word.literal for word in words) else None


def words_of_bash(texts: list[str]) -> list[list[str]]:
    script = "\n".join(f"printf '%s\\0' {text}; printf '\\1\\0'" for text in texts)
    said = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, check=True).stdout.decode()
    return [each.split("\0")[:-1] for each in said.split("\1\0")[:-1]]


@given(
    st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join), min_size=20, max_size=20)
)
def test_braces_become_the_words_that_bash_makes_of_them(texts: list[str]) -> None:
    known = [(text, words) for text in texts if (words := words_of(text)) is not None]
    assert [words or [""] for _, words in known] == words_of_bash([text for text, _ in known])


def test_lists_and_ranges_of_plain_text_are_known() -> None:
    assert words_of("src/{a,b}.py {1..3}") == ["src/a.py", "src/b.py", "1", "2", "3"]


def test_more_words_than_anybody_would_type_stay_unknown() -> None:
    part = with_braces_expanded(parse("echo {1..9}{1..9}{1..9}")[0])
    assert len(part.words) == 2
