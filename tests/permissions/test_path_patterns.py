import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.permissions.patterns import PathPattern, Places, is_exact, path_pattern

PLACES = Places("/link/ws", "/real/ws", "/link/home", "/real/home")


def denies(pattern: str, path: str) -> bool:
    return path_pattern(pattern, PLACES, True).matches(path)


def allows(pattern: str, path: str) -> bool:
    return path_pattern(pattern, PLACES, False).matches(path)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "/real/ws/a.py", True),
        ("*.py", "/elsewhere/deep/a.py", True),
        ("*.py", "/real/ws/a.pyc", False),
        ("notes", "/real/ws/src/notes", True),
        ("notes", "/real/ws/notes/a", False),
        ("src/*.py", "/real/ws/src/a.py", True),
        ("src/*.py", "/real/ws/src/deep/a.py", False),
        ("src/*.py", "/real/ws/lib/src/a.py", False),
        ("src/a?.py", "/real/ws/src/ab.py", True),
        ("src/a?.py", "/real/ws/src/a.py", False),
        ("src?a", "/real/ws/src/a", False),
        ("src/**", "/real/ws/src/a/b", True),
        ("src/**", "/real/ws/src", False),
        ("src/**", "/real/ws/srcs/a", False),
        ("src/**/b", "/real/ws/src/b", True),
        ("src/**/b", "/real/ws/src/x/y/b", True),
        ("src/**/b", "/real/ws/src/x/cb", False),
        ("src/**.py", "/real/ws/src/a.py", True),
        ("src/**.py", "/real/ws/src/x/a.py", True),
        ("**/a/**/b", "/real/ws/a/x/a/y/b", True),
        ("./src/a", "/real/ws/src/a", True),
        ("./a", "/real/ws/deep/a", True),
        (".", "/real/ws", True),
        (".", "/real/ws/a", False),
        ("../other/x", "/real/other/x", True),
        ("src/../a", "/real/ws/a", True),
        ("/etc/hosts", "/etc/hosts", True),
        ("/etc/hosts", "/real/ws/etc/hosts", False),
        ("/etc/**", "/etc/ssh/sshd_config", True),
        ("~/x/**", "/real/home/x/a", True),
        ("~/x", "/real/ws/~/x", False),
        ("*", "/", True),
        ("", "/any/thing", True),
        ("**", "/any/thing", True),
        ("a[b]", "/real/ws/a[b]", True),
        ("a[b]", "/real/ws/ab", False),
        ("a.b", "/real/ws/axb", False),
        ("src/", "/real/ws/src", True),
    ],
)
def test_a_pattern_names_the_paths_of_the_specification(pattern: str, path: str, expected: bool) -> None:
    assert (allows(pattern, path), denies(pattern, path)) == (expected, expected)


def test_deny_compares_without_case_and_allow_with_it() -> None:
    assert (denies("Src/*", "/real/ws/sRC/A"), allows("Src/*", "/real/ws/sRC/A")) == (True, False)
    assert (denies("GRÜN", "/real/ws/grün"), allows("GRÜN", "/real/ws/grün")) == (True, False)
    assert denies("stra?e", "/real/ws/straße")


def test_deny_also_looks_at_the_folders_as_they_are_written() -> None:
    assert (denies("src/a", "/link/ws/src/a"), allows("src/a", "/link/ws/src/a")) == (True, False)
    assert (denies("~/a", "/link/home/a"), allows("~/a", "/link/home/a")) == (True, False)


def test_a_trailing_slash_denies_what_is_below_and_allows_only_the_folder() -> None:
    assert (denies("src/", "/real/ws/src/a"), allows("src/", "/real/ws/src/a")) == (True, False)


def test_special_characters_of_a_root_are_plain() -> None:
    places = Places("/w.s*", "/w.s*", "/h", "/h")
    pattern = PathPattern("src/a", places, any_case=True)
    assert (pattern.matches("/w.s*/src/a"), pattern.matches("/wxsy/src/a")) == (True, False)


def test_a_pattern_made_to_explode_is_answered() -> None:
    bomb = "*a" * 60 + "b"
    assert not denies(f"{bomb}/**/{bomb}/**/{bomb}", "/real/ws/" + "a" * 1_500 + "/" + "/".join("a" * 1_200))
    assert not denies("**/a/" * 60 + "b", "/real/ws/" + "/".join("a" * 1_500))


def test_too_many_glued_stars_deny_everything_and_allow_nothing() -> None:
    pattern = "a**" * 6 + "/x"
    assert (denies(pattern, "/any"), allows(pattern, "/any")) == (True, False)


@pytest.mark.parametrize(
    ("pattern", "exact"), [("a/b", True), ("a*", False), ("a?", False), ("*", False), ("", False)]
)
def test_exact_means_without_wildcards(pattern: str, exact: bool) -> None:
    assert is_exact(pattern) is exact


def reference(pattern: list[str], path: list[str]) -> bool:
    """The meaning of a pattern, written as plainly as possible."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)
        return any(reference(pattern[1:], path[at:]) for at in range(len(path)))
    return bool(path) and one(pattern[0], path[0]) and reference(pattern[1:], path[1:])


def one(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(one(pattern[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and one(pattern[1:], name[1:])


NAMES = st.text("ab", min_size=1, max_size=4)
PARTS = st.one_of(
    st.just("**"), st.text("ab*?", min_size=1, max_size=4).filter(lambda part: "**" not in part)
)


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(NAMES, min_size=1, max_size=6))
def test_patterns_mean_what_the_plain_reference_means(parts: list[str], names: list[str]) -> None:
    pattern, path = "/" + "/".join(parts), "/" + "/".join(names)
    expected = reference(parts, names)
    assert (allows(pattern, path), denies(pattern, path)) == (expected, expected)


@given(st.text("ab*?/.~", max_size=12), st.lists(NAMES, min_size=1, max_size=4))
def test_whatever_allow_names_deny_names_too(pattern: str, names: list[str]) -> None:
    path = "/real/ws/" + "/".join(names)
    assert denies(pattern, path) or not allows(pattern, path)
