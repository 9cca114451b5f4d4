"""How hard agents think: what a file says reaches the model, and a child takes after its sender."""

from pathlib import Path

from gencode import GenCode
from tests.contracts.provider import Play
from tests.providers.dialects import chat, provider_at
from tests.providers.fake_server import fake_server, streamed

SEND = tuple(("Task", {"subagent_type": agent, "prompt": "Go."}) for agent in ("thinker", "Explore"))


async def test_the_effort_of_a_file_reaches_the_model_and_its_children(tmp_path: Path, home: Path) -> None:
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    (agents / "thinker.md").write_text("---\nname: thinker\ndescription: d\neffort: high\n---\n")
    (agents / "boss.md").write_text("---\nname: boss\ndescription: d\neffort: low\n---\n")
    acts = [streamed(*chat(Play(("I send.",), SEND))), streamed(*chat(Play(("Done.",))))]
    async with fake_server(*acts) as server:
        async with GenCode.open(tmp_path, model=provider_at("chat", server.url)) as gen:
            await gen.ask("Go.", agent="boss").outcome()
        efforts = [each.body.get("reasoning_effort") for each in server.asked]
    assert (efforts[0], sorted(efforts[1:3]), efforts[3]) == ("low", ["high", "low"], "low")


async def test_without_a_word_in_a_file_nothing_is_asked(tmp_path: Path) -> None:
    async with fake_server(streamed(*chat(Play(("Done.",))))) as server:
        async with GenCode.open(tmp_path, model=provider_at("chat", server.url)) as gen:
            await gen.ask("Go.").outcome()
        assert "reasoning_effort" not in server.last.body
