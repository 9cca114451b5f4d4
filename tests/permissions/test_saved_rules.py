"""Answers for always: kept beside the user's settings, whole, by several processes at once."""

import multiprocessing
import tomllib
from pathlib import Path

import pytest

from gencode.core.errors import UserMistake
from gencode.permissions.saved_rules import FILE
from gencode.settings import gen_home, load, remember

RULES = ("Bash(git push:*)", "Bash(echo \"a\\b\" 'c')", "Read(/tmp/ü.txt)", "WebFetch(domain:example.org)")


def kept() -> list[str]:
    return tomllib.loads((gen_home() / FILE).read_text("utf-8"))["allow"]


def test_an_answer_counts_in_the_next_session(tmp_path: Path) -> None:
    for rule in (*RULES, RULES[0]):
        remember(rule)
    assert kept() == list(RULES)
    assert load(tmp_path).allow == RULES


def test_nothing_the_person_wrote_is_touched(tmp_path: Path) -> None:
    home = gen_home()
    home.mkdir(parents=True, exist_ok=True)
    settings = '# mine\nallow = [ "Bash(make)" ]  # and this\n'
    (home / "settings.toml").write_text(settings)
    remember(RULES[0])
    assert (home / "settings.toml").read_text() == settings
    assert load(tmp_path).allow == ("Bash(make)", RULES[0])


def test_two_processes_lose_no_answer() -> None:
    spawn = multiprocessing.get_context("fork")
    workers = [spawn.Process(target=remember, args=(f"Bash(make {n})",)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert sorted(kept()) == [f"Bash(make {n})" for n in range(8)]


def test_a_file_that_somebody_broke_is_told_and_not_overwritten() -> None:
    home = gen_home()
    home.mkdir(parents=True, exist_ok=True)
    (home / FILE).write_text("allow = [ not toml")
    with pytest.raises(UserMistake, match="is not valid TOML"):
        remember(RULES[0])
    assert (home / FILE).read_text() == "allow = [ not toml"
