"""Results and transcripts as resources, agents as prompts."""

from pathlib import Path

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from gencode.interfaces.mcp_server import catalogue
from gencode.testing import says
from tests.interfaces.mcp_server.offices import ERAS, names, office, task_of

LONG = "\n".join(f"line {number}" for number in range(5_000))


def content(result: types.ReadResourceResult) -> str:
    return "".join(each.text for each in result.contents if isinstance(each, types.TextResourceContents))


@pytest.mark.parametrize("era", ERAS)
async def test_results_and_transcripts_are_listed_and_read_page_by_page(tmp_path: Path, era: str) -> None:
    async with office(tmp_path, {"*": [says(LONG)]}) as here, here.client(era) as client:
        task = task_of(await client.call_tool("Task", {"subagent_type": "Explore", "prompt": "Count"}))
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        first, second = [
            content(await client.read_resource(f"gencode://tasks/{task}/result{page}"))
            for page in ("", "?page=2")
        ]
        transcript = content(await client.read_resource(f"gencode://tasks/{task}/transcript"))
        with pytest.raises(MCPError, match="There is no page 9"):
            await client.read_resource(f"gencode://tasks/{task}/result?page=9")
        with pytest.raises(MCPError, match="the transcript has "):
            await client.read_resource(f"gencode://tasks/{task}/transcript?page=99")
    assert [each.uri for each in listed] == [
        f"gencode://tasks/{task}/result",
        f"gencode://tasks/{task}/transcript",
    ]
    assert [each.uri_template for each in templates] == [
        "gencode://tasks/{id}/result{?page}",
        "gencode://tasks/{id}/transcript{?page}",
    ]
    pages = [page.rpartition("\n[page")[0] for page in (first, second)]
    assert LONG.startswith("".join(pages))
    assert transcript.startswith("── user ──\n  Count\n── assistant ──\n  line 0\n")


async def test_the_list_of_resources_comes_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "PAGE", 2)
    async with office(tmp_path, {"*": [says("x")]}) as here, here.client() as client:
        tasks = [
            task_of(await client.call_tool("Task", {"subagent_type": "Explore", "prompt": "x"}))
            for _ in range(3)
        ]
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor="nonsense")
    found = [each.uri.split("/")[3] for each in (*first.resources, *second.resources)][::2]
    assert (found, second.next_cursor) == (tasks[::-1], None)


@pytest.mark.parametrize(
    "uri",
    ["file:///etc/passwd", "gencode://tasks/../result", "gencode://tasks/00000000/result", "gencode://x"],
)
async def test_nothing_else_can_be_read(tmp_path: Path, uri: str) -> None:
    async with office(tmp_path, {}) as here, here.client() as client:
        with pytest.raises(MCPError, match="There is no task|Unknown resource"):
            await client.read_resource(uri)


@pytest.mark.parametrize("era", ERAS)
async def test_every_agent_is_a_prompt(tmp_path: Path, era: str) -> None:
    async with office(tmp_path, {}) as here, here.client(era) as client:
        prompts = (await client.list_prompts()).prompts
        got = await client.get_prompt("Explore", {"task": "Find the parser"})
        for wrong, why in (({"task": " "}, "argument task"), ({}, "argument task")):
            with pytest.raises(MCPError, match=why):
                await client.get_prompt("Explore", wrong)
        with pytest.raises(MCPError, match="no agent 'Nobody'"):
            await client.get_prompt("Nobody", {"task": "x"})
    assert names(prompts) == ["Bash", "Explore", "general-purpose", "Plan", "researcher", "Review"]
    (message,) = got.messages
    assert isinstance(message.content, types.TextContent)
    assert 'subagent_type="Explore"' in message.content.text
    assert message.content.text.endswith("\n\nFind the parser")
