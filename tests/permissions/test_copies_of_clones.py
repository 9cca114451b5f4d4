"""A copy of a clone, on a worker: what the clone's folder refuses is refused there, what it allows is not."""

from pathlib import Path

import pytest

from gencode.core.place import CopiedFolder, FolderCopy
from gencode.core.rules import Action, Policy, parse_rule
from gencode.core.spec import Workspace
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide

CLONE = FolderCopy("/clone", "/repo", "/home/me", ("/clone",), narrows=True)
SENT = FolderCopy("/copy", "/clone", "/home/me", ("/copy",))


def workspace(top: str, copied: FolderCopy | None = None) -> Workspace:
    return Workspace(Path(top), Path(top), Path("/home/it"), copied)


@pytest.mark.parametrize(
    ("rule", "action"),
    [
        ("deny Write(/repo/sub/**)", Action.DENY),
        ("deny Write(/*/sub/x.txt)", Action.DENY),
        ("ask Write(/clone/sub/**)", Action.ASK),
        ("allow Write(/repo/**)", Action.ASK),
        ("allow Write(/clone/**)", Action.ALLOW),
        ("allow Write(/copy/**)", Action.ALLOW),
        ("allow Write(sub/**)", Action.ALLOW),
    ],
)
def test_only_the_nearest_folder_allows_anything_in_a_copy_of_a_clone(rule: str, action: Action) -> None:
    there = workspace("/copy", SENT).as_clone(CLONE)
    word, _, text = rule.partition(" ")
    policy = Policy(rules=(parse_rule(text, Action(word)),))
    facts = CallFacts(tool="Write", input={"file_path": "sub/x.txt"}, effect="write", workspace=there)
    assert decide(facts, [policy]).action is action


def test_what_a_task_remembers_of_a_clone_goes_on_with_it() -> None:
    there = workspace("/copy", SENT).as_clone(CLONE)
    assert there.clone == FolderCopy("/copy", "/repo", "/home/me", ("/copy",), narrows=True)
    assert workspace("/clone/sub").as_clone(CLONE).clone == CLONE
    assert workspace("/copy", SENT).clone is None
    again = FolderCopy("/second", "/clone", "/home/me", ("/second",), narrows=True)
    assert workspace("/second", again).as_clone(CLONE).copied == FolderCopy(
        "/second",
        "/clone",
        "/home/me",
        ("/second",),
        narrows=True,
        cloned=(CopiedFolder("/repo", "/home/me"),),
    )


def test_back_in_the_folder_itself_no_name_means_the_clone() -> None:
    assert workspace("/repo").as_clone(CLONE) == workspace("/repo")
