"""What became of the files a task changed, as its facts and its result tell it."""

from gencode.core.changes import (
    ChangedFile,
    Changes,
    CopyChanges,
    LostChanges,
    MergedChanges,
    NamedTask,
    WorktreeChanges,
    WorktreeInUse,
    describe_changes,
    listed,
    named,
    offers,
    withdrawn,
)
from gencode.core.events import (
    ChangesMoved,
    DurableFact,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskStarted,
)
from gencode.core.messages import AssistantMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import Task, replay
from tests.core.journal import journal

TASK = journal(TaskCreated())[0].task
BRANCH = f"gencode/{TASK}"
FILE = ChangedFile("a.txt", "changed", 2, 1)
OPEN = WorktreeChanges("open", BRANCH, "/own/w", "/p", files=(FILE,), merges="clean", commands=("git merge",))
AWAY = CopyChanges("handed_in", TASK, "/p", "worker", "/own/c", files=(FILE,))
OFFERED = MergedChanges("offered", "/p", f"{BRANCH}-0123abcd", "it would conflict", ("git merge",))


def ended(*changes: Changes) -> TaskEnded:
    return TaskEnded(Status.COMPLETED, "done", changes=changes, reason=EndReason.FINISHED)


def task(*facts: DurableFact) -> Task:
    found = replay(journal(TaskCreated(), TaskStarted(), *facts))
    assert found is not None
    return found


def test_a_result_is_what_was_said_with_what_became_of_the_changes() -> None:
    assert task(ended()).result == "done"
    assert (
        ended(OPEN).full_text
        == task(ended(OPEN)).result
        == (
            "done\n\n"
            f"[Its changes are on the branch {BRANCH}, in /own/w, and not in your checkout.]\n"
            "changed a.txt +2 -1\n"
            "It can be merged without conflicts.\n"
            "To take it over: git merge"
        )
    )


def test_work_that_was_taken_over_is_not_offered_any_more() -> None:
    applied = ChangesMoved(MergedChanges("applied", "/p"), "offers")
    lost = ChangesMoved(LostChanges(TASK, "no git"))
    found = task(ended(AWAY), lost, ChangesMoved(OFFERED), applied)
    assert found.result == (
        "done\n\n"
        "[It worked in a copy of /p on worker. What it changed there:]\nchanged a.txt +2 -1\n\n"
        "[Its changes are in the files of /p now.]"
    )
    before = task(ended(AWAY), lost, ChangesMoved(OFFERED))
    assert [offers(each, BRANCH) for each in before.report.changes] == [True, True, True]
    assert "They were not applied: it would conflict." in before.result


def test_the_last_one_in_a_worktree_tells_what_is_in_it() -> None:
    others = WorktreeInUse((NamedTask("b1", "Explore"), NamedTask("b2", "Plan")), TASK, own=True)
    assert describe_changes(others).startswith(
        "[Task b1 of Explore and task b2 of Plan are still at work in its worktree."
    )
    last = WorktreeChanges("merged", BRANCH, "/own/w", "/p", last=NamedTask("b2", "Plan"))
    found = task(ended(others), ChangesMoved(last, "in_use"))
    assert found.report.changes == (last,)
    assert found.result == (
        "done\n\n[The last task at work in its worktree has ended: task b2 of Plan.]\n"
        f"[Its changes, on the branch {BRANCH}, in /own/w, are all in /p.]"
    )


def test_what_is_said_afterwards_says_nothing_of_earlier_changes() -> None:
    again = task(ended(OPEN), TaskStarted(), MessageAdded(AssistantMessage("more")))
    assert (again.result, again.report.changes) == ("more", ())
    assert task(ended(OPEN), TaskStarted()).report.changes == (OPEN,)


def test_only_the_offer_of_the_branch_that_was_taken_over_is_withdrawn() -> None:
    for branch, same in {BRANCH: True, f"{BRANCH}-0123abcd": True, f"{BRANCH}-home": False}.items():
        change = MergedChanges("offered", "/p", branch)
        assert (offers(change, BRANCH), withdrawn(change, BRANCH) != change) == (same, same)
    assert "git merge" not in describe_changes(withdrawn(OPEN, BRANCH))
    assert "changed a.txt +2 -1" in describe_changes(withdrawn(OPEN, BRANCH))


def test_no_more_files_and_tasks_are_named_than_anybody_reads() -> None:
    assert list(listed([FILE] * 51, 3))[49:] == ["changed a.txt +2 -1", "and 4 more files"]
    tasks = [NamedTask(str(number), "x") for number in range(7)]
    assert named(tasks) == "Task 0 of x, task 1 of x, task 2 of x, task 3 of x, task 4 of x and 2 more are"
    assert named(tasks[:1]) == "Task 0 of x is"
