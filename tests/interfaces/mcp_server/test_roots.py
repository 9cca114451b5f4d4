"""What a client's roots leave of the folder that the server was started for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.errors import UserMistake
from gencode.interfaces.mcp_server.workspaces import folder_of, working_folder

OUTSIDE = "are outside of"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "base"
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder.parent / "other").mkdir()
    return folder


def test_without_roots_it_is_the_folder_of_the_server(base: Path) -> None:
    assert working_folder(base, []) == base


@pytest.mark.parametrize("there", [".", "..", "../.."])
def test_a_root_around_the_folder_or_equal_to_it_changes_nothing(base: Path, there: str) -> None:
    assert working_folder(base, [(base / there).resolve().as_uri()]) == base


def test_a_root_inside_narrows_and_the_first_of_several_counts(base: Path) -> None:
    inner, deep = base / "inner", base / "inner" / "deep"
    assert working_folder(base, [(base.parent / "other").as_uri(), deep.as_uri(), inner.as_uri()]) == deep


def test_roots_elsewhere_are_refused(base: Path) -> None:
    with pytest.raises(UserMistake, match=OUTSIDE):
        working_folder(base, [(base.parent / "other").as_uri(), "file:///nowhere"])


def test_a_root_that_is_no_folder_is_said_to_be_none(base: Path) -> None:
    (base / "file").write_text("x")
    with pytest.raises(UserMistake, match=r"None of the client's roots .* is an existing folder"):
        working_folder(base, [(base / "file").as_uri(), (base / "missing").as_uri()])


def test_a_link_inside_that_leads_out_is_refused(base: Path) -> None:
    (base / "link").symlink_to(base.parent / "other")
    with pytest.raises(UserMistake, match=OUTSIDE):
        working_folder(base, [(base / "link").as_uri()])


def test_a_folder_whose_name_only_begins_the_same_is_refused(base: Path) -> None:
    beside = base.with_name("base2")
    beside.mkdir()
    with pytest.raises(UserMistake, match=OUTSIDE):
        working_folder(base, [beside.as_uri()])


@pytest.mark.parametrize(
    "uri",
    ["", "https://example.org/", "file://elsewhere/tmp", "file:relative", "file:///a%00b", "file://[", "x"],
)
def test_what_is_no_folder_of_this_machine_is_none(uri: str) -> None:
    assert folder_of(uri) is None


@given(st.lists(st.text(max_size=30), max_size=3), st.lists(st.sampled_from(["..", "inner", "x", "."])))
def test_no_root_ever_leads_out_of_the_folder(parts: list[str], climbing: list[str]) -> None:
    base = Path("/usr/lib")
    uris = [*(f"file:///usr/lib/{part}" for part in parts), f"file:///usr/lib/{'/'.join(climbing)}"]
    try:
        found = working_folder(base, uris)
    except UserMistake:
        return
    assert found.is_relative_to(base)
