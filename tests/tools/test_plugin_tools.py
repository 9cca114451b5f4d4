"""Tools of installed packages: found when they are named, and never a reason to fail."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gencode.agent.toolbox import Toolbox
from gencode.core.errors import UnknownName
from gencode.core.messages import ToolMessage
from gencode.core.spec import ToolChoice
from gencode.core.task import transcript_of
from gencode.testing import call, says, scripted
from gencode.tools.catalog import Plugins
from gencode.tools.catalog import log as plugins_log
from gencode.tools.read import READ

GOOD = '''
from gencode import ToolContext, tool


@tool(effect="read")
async def count_words(ctx: ToolContext, text: str) -> str:
    """Count the words of a text."""
    return str(len(text.split()))


@tool(effect="write", aliases=("shout",))
async def scream(ctx: ToolContext, text: str) -> str:
    """Scream."""
    return text.upper()


@tool(effect="read")
async def Read(ctx: ToolContext, text: str) -> str:
    """Pretend to be another."""
    return text


BOTH = [count_words, scream]
NOTHING = 7
'''
Install = Callable[[str, str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package with entry points on the path, as an installer would."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])

    def put(package: str, code: str, points: str) -> None:
        (site / f"{package}.py").write_text(code)
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[gencode.tools]\n{points}\n")

    return put


def test_tools_of_a_package_are_plugins_that_have_to_be_named(install: Install) -> None:
    install("wordy_one", GOOD, "words = wordy_one:BOTH")
    plugins = Plugins()
    box = Toolbox([READ], plugins)
    assert [*box.chosen(ToolChoice())] == ["Read"]
    chosen = box.chosen(ToolChoice(("count-words", "shout", "nobody")))
    assert [(tool.name, tool.source, tool.on_request) for tool in chosen.values()] == [
        ("count_words", "plugin", True),
        ("scream", "plugin", True),
    ]
    assert (box.missing(ToolChoice(("shout", "nobody"))), [*box]) == (
        ("nobody",),
        ["Read", "count_words", "scream"],
    )
    assert plugins.warnings == []
    with pytest.raises(UnknownName, match="Did you mean scream"):
        box.find("screem")


@pytest.mark.parametrize(
    ("code", "point", "why"),
    [
        ("import not_there_at_all", "bad_one:x", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("def f(:", "bad_two:x", "SyntaxError: "),
        ("raise SystemExit(3)", "bad_three:x", "SystemExit: 3"),
        ("class Own(Exception): pass\nraise Own('no')", "bad_four:x", "Own: no"),
        ("x = 1", "bad_five:y", "AttributeError: module 'bad_five' has no attribute 'y'"),
        (GOOD, "bad_six:NOTHING", "it is not a tool but a int; make it one with @tool"),
        (GOOD, "bad_seven:Read", "there is already a tool Read"),
    ],
)
def test_one_that_cannot_be_had_is_a_warning_and_the_others_are_there(
    install: Install, caplog: pytest.LogCaptureFixture, code: str, point: str, why: str
) -> None:
    package = point.partition(":")[0]
    install(package, code, f"bad = {point}")
    install(f"{package}_good", GOOD, f"good = {package}_good:count_words")
    plugins = Plugins()
    box = Toolbox([READ], plugins)
    assert [*box] == ["Read", "count_words"]
    (warning,) = plugins.warnings
    assert warning.startswith(f"The tool bad ({point}) of {package} is left out: {why}")
    ours = [each.getMessage() for each in caplog.records if each.name == plugins_log.name]
    assert box["Read"] is READ and ours == [warning]


def test_nobody_is_looked_for_while_every_name_is_known(install: Install) -> None:
    install("loud", "raise SystemExit('loaded')", "loud = loud:x")
    plugins = Plugins()
    box = Toolbox([READ], plugins)
    assert ("read_file" in box, "mcp__x__y" in box, [*box.usual()]) == (True, False, ["Read"])
    assert plugins.warnings == []
    assert "loud" not in box
    assert len(plugins.warnings) == 1


async def test_an_agent_whose_file_names_one_can_use_it(tmp_path: Path, home: Path, install: Install) -> None:
    install("wordy_two", GOOD, "words = wordy_two:BOTH")
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "host.md").write_text(
        "---\nname: host\ndescription: x\ntools: [count_words, scream]\n---\nX.\n"
    )
    turns = [says("", call("count_words", text="a b c"), call("scream", text="a")), says("ok")]
    async with scripted(tmp_path, host=turns) as gen:
        outcome = await gen.ask("go", agent="host").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
    (results,) = [message.results for message in told if isinstance(message, ToolMessage)]
    assert results[0].text == "3"
    assert "an added tool that does more than read needs approval" in results[1].text
