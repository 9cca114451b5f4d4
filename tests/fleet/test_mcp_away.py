"""MCP servers on a worker that has not the folder of a task: they run in a copy of it, bounded as at home."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.questions import Answer
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.mcp.session_servers import SCREEN_WAIT
from gencode.permissions.trust import standing, trust
from gencode.questions.question_desk import QuestionDesk
from gencode.settings import gen_home
from tests.fleet.conftest import PATIENT
from tests.fleet.country import Country, call, results, says
from tests.fleet.driving import ended
from tests.fleet.present_person import Saying, present
from tests.interfaces.cli.running import gen as typed
from tests.mcp.fleet import ODD_SERVER, offer
from tests.postgres import Postgres
from tests.waiting import until
from tests.workspaces.worktrees.yard import commit

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("git")]

TOOL = "mcp__odd__look"


class Abroad(Country):
    """A project whose `.mcp.json` names a server, and one of whose agents brings a server of its own."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        super().__init__(postgres, folder)
        servers = {"mcpServers": {"odd": self.server("odd")}}
        own = json.dumps([{"own": self.server("own")}])
        agent = f"---\nname: keeper\ndescription: Has a server of its own.\nmcpServers: {own}\n---\nWork.\n"
        (self.folder / ".gen" / "agents").mkdir(parents=True)
        (self.folder / ".gen" / "agents" / "keeper.md").write_text(agent)
        commit(self.folder, _mcp_json=json.dumps(servers), note_txt="what is committed\n")

    def server(self, name: str) -> dict[str, Any]:
        """A server whose file and log are outside of the project."""
        file = self.tell(name)
        command = {"command": sys.executable, "args": ["-S", "-E", str(ODD_SERVER), str(file)]}
        return {**command, "sandbox": {"write": [str(self.folder.parent)]}}

    def tell(self, name: str, **how: str) -> Path:
        """How a server behaves from now on; the file that says so."""
        file = self.folder.parent / f"{name}.json"
        file.with_suffix(".new").write_text(
            json.dumps({"log": str(self.log(name)), "tools": offer("look"), **how})
        )
        return file.with_suffix(".new").replace(file)

    def log(self, name: str) -> Path:
        return self.folder.parent / f"{name}.log"

    def calls(self, name: str = "odd") -> int:
        """How many calls have reached a server, wherever it ran."""
        heard = self.log(name).read_text().splitlines() if self.log(name).exists() else []
        return sum(json.loads(line)["method"] == "tools/call" for line in heard)

    async def sent(self, agent: str = "general-purpose", **settings: Any) -> tuple[Task, list[str]]:
        """An agent that was sent to a worker and has ended, and what its calls gave."""
        async with self.gen(**settings) as gen:
            task = (await gen.detach(TaskRequest(agent, "look"))).agent_id
            return await self.heard(gen, task)

    async def heard(self, gen: GenCode, task: str) -> tuple[Task, list[str]]:
        [found] = await ended(gen, [task])
        return found, await results(gen, task)


@pytest.fixture(scope="module")
def abroad(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Abroad]:
    made = Abroad(postgres, tmp_path_factory.mktemp("abroad"))
    made.settle("--concurrency", "2", *PATIENT)
    yield made
    made.close()


def trusted(abroad: Abroad) -> None:
    """Each test has a home of its own, so the folder is trusted in none of them before this."""
    trust(standing(abroad.folder, gen_home()), gen_home())


async def test_a_server_of_the_project_runs_in_the_copy_and_files_of_the_sender_are_those_of_the_copy(
    abroad: Abroad,
) -> None:
    trusted(abroad)
    (abroad.folder / "note.txt").write_text("what is not committed\n")
    abroad.write(says(call(TOOL, message=f"{abroad.folder}/note.txt")))
    words = ("general-purpose", "look", "--background", "--allow", TOOL)
    model = ("--model", f"scripted:{abroad.script}")
    sent = typed("task", "run", *words, *model, cwd=abroad.folder, GEN_DATABASE_URL=abroad.url)
    assert sent.code == 0, sent.err
    async with abroad.gen() as gen:
        found, [seen] = await abroad.heard(gen, sent.out.strip())
    # Python may have left its bytecode in the copy, which is said below the report.
    assert (found.status, found.result.partition("\n")[0]) == (Status.COMPLETED, "done")
    looked = json.loads(seen)
    copy = Path(looked["cwd"])
    assert looked == {
        "cwd": str(copy),
        "asked": str(copy / "note.txt"),
        "read": "what is not committed\n",
    }
    assert copy.is_relative_to(abroad.workers[0].log)


async def test_what_refuses_a_tool_of_a_server_holds_on_the_worker(abroad: Abroad) -> None:
    trusted(abroad)
    abroad.write(says(call(TOOL, message="note.txt")))
    before = abroad.calls()
    _, [refused] = await abroad.sent(permission_mode="dontAsk", deny=[TOOL])
    _, [unasked] = await abroad.sent()
    own = abroad.workers[0].log / "settings.toml"
    own.write_text(f'deny = ["{TOOL}"]\n')
    _, [there] = await abroad.sent(permission_mode="dontAsk")
    own.unlink()
    assert refused == f"Refused: {TOOL}: the rule deny {TOOL}(*) from the flag --deny matches."
    assert there == f"Refused: {TOOL}: the rule deny {TOOL}(*) from {own} matches."
    assert unasked.startswith("Refused: this needs approval, and nobody can approve it in this run.")
    assert abroad.calls() == before


async def test_a_slow_server_is_waited_for_since_every_copy_starts_it_anew(abroad: Abroad) -> None:
    trusted(abroad)
    abroad.log("odd").unlink(missing_ok=True)
    opens = abroad.folder.parent / "opens"
    abroad.tell("odd", manner=f"waits for {opens}")
    abroad.write(says(call(TOOL, message="note.txt")))
    async with abroad.gen(allow=[TOOL]) as gen:
        task = (await gen.detach(TaskRequest("general-purpose", "look"))).agent_id
        await until(abroad.log("odd").exists, "the server was started")
        await asyncio.sleep(SCREEN_WAIT + 0.5)
        opens.touch()
        _, [seen] = await abroad.heard(gen, task)
    abroad.tell("odd")
    assert json.loads(seen)["read"] == (abroad.folder / "note.txt").read_text()


async def test_a_server_that_an_agent_of_the_project_brings_is_started_after_a_person_was_asked(
    abroad: Abroad,
) -> None:
    trusted(abroad)
    abroad.write(says(call("mcp__own__start"), call("mcp__own__look", message="note.txt")))
    _, [unasked, missing] = await abroad.sent("keeper", permission_mode="dontAsk")
    assert unasked.startswith("Refused: this needs approval, and nobody can approve it in this run.")
    assert "The MCP server own was not started: the way it is started is not approved yet" in missing
    assert not abroad.log("own").exists()
    person = Saying(Answer(True))
    async with abroad.gen(background_questions=True, asker=QuestionDesk(person)) as gen:
        await until(lambda: present(abroad), "the person is there")
        task = (await gen.detach(TaskRequest("keeper", "look"))).agent_id
        _, [started, seen] = await abroad.heard(gen, task)
    assert started == "The MCP server own is running. Its tools are available from your next reply on: look."
    assert json.loads(seen)["read"] == (abroad.folder / "note.txt").read_text()
    assert [each.call.name for each in person.asked] == ["mcp__own__start", "mcp__own__look"]
    assert f"started by  '{sys.executable}' '-S' '-E' '{ODD_SERVER}'" in person.asked[0].preview


async def test_no_server_of_a_folder_that_its_sender_does_not_trust_is_started(abroad: Abroad) -> None:
    abroad.log("odd").unlink(missing_ok=True)
    abroad.write(says(call(TOOL, message="note.txt")))
    _, [seen] = await abroad.sent(permission_mode="dontAsk")
    assert seen.startswith(f"There is no tool '{TOOL}' for general-purpose.")
    assert not abroad.log("odd").exists()
