"""Tasks that go on in a clone of their folder: only commits say that it is one, and no right flows to it."""

import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.rules import Action, Mode, Rule, RuleOrigin, RuleSource
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.journal.dispatch import Handover
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import call, says
from gencode.workspaces.transfer.checkout import NotAClone, clone_at
from tests.workspaces.worktrees.yard import TEN, commit, git, repository

pytestmark = pytest.mark.needs("git")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", a_txt=TEN, sub__b_txt="b\n")


@pytest.fixture
def clone(repo: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "--quiet", str(repo), "clone")
    return tmp_path / "clone"


def opened(folder: Path, *turns: dict[str, Any], **settings: Any) -> AbstractAsyncContextManager[GenCode]:
    """GenCode in a folder, on the journal of this machine."""
    model = ScriptedProvider.of({"*": [says("begun"), *turns, says("done")]})
    return GenCode.open(folder, model=model, settings=settings)


async def begun(folder: Path, agent: str = "general-purpose", **settings: Any) -> str:
    """A task of a folder that has ended."""
    async with opened(folder, **settings) as gen:
        return (await gen.task(agent, "begin")).agent_id


async def told(gen: GenCode, task: str) -> list[str]:
    messages = transcript_of(await gen.history.events(task))
    return [each.text for each in messages if isinstance(each, UserMessage)]


async def results(gen: GenCode, task: str) -> list[str]:
    messages = transcript_of(await gen.history.events(task))
    return [each.text for message in messages if isinstance(message, ToolMessage) for each in message.results]


async def test_a_task_goes_on_in_a_clone_that_is_named_and_is_told_so(repo: Path, clone: Path) -> None:
    task = await begun(repo, permission_mode="acceptEdits")
    turns = [
        says("", call("Write", file_path="new.txt", content="new\n")),
        says("", call("Write", file_path=f"{repo}/other.txt", content="other\n")),
    ]
    async with opened(clone, *turns, permission_mode="acceptEdits") as gen:
        with pytest.raises(UserMistake, match=f"Task {task} belongs to the folder {repo}; resume it"):
            await gen.resume(task, "more")
        outcome = await gen.resume(task, "more", here=True)
        heard, found = await told(gen, task), await gen.find(task)
    assert (outcome.status, outcome.result, found.cwd) == (Status.COMPLETED, "done", str(repo))
    assert [(clone / name).read_text() for name in ("new.txt", "other.txt")] == ["new\n", "other\n"]
    assert not (repo / "new.txt").exists() and not (repo / "other.txt").exists()
    assert heard[-1].startswith(f"[You work in a clone of the repository of {repo}, in {clone}. File tools")
    assert heard[-1] in outcome.evidence.warnings
    async with opened(repo, *turns, says("back")) as gen:
        await gen.resume(task, "and here")
        heard = await told(gen, task)
    assert heard[-2].startswith(
        f"[You are back in the original folder, {repo}. What you changed in your clone"
    )


async def test_no_right_flows_into_the_clone_and_what_was_refused_stays_refused(
    repo: Path, clone: Path, home: Path
) -> None:
    deny = [f"Write({repo}/secret/**)", f"Write({repo}/*/secret.txt)"]
    task = await begun(repo, permission_mode="dontAsk", allow=[f"Write({repo}/**)"], deny=deny)
    names = ("new.txt", "secret/new.txt", "mine/new.txt", "mine/secret.txt")
    turns = [says("", call("Write", file_path=name, content="x\n")) for name in names]
    async with opened(clone, *turns) as gen:
        await gen.resume(task, "more", here=True)
        without = await results(gen, task)
    # What the user allows in the one folder, and what they allow in the other.
    allow = f'allow = ["Write({repo}/**)", "Write({clone}/mine/**)"]\n'
    (home / ".gen" / "settings.toml").write_text(allow)
    async with opened(clone, *turns) as gen:
        outcome = await gen.fork(task, "more", at=5, here=True)
        seen = await results(gen, outcome.agent_id)
    assert [name for name in names if (clone / name).exists()] == ["mine/new.txt"]
    assert len(without) == 4 and not any(text.startswith("Created") for text in without)
    assert [text.startswith("Created") for text in seen[-4:]] == [False, False, True, False]
    assert ["--deny" in text for text in seen[-4:]] == [False, True, False, True], seen


async def test_a_fork_that_began_in_a_clone_takes_no_right_of_it_home(repo: Path, clone: Path) -> None:
    task = await begun(repo, permission_mode="acceptEdits", allow=["Bash(make:*)"])
    here = {"permission_mode": "default", "allow": ["Bash(touch:*)"], "deny": ["Write(keep.txt)"]}
    touch = says("", call("Bash", command="touch new.txt"))
    async with opened(clone, touch, **here) as gen:
        fork = (await gen.fork(task, "more", here=True)).agent_id
        original, found = await gen.find(task), await gen.find(fork)
    first, *links = original.created.policies
    strict = Rule("Write", "keep.txt", Action.DENY, RuleOrigin(RuleSource.FLAG, "--deny"))
    narrowed = replace(first, mode=Mode.DEFAULT, rules=(*first.rules, strict))
    assert (found.cwd, found.created.policies) == (str(repo), (narrowed, *links))
    assert (clone / "new.txt").exists()
    async with opened(repo, touch, touch, touch) as gen:
        await gen.resume(fork, "and at home")
        seen = await results(gen, fork)
    assert len(seen) == 2 and not (repo / "new.txt").exists()
    assert "nobody can approve it in this run" in seen[-1], seen


@pytest.mark.parametrize("flags", [{}, {"allow": ["Write(**)"]}, {"permission_mode": "dontAsk"}])
async def test_what_the_folder_itself_refuses_stays_refused_in_a_clone_whatever_is_named_there(
    repo: Path, clone: Path, flags: dict[str, Any]
) -> None:
    (repo / ".gen").mkdir()
    (repo / ".gen" / "settings.toml").write_text('deny = ["Write(keep.txt)"]\n')
    task = await begun(repo)
    names = ("keep.txt", "new.txt")
    turns = [says("", call("Write", file_path=name, content="x\n")) for name in names]
    async with opened(clone, *turns, **flags) as gen:
        await gen.resume(task, "more", here=True)
        seen = await results(gen, task)
    assert [name for name in names if (clone / name).exists()] == (["new.txt"] if "allow" in flags else [])
    assert "the rule deny Write(keep.txt)" in seen[0], seen


@pytest.mark.parametrize("kind", ["other", "unrelated", "shallow", "none", "elsewhere"])
async def test_what_is_no_clone_does_not_count(repo: Path, clone: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / kind
    match kind:
        case "other":  # the remote says what it likes
            repository(folder, a_txt=TEN)
            commit(folder, b_txt="more\n")
            git(folder, "remote", "add", "origin", str(repo))
        case "unrelated":  # has all of its history, and another one
            git(tmp_path, "clone", "--quiet", str(repo), kind)
            git(folder, "checkout", "--quiet", "--orphan", "own")
            commit(folder, c_txt="own\n")
            git(folder, "merge", "--quiet", "--allow-unrelated-histories", "-m", "both", "main")
        case "shallow":
            commit(repo, c_txt="c\n")
            git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repo}", kind)
        case "none":
            shutil.copytree(repo, folder, ignore=shutil.ignore_patterns(".git"))
        case _:
            folder = clone / "sub"
    with pytest.raises(NotAClone) as why:
        await clone_at(folder, str(repo), None)
    reasons = {"none": "", "elsewhere": f"In this clone, its folder is {clone}: go on there."}
    assert str(why.value) == reasons.get(
        kind, f"{folder} does not begin with the same commits as {repo}, so it is no clone of it."
    )


LEAD = "---\nname: lead\ndescription: leads\ntools: Task(lead), Read\n---\nLead.\n"
SEND = says("", call("Task", subagent_type="lead", prompt="look", description="look"))


async def sent(folder: Path, task: str, *, here: bool = False) -> str:
    """The agent that a task sends when it goes on in a folder."""
    async with opened(folder, SEND, max_depth=4) as gen:
        await gen.resume(task, "send one", here=here)
        (child,) = await gen.tasks(parent=task)
    return child.agent_id


@pytest.mark.parametrize("way", ["resume", "fork", "process"])
async def test_agents_sent_in_a_clone_are_refused_what_the_folder_refuses_whoever_goes_on_with_them(
    repo: Path, clone: Path, home: Path, way: str
) -> None:
    (home / ".gen" / "agents").mkdir(parents=True)
    (home / ".gen" / "agents" / "lead.md").write_text(LEAD)
    task = await begun(repo, "lead", max_depth=4, deny=[f"Read({repo}/sub/b.txt)"])
    child = await sent(clone, task, here=True)
    grandchild = await sent(clone, child)
    names = ("a.txt", "sub/b.txt", f"{repo}/sub/b.txt")
    reads = says("", *(call("Read", file_path=name) for name in names))
    for agent, said in ((child, 3), (grandchild, 1)):
        before = [] if way == "process" else [says("before")] * said
        model = ScriptedProvider.of({"*": [*before, reads, says("done")]})
        async with GenCode.open(clone, model=model) as gen:
            goes_on = await going_on(gen, agent, way)
            seen = (await results(gen, goes_on))[-3:]
        assert seen[0].lstrip().startswith("1"), seen
        assert [f"the rule deny Read({repo}/sub/b.txt)" in text for text in seen] == [False, True, True], seen


async def going_on(gen: GenCode, task: str, way: str) -> str:
    """Let a task go on, or one like it begin; its id."""
    if way == "resume":
        return (await gen.resume(task, "read")).agent_id
    if way == "fork":
        return (await gen.fork(task, "read")).agent_id
    created = (await gen.history.events(task))[0].fact
    assert isinstance(created, TaskCreated)
    job = await gen.take_on(Handover("", created, background=True))
    return (await job.ended()).id
