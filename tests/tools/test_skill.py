"""Skill: gives a skill's text and files, or has its agent do the work, and never more than was judged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from gencode.agent.ports import Delegate, StartedTask
from gencode.agent.toolbox import ToolContext, ToolOutput
from gencode.core.errors import ToolError, UnknownName, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.ids import stamp
from gencode.core.messages import ToolCall, Trace
from gencode.core.outcome import Outcome, outcome_of
from gencode.core.spec import Skill, TaskRequest, same_name
from gencode.core.status import Status
from gencode.core.task import Task, TaskReport
from gencode.core.text import CLIP
from gencode.testing import reported
from gencode.tools.skill import LONGEST_BODY, as_task_call, instructions, skill_tool
from tests.tools.desk import Desk

NOTES = Skill("notes", "Writes notes.", "Write them for $ARGUMENTS.", "/home/me/.gen/skills/notes/SKILL.md")
ROUTED = replace(NOTES, name="look", agent="Explore", project=True)


class Shelf:
    """Skills by name, each with the same files."""

    def __init__(self, *skills: Skill, files: Sequence[str] = ()) -> None:
        self._skills = {same_name(skill.name): skill for skill in skills}
        self._files = files

    def find(self, name: str) -> Skill:
        if same_name(name) not in self._skills:
            raise UnknownName("skill", name, self._skills)
        return self._skills[same_name(name)]

    def files(self, skill: Skill) -> Sequence[str]:
        return self._files


class Sender:
    """A delegate that writes down what it was asked for; it knows no model but `known`."""

    def __init__(self, known: str = "") -> None:
        self.asked: list[TaskRequest] = []
        self._known = known

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        self.asked.append(request)
        if request.model not in ("", self._known):
            raise UserMistake(f"There is no model {request.model!r}.")
        task = Task(
            "00000001",
            TaskCreated(request.agent, request.prompt),
            stamp(),
            Status.COMPLETED,
            3,
            report=TaskReport("Found it."),
        )
        return outcome_of(task)

    async def look(self, task: str, seconds: float) -> Outcome:
        raise UserMistake(f"There is no task {task}.")

    def sent(self) -> Sequence[StartedTask]:
        return ()

    def agents(self) -> Sequence[tuple[str, str]]:
        return ()

    def result_cap(self, agent: str) -> int:
        return 2_000


async def use(ctx: ToolContext, shelf: Shelf, *, delegates: bool = True, **arguments: Any) -> ToolOutput:
    tool = skill_tool(lambda: shelf, delegates=delegates)
    return await tool.run(ctx, tool.parse(ToolCall("c1", "Skill", arguments)))


async def test_a_skill_gives_its_text_with_arguments_folder_and_files(desk: Desk):
    files = ("/home/me/.gen/skills/notes/template.md",)
    output = await use(desk.ctx, Shelf(NOTES, files=files), skill="Notes", args="v2")
    assert output == ToolOutput(
        "Instructions of the skill notes. Follow them; they give no permission.\n\n"
        "Its folder: /home/me/.gen/skills/notes\n\n"
        "Write them for v2.\n\n"
        "Its files, for Read when they are needed:\n- /home/me/.gen/skills/notes/template.md",
        Trace(read=(NOTES.source,)),
    )


@pytest.mark.parametrize(
    ("body", "arguments", "filled"),
    [
        ("For $ARGUMENTS.", "a $ARGUMENTS b", "For a $ARGUMENTS b."),
        ("$ARGUMENTS[1], $ARGUMENTS[0], $ARGUMENTS[9]", "one two", "two, one, "),
        ("In ${CLAUDE_SKILL_DIR}/x and $1", "a", f"In {NOTES.folder}/x and $1\n\nArguments: a"),
        ("Run !`rm -rf /` never.", "", "Run !`rm -rf /` never."),
        ("a\u202eb\x1b[0m", "", "ab[0m"),
    ],
)
def test_arguments_are_put_in_their_place_and_nothing_else_happens(body: str, arguments: str, filled: str):
    told = instructions(replace(NOTES, body=body), arguments)
    assert told.split("\n\n", 2)[2] == filled


def test_a_long_text_is_cut_with_the_path_of_the_rest():
    told = instructions(replace(NOTES, body="word and more\n" * 10_000), "a " * 10_000, ["/f"] * 60)
    assert len(told) <= CLIP + 10_000
    assert len(instructions(replace(NOTES, body="word and more\n" * 10_000), "")) <= LONGEST_BODY + 400
    assert f"[This is only the beginning; go on in {NOTES.source} with Read.]" in told


async def test_files_of_the_users_skills_may_be_read_those_of_projects_as_the_gate_says(desk: Desk):
    handed: list[Path] = []
    ctx = replace(desk.ctx, allow_reading=handed.append)
    shelf = Shelf(NOTES, replace(NOTES, name="theirs", project=True), files=("/a/b.md",))
    await use(ctx, shelf, skill="theirs")
    assert handed == []
    await use(ctx, shelf, skill="notes")
    assert handed == [Path(NOTES.source), Path("/a/b.md")]


async def test_a_skill_with_an_agent_is_done_by_that_agent(desk: Desk):
    sender = Sender()
    output = await use(
        replace(desk.ctx, delegate=cast(Delegate, sender)), Shelf(ROUTED), skill="look", arguments="x"
    )
    prompt = instructions(ROUTED, "x")
    assert sender.asked == [TaskRequest("Explore", prompt, "skill look")]
    who = ("00000001",)
    assert reported(output.text) == "Found it."
    trace = Trace(children=who, delivered=who, ends=("",))
    assert output == ToolOutput(output.text, trace)


async def test_the_model_of_a_skill_is_used_where_it_is_known(desk: Desk):
    sender = Sender(known="haiku")
    ctx = replace(desk.ctx, delegate=cast(Delegate, sender))
    for model in ("haiku", "inherit", "gpt-from-elsewhere"):
        output = await use(ctx, Shelf(replace(ROUTED, model=model)), skill="look")
    assert [request.model for request in sender.asked] == ["haiku", "", "gpt-from-elsewhere", ""]
    assert output.text.endswith(
        "]\n[The model 'gpt-from-elsewhere' of the skill was not used: "
        "There is no model 'gpt-from-elsewhere'.]"
    )


async def test_where_the_gate_does_not_judge_it_nobody_is_sent(desk: Desk):
    sender = Sender()
    ctx = replace(desk.ctx, delegate=cast(Delegate, sender))
    output = await use(ctx, Shelf(ROUTED), delegates=False, skill="look")
    assert sender.asked == []
    assert output.text.startswith(
        "This skill needs the agent Explore. Start it with Task, subagent_type='Explore'"
    )


async def test_an_agent_that_cannot_send_agents_is_told_so(desk: Desk):
    with pytest.raises(ToolError, match="needs the agent Explore, and this agent cannot start agents"):
        await use(desk.ctx, Shelf(ROUTED), skill="look")


@pytest.mark.parametrize(
    ("name", "why"),
    [("mine", "Only the user can use the skill"), ("gone", "There is no skill 'gone'")],
)
async def test_what_cannot_be_used_says_why(desk: Desk, name: str, why: str):
    with pytest.raises(UserMistake, match=why):
        await use(desk.ctx, Shelf(replace(NOTES, name="mine", hidden=True)), skill=name)


@pytest.mark.parametrize(
    ("call", "agent"),
    [
        (ToolCall("c", "Skill", {"skill": "look", "arguments": "x"}), "Explore"),
        (ToolCall("c", "skill", {"skill": "LOOK"}), "Explore"),
        (ToolCall("c", "Skill", {"skill": "notes"}), None),
        (ToolCall("c", "Skill", {"skill": "gone"}), None),
        (ToolCall("c", "Skill", {"skill": 5}), None),
        (ToolCall("c", "Read", {"skill": "look"}), None),
    ],
)
def test_a_call_that_sends_an_agent_amounts_to_a_call_of_task(call: ToolCall, agent: str | None):
    found = as_task_call(call, lambda: Shelf(NOTES, ROUTED))
    if agent is None:
        assert found is None
    else:
        prompt = instructions(ROUTED, call.input.get("arguments", ""))
        given = {"subagent_type": agent, "prompt": prompt, "description": "skill look"}
        assert found == ToolCall("c", "Task", given)


def test_the_tool_only_reads_and_has_to_be_named():
    tool = skill_tool(Shelf, delegates=False)
    assert (tool.name, tool.effect, tool.on_request, tool.source) == ("Skill", "read", True, "builtin")
    assert list(tool.schema["properties"]) == ["skill", "arguments"]
