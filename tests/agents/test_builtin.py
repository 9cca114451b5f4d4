"""The agents that come with GenCode have the values of the contract."""

from pathlib import Path

import pytest

from gencode.agents.registry import Registry
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec, ToolChoice

LOOKING = ToolChoice(("Read", "Glob", "Grep", "Bash", "WebFetch", "WebSearch"))


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry.load(tmp_path)


def test_every_built_in_agent_has_its_tools_mode_turns_and_cap(registry: Registry):
    assert {
        spec.name: (spec.mode, spec.tools, spec.max_turns, spec.result_cap) for spec in registry.spawnable()
    } == {
        "Explore": (Mode.PLAN, LOOKING, 30, 8_000),
        "Plan": (Mode.PLAN, LOOKING, 50, 12_000),
        "Bash": (None, ToolChoice(("Bash", "Read", "Glob", "Grep")), 30, 8_000),
        "Review": (Mode.PLAN, ToolChoice(("Read", "Glob", "Grep", "Bash")), 30, 8_000),
        "general-purpose": (None, ToolChoice(None, ("Task",)), 50, 8_000),
        "researcher": (Mode.PLAN, ToolChoice(("WebFetch", "WebSearch", "Read")), 10, 8_000),
    }


def test_every_built_in_file_is_clean_and_tells_its_agent_how_to_reply(registry: Registry):
    for entry in registry.listing():
        spec = entry.spec
        assert spec is not None
        assert (spec.warnings, spec.extra, spec.rules, spec.model) == ((), {}, (), "inherit")
        assert (spec.builtin, spec.source, Path(entry.path).stem) == (True, entry.path, spec.name)
        assert ("What to report:" in spec.prompt, "characters" in spec.prompt) == (True, False)
        assert "`path:line`" in spec.prompt


def test_the_main_agent_has_no_limits_of_its_own():
    main = Registry.main()
    plain = AgentSpec("main", main.description, main.prompt, max_turns=None, source=main.source, builtin=True)
    assert main == plain
    assert "Task" in main.prompt
