"""Glob patterns: what they fit, and that no pattern can run away."""

import re
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.tools.glob_patterns import BadGlob, PathFilter, compile_glob, expand, literal_prefix, split_list


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("*.py", ["a.py", ".py", "a.b.py"], ["a.pyc", "src/a.py"]),
        ("**/*.py", ["a.py", "src/a.py", "a/b/c.py"], ["a.pyi"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "srcs/a"]),
        ("src/**/test_*.py", ["src/test_a.py", "src/a/b/test_.py"], ["test_a.py", "src/a/tests.py"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/c", "a/b/x/y/c", "a/b/b/c"], ["a/c", "a/b/x"]),
        ("file?.[ch]", ["file1.c", "fileé.h"], ["file.c", "file12.c", "file/.c", "file1.x"]),
        ("[!a-c]x", ["dx", "-x"], ["ax", "cx", "/x"]),
        ("[]-]", ["]", "-"], ["x"]),
        ("[", ["["], ["a"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.js", "a.t"]),
        ("{a,b/{c,d}}/x", ["a/x", "b/c/x", "b/d/x"], ["b/x", "c/x"]),
        (r"\*\{a\}", ["*{a}"], ["x{a}", "a"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
    ],
)
def test_a_pattern_fits_what_it_should(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    regex = compile_glob(pattern)
    assert [path for path in fits + fits_not if regex.fullmatch(path)] == fits


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a{b", "never closed"),
        ("{a,b}" * 7, "more than 64"),
        ("x" * 1001, "longer than"),
        ("[z-a]", "backwards"),
    ],
)
def test_a_pattern_that_makes_no_sense_says_why(pattern: str, why: str) -> None:
    with pytest.raises(BadGlob, match=why):
        compile_glob(pattern)


def test_hostile_patterns_come_to_an_end() -> None:
    assert not compile_glob("*a" * 40 + "*b").fullmatch("a" * 250)
    assert not compile_glob("**/*a/" * 12 + "b").fullmatch("/".join(["aa"] * 200))
    assert not compile_glob("**/" * 100 + "*?*?*?b").fullmatch("/".join(["aaaa"] * 200))


def simple_fit(pattern: str, path: str) -> bool:
    """The same rules, written down without a thought for speed."""

    @cache
    def component(glob: str, name: str) -> bool:
        if not glob:
            return not name
        if glob[0] == "*":
            return component(glob[1:], name) or bool(name and component(glob, name[1:]))
        return bool(name) and glob[0] in ("?", name[0]) and component(glob[1:], name[1:])

    def whole(globs: tuple[str, ...], names: tuple[str, ...]) -> bool:
        if not globs:
            return not names
        if globs[0] == "**":
            if len(globs) == 1:
                return bool(names)
            return any(whole(globs[1:], names[skipped:]) for skipped in range(len(names) + 1))
        return bool(names) and component(globs[0], names[0]) and whole(globs[1:], names[1:])

    return whole(tuple(pattern.split("/")), tuple(path.split("/")))


COMPONENT = st.text("ab*?", min_size=1, max_size=5).filter(lambda text: text == "**" or "**" not in text)


@given(
    pattern=st.lists(st.one_of(COMPONENT, st.just("**")), min_size=1, max_size=5).map("/".join),
    path=st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6).map("/".join),
)
def test_the_fast_way_agrees_with_the_simple_way(pattern: str, path: str) -> None:
    assert bool(compile_glob(pattern).fullmatch(path)) == simple_fit(pattern, path)


@given(st.text("ab/*?[]{},!-\\", max_size=12), st.text("ab/,-", max_size=8))
def test_any_text_is_a_pattern_or_a_mistake(pattern: str, path: str) -> None:
    try:
        regex = compile_glob(pattern)
    except BadGlob:
        return
    assert isinstance(regex, re.Pattern)
    assert regex.fullmatch(path) is None or len(path) >= 0


@given(st.lists(st.lists(st.text("abc", max_size=2), min_size=2, max_size=3), max_size=3))
def test_braces_are_written_out_as_every_combination(choices: list[list[str]]) -> None:
    pattern = "-".join("{" + ",".join(each) + "}" for each in choices)
    assert sorted(expand(pattern)) == sorted("-".join(each) for each in product(*choices))


def test_a_list_is_parted_outside_of_braces() -> None:
    assert split_list("*.ts, *.{js,jsx}\t!x,") == ["*.ts", "*.{js,jsx}", "!x"]


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("*.py", ("", "*.py")),
        ("main.py", ("", "main.py")),
        ("src/lib/*.py", ("src/lib/", "*.py")),
        ("src/{a,b}/x", ("src/", "{a,b}/x")),
        ("/abs/x.py", ("/abs/", "x.py")),
        ("/*.py", ("/", "*.py")),
        ("~/x/**", ("~/x/", "**")),
    ],
)
def test_the_folders_before_the_first_wildcard_are_split_off(pattern: str, parts: tuple[str, str]) -> None:
    assert literal_prefix(pattern) == parts


def test_a_filter_takes_the_wanted_and_leaves_the_unwanted() -> None:
    paths = ["a.py", "src/a.py", "src/a.js", "src/gen/b.py"]
    kept = {
        patterns: [path for path in paths if PathFilter(patterns).matches(path)]
        for patterns in ((), ("*.py",), ("src/*.py",), ("!*.py",), ("*.py", "!gen/"), ("./*.py",), ("src/",))
    }
    assert kept == {
        (): paths,
        ("*.py",): ["a.py", "src/a.py", "src/gen/b.py"],
        ("src/*.py",): ["src/a.py"],
        ("!*.py",): ["src/a.js"],
        ("*.py", "!gen/"): ["a.py", "src/a.py", "src/gen/b.py"],
        ("./*.py",): ["a.py"],
        ("src/",): ["src/a.py", "src/a.js", "src/gen/b.py"],
    }


def test_the_coarse_sieve_knows_names_only() -> None:
    assert PathFilter(["src/**/*.py", "*.{c,h}"]).names == ("*.py", "*.c", "*.h")
    assert PathFilter(["src/**", "*.py"]).names == ()
    assert PathFilter(["?[a-z]b[!x]c.py"]).names == ("**c.py",)
