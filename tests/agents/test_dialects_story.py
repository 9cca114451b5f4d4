"""An agent of each dialect really runs, with exactly its tools, and keeps to what its file says."""

from pathlib import Path

import pytest

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.messages import ToolMessage
from gencode.core.rules import Mode
from gencode.core.task import transcript_of
from gencode.permissions.trust import standing, trust
from gencode.providers.scripted import ScriptedProvider
from gencode.settings import gen_home
from gencode.stores.memory import MemoryStore
from gencode.tasks.setup_builder import MEMORY
from gencode.testing import Overhearing, call, says
from tests.agents.samples import SAMPLES, Sample
from tests.house.source import ROOT

SENDING = {"Task", "SendMessage", "spawn", "spawn_subagent"}


def trusted(folder: Path, path: str, text: str) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    trust(standing(folder, gen_home()), gen_home())
    return folder


async def tools_of(folder: Path, name: str) -> list[str]:
    """The tools that the model of an agent is shown."""
    provider = Overhearing(ScriptedProvider.of({"*": [says("{}")]}))
    async with GenCode.open(folder, model=provider, store=MemoryStore()) as gen:
        outcome = await gen.task(name, "Do it.")
    assert (outcome.status, outcome.agent) == ("completed", name)
    return [tool.name for tool in provider.requests[0].tools]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.dialect)
async def test_an_agent_of_each_dialect_runs_with_exactly_its_tools(sample: Sample, tmp_path: Path):
    shown = await tools_of(trusted(tmp_path, sample.path, sample.text), sample.name)
    plans = sample.also.get("mode") is Mode.PLAN
    if sample.tools.allow is not None:
        named = [name for name in sample.tools.allow if name not in (*sample.tools.deny, "LS")]
        notes = MEMORY if sample.also.get("memory") and {"Write", "Edit"} & {*named} else ()
        assert shown == [*(name for name in named if not name.startswith("mcp__")), *notes]
    else:
        assert {"Read", "Glob", "Grep"} <= set(shown)
        assert ("Write" in shown) is not plans
        assert not SENDING & set(shown)


TABLES = {
    "general": "current_time sleep get_env set_env Read Write delete_file move_file get_file_info Edit "
    "Grep http_get http_post http_request WebSearch json_parse json_stringify base64_encode base64_decode "
    "memory_list memory_read memory_write memory_patch memory_append task_list task_replay notify",
    "explore": "current_time get_env Read get_file_info Grep http_get WebSearch json_parse base64_decode "
    "memory_list memory_read task_list task_replay notify",
    "plan": "current_time get_env Read get_file_info Grep http_get WebSearch json_parse base64_decode "
    "memory_list memory_read memory_write memory_append task_list task_replay notify",
}


@pytest.mark.parametrize("name", TABLES)
async def test_the_example_types_take_the_place_of_built_in_agents_with_exactly_their_tables(
    name: str, tmp_path: Path
):
    text = (ROOT / "examples" / "subagents" / name / "SUBAGENT.md").read_text("utf-8")
    shown = await tools_of(trusted(tmp_path, f"subagents/{name}/SUBAGENT.md", text), name)
    assert shown == TABLES[name].split()


async def told(folder: Path, *commands: str, mode: str = "dontAsk") -> list[bool]:
    """Whether each command of the agent x was refused, where nobody can be asked."""
    turns = [says("", *(call("Bash", command=command) for command in commands)), says("done")]
    provider = ScriptedProvider.of({"x": turns})
    settings = {"permission_mode": mode}
    async with GenCode.open(folder, model=provider, store=MemoryStore(), settings=settings) as gen:
        outcome = await gen.task("x", "Do it.")
        transcript = transcript_of(await gen.history.events(outcome.agent_id))
    return [each.error for each in transcript if isinstance(each, ToolMessage) for each in each.results]


async def test_a_pattern_keeps_a_tool_to_its_calls_even_below_full_autonomy(tmp_path: Path):
    text = "---\nname: x\ndescription: d\ntools: Bash(mkdir *), Write\n---\nbody"
    folder = trusted(tmp_path, ".claude/agents/x.md", text)
    assert await told(folder, "mkdir made", "touch file", "ls") == [False, True, True]
    assert ((tmp_path / "made").exists(), (tmp_path / "file").exists()) == (True, False)


async def test_a_denied_pattern_is_refused(tmp_path: Path):
    text = "---\nname: x\ndescription: d\ndisallowedTools: Bash(touch *)\n---\nbody"
    folder = trusted(tmp_path, ".claude/agents/x.md", text)
    assert await told(folder, "touch file", "mkdir made") == [True, False]


async def test_a_kiro_agent_is_refused_what_its_settings_refuse_and_not_asked_about_the_rest(tmp_path: Path):
    text = '{"name": "x", "description": "d", "toolsSettings": {"shell": {"deniedCommands": ["touch .*"]}}}'
    folder = trusted(tmp_path, ".kiro/agents/x.json", text)
    assert await told(folder, "touch file", "mkdir made") == [True, False]


@pytest.mark.parametrize(
    ("path", "limit", "status"),
    [
        (".openhands/agents/x.md", "max_budget_per_run: 2", "completed"),
        (".gen/agents/x.md", "budget: {usd: 2}", ""),
    ],
)
async def test_dollars_of_other_products_count_only_where_a_price_is_known(
    path: str, limit: str, status: str, tmp_path: Path
):
    folder = trusted(tmp_path, path, f"---\nname: x\ndescription: d\n{limit}\n---\nbody")
    provider = ScriptedProvider.of({"x": [says("done")]})
    async with GenCode.open(folder, model=provider, store=MemoryStore()) as gen:
        if not status:
            with pytest.raises(UserMistake, match="price of the model is not known"):
                await gen.task("x", "Do it.")
            return
        outcome = await gen.task("x", "Do it.")
    assert outcome.status == status
    assert outcome.evidence.warnings[0].startswith("its limit of $2 does not apply. The price")


@pytest.mark.parametrize(
    ("fields", "notes"),
    [
        ("tools: []", ()),
        ("disallowedTools: '*'", ()),
        ("tools: Read", ()),
        ("tools: Read, Write", MEMORY),
        ("tools: Read, memory_read", ("memory_read",)),
        ("permissionMode: plan", MEMORY[:2]),
        ("disallowedTools: memory_write", tuple(each for each in MEMORY if each != "memory_write")),
    ],
)
async def test_memory_adds_no_more_than_the_other_tools_may_do(
    fields: str, notes: tuple[str, ...], tmp_path: Path
):
    text = f"---\nname: x\ndescription: d\nmemory: project\n{fields}\n---\nbody"
    shown = await tools_of(trusted(tmp_path, ".claude/agents/x.md", text), "x")
    assert tuple(name for name in shown if name.startswith("memory_")) == notes
