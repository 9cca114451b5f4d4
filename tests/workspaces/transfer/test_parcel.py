"""Addresses that travel, words that are what they should be, and the mark of a folder."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.workspaces.worktrees.yard import git, repository

from gencode.core.errors import UserMistake
from gencode.journal.folder_snapshot import FolderSnapshot, checked, mark_of, safe_remote

SOUND = FolderSnapshot(
    key="a" * 40, tip="b" * 40, below="src/app", remote="https://example.org/r.git", branch="main"
)


@pytest.mark.parametrize(
    ("address", "travels"),
    [
        ("https://example.org/a/b.git", "https://example.org/a/b.git"),
        ("https://ada:secret@example.org:8443/b.git", "https://example.org:8443/b.git"),
        ("https://ghp_token@example.org/b.git", "https://example.org/b.git"),
        ("ssh://git:secret@example.org/b.git", "ssh://git@example.org/b.git"),
        ("ssh://example.org:22/b.git", "ssh://example.org:22/b.git"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
        ("example.org:b.git", "example.org:b.git"),
        ("file:///srv/b.git", "file:///srv/b.git"),
    ],
)
def test_an_address_travels_without_its_password(address: str, travels: str) -> None:
    assert safe_remote(address) == travels
    assert safe_remote(travels) == travels


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ext::sh -c touch% /tmp/x",
        "ext::x",
        "fd::3",
        "http://example.org/b.git",
        "git://example.org/b.git",
        "ftp://example.org/b.git",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=x:y",
        "ssh://-oProxyCommand=x/y",
        "ssh://git@-x/y",
        "git@-x:y",
        "git@example.org:-x",
        "git@example.org::x",
        "-x@example.org:y",
        "https://example.org/b.git?token=secret",
        "https://example.org/b.git#x",
        "https://example.org",
        "https:///b.git",
        "https://ex ample.org/b",
        "https://example.org:port/b",
        "https://example.org/a\nb",
        "file://host/srv/b.git",
        "file:////srv/b.git",
        "/srv/b.git",
        "../b.git",
        "a\\b:c",
    ],
)
def test_an_address_that_could_run_something_or_is_not_guarded_does_not_travel(address: str) -> None:
    assert safe_remote(address) == ""


@given(st.text(st.sampled_from("ahs:/@.-tpfile[]\\ ?#%\n~"), max_size=30))
def test_whatever_travels_is_one_of_the_safe_forms_and_stays_as_it_is(text: str) -> None:
    found = safe_remote(text)
    if found:
        assert safe_remote(found) == found
        assert found.startswith(("https://", "ssh://", "file:///")) or "://" not in found
        assert not found.startswith("-") and "::" not in found.partition("[")[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "../../x"},
        {"tip": "--output=x"},
        {"tip": "HEAD"},
        {"known": ("c" * 64,)},
        {"known": tuple("c" * 40 for _ in range(20))},
        {"packs": ("../x",)},
        {"remote": "ext::x"},
        {"remote": "https://ada:secret@example.org/b.git"},
        {"branch": "--upload-pack=x"},
        {"branch": "a..b"},
        {"branch": "a:refs/heads/b"},
        {"below": "../.."},
        {"below": "/etc"},
        {"below": "a/.git/hooks"},
        {"below": "a/.GIT"},
        {"below": "a\nb"},
    ],
    ids=str,
)
def test_a_parcel_with_a_word_that_is_not_what_it_should_be_is_refused(wrong: dict[str, Any]) -> None:
    assert checked(SOUND) == SOUND
    with pytest.raises(UserMistake, match="its folder"):
        checked(replace(SOUND, **wrong))


@pytest.mark.needs("git")
def test_a_copy_at_another_place_has_another_mark(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    git(tmp_path, "clone", "--quiet", "repo", "copy")
    (tmp_path / "link").symlink_to(repo)
    assert mark_of(repo) == mark_of(tmp_path / "link") != ""
    assert mark_of(repo) != mark_of(tmp_path / "copy")
    assert mark_of(repo) != mark_of(repo / "sub")
    assert mark_of(tmp_path / "nothing") == ""
