"""A project in a git repository, workers that have not its folder, and what they are told and say."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from gencode import GenCode
from gencode.core.messages import NoticeKind, ToolMessage, UserMessage
from gencode.core.spec import TaskRequest
from gencode.core.task import transcript_of
from tests.fleet.driving import Fleet, Process, put_script
from tests.interfaces.cli.running import gen as typed
from tests.postgres import Postgres
from tests.workspaces.worktrees.yard import TEN, commit, git


class Country(Fleet):
    """A project in a git repository, and workers that live elsewhere."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        super().__init__(postgres, folder / "project")
        self.far = folder / "far"
        self.far.mkdir()
        self.script = folder / "script.json"
        git(self.folder, "init", "--quiet", "--initial-branch=main")
        commit(self.folder, a_txt=TEN, _gitignore="*.log\n", sub__b_txt="b\n")

    def write(self, agents: dict[str, Any]) -> None:
        """What the model says; it is not in the project."""
        put_script(self.folder.parent / "script.json", agents)

    def settle(self, *options: str) -> Process:
        """Start a worker in the far country."""
        self.workers.append(Process(self.far, self.url, *options))
        return self.workers[-1].ready()

    def at(self, task: str) -> Process:
        """The worker that is at a task."""
        number = self.owners()[task]
        return next(each for each in self.workers if each.number == number)

    def gen(self, asker: Any = None, **settings: Any) -> AbstractAsyncContextManager[GenCode]:
        named = {"database_url": self.url, "permission_mode": "acceptEdits", **settings}
        return GenCode.open(self.folder, model=f"scripted:{self.script}", settings=named, asker=asker)

    def doctor(self) -> list[str]:
        told = typed("doctor", "--json", cwd=self.folder, GEN_DATABASE_URL=self.url).json["checks"]
        return [f"{each['name']}: {each['detail']} → {each['fix']}" for each in told]


def call(name: str, **fields: str) -> dict[str, Any]:
    return {"name": name, "input": fields}


def says(*turns: Any, delay: int = 0) -> dict[str, Any]:
    replies = [{"text": f"turn {n}", "calls": [each], "delay_ms": delay} for n, each in enumerate(turns)]
    return {"*": [*replies, {"text": "done"}]}


async def results(gen: GenCode, task: str) -> list[str]:
    """What the calls of a task gave."""
    messages = transcript_of(await gen.history.events(task))
    return [each.text for message in messages if isinstance(message, ToolMessage) for each in message.results]


async def told(gen: GenCode, task: str) -> list[str]:
    """What a task was told, but for remarks such as those on its permissions."""
    messages = transcript_of(await gen.history.events(task))
    heard = [each for each in messages if isinstance(each, UserMessage)]
    return [each.text for each in heard if each.notice is None or each.notice.kind is not NoticeKind.REMARK]


async def detached(gen: GenCode) -> str:
    return (await gen.detach(TaskRequest("general-purpose", "work"))).agent_id


def said(*turns: Any) -> list[dict[str, Any]]:
    return says(*turns)["*"][:-1]
