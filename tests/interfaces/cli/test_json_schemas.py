"""Every `--json` output fits its published schema, and nothing is printed that the schema does not name."""

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import pytest

from gencode.interfaces.cli.main import main
from gencode.interfaces.cli.parser import build_parser
from gencode.interfaces.log_file import LogFile
from gencode.settings import gen_home
from tests.house.command_line import commands, options
from tests.house.source import ROOT
from tests.interfaces.cli.running import script, send
from tests.interfaces.cli.shapes import LINES, NO_JSON, SHAPES, text
from tests.mcp.fleet import ODD_SERVER, offer

PUBLISHED = ROOT / "docs" / "reference" / "schemas.json"
ELSEWHERE = {
    "gen task background": "needs a task at work; tests/stories/test_background_story.py",
    "gen task questions": "needs a fleet",
    "gen task answer": "needs a fleet",
    "gen task merge": "needs a fleet",
    "gen worker": "needs a fleet",
    "gen serve": "serves until it is told to end; tests/interfaces/http/test_command.py",
    "gen migrate --to": "needs Postgres",
    "gen demo": "tests/interfaces/cli/test_life.py and the documents run it",
}
"""Outputs that are not printed here, and why."""
AS_KEPT = {"Image": ["media_type"], "LintedFile": ["why_not"]}
"""Names that are those of the journal, and one that was agreed with others."""
CASE: dict[str, Any] = {
    "id": "a",
    "tool": "Bash",
    "command": "ls",
    "chain": [{"mode": "default", "rules": []}],
    "cwd": "/project",
    "expect": "allow",
}


def strict(value: Any) -> Any:
    """A schema in which nothing may be there that it does not name."""
    if isinstance(value, list):
        return [strict(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    found = {name: strict(each) for name, each in fields.items()}
    closed = "properties" in fields and "if" not in fields and fields.get("type") == "object"
    return (
        {**found, "additionalProperties": False} if closed and "additionalProperties" not in fields else found
    )


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    return json.loads(PUBLISHED.read_text("utf-8"))


@pytest.fixture
def own_log() -> Iterator[None]:
    """The log that the command line opens is closed again."""
    yield
    for each in [each for each in logging.getLogger().handlers if isinstance(each, LogFile)]:
        logging.getLogger().removeHandler(each)
        each.close()


def test_the_published_schemas_are_those_of_what_is_printed() -> None:
    way = "python -m tests.interfaces.cli.shapes > docs/reference/schemas.json"
    assert PUBLISHED.read_text("utf-8") == text(), f"write it anew: {way}"


def test_every_command_with_json_has_a_schema() -> None:
    printing = {name for name, parser in commands(build_parser()) if "--json" in options(parser)}
    assert printing - NO_JSON.keys() <= SHAPES.keys()
    assert {name.partition(" -")[0] for name in SHAPES} | NO_JSON.keys() >= printing


def test_the_schemas_are_schemas(published: dict[str, Any]) -> None:
    for name, schema in published["commands"].items():
        reference = {**schema, "$defs": published["$defs"]}
        assert jsonschema_rs.validator_for(reference).is_valid({"zonk": 1}) is False, name


def test_names_are_camel_case_as_the_reference_says(published: dict[str, Any]) -> None:
    parts = {**published["$defs"], **published["commands"]}
    names = {name: sorted(part.get("properties", {})) for name, part in parts.items()}
    odd = {name: [each for each in fields if "_" in each] for name, fields in names.items()}
    assert {name: fields for name, fields in odd.items() if fields} == AS_KEPT


class Printing:
    """Runs commands in one folder and keeps what is wrong with their output."""

    def __init__(self, folder: Path, published: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.wrong: dict[str, list[str]] = {}
        self.seen: set[str] = set()
        self._published = published
        self._capsys = capsys

    def __call__(self, shape: str, *words: str) -> Any:
        """The object that a command prints, or the last of its lines."""
        command = [] if shape.startswith("gen -p") else shape.partition(" -")[0].split()[1:]
        main([*command, *words, "--cwd", str(self.folder), *(["--json"] if command else [])])
        said = self._capsys.readouterr()
        lines = said.out.splitlines() if shape in LINES else [said.out]
        assert said.out, (shape, said.err)
        found = [json.loads(line) for line in lines]
        problems = [each for value in found for each in self._problems(shape, value)]
        if problems:
            self.wrong.setdefault(shape, []).extend(problems[:3])
        self.seen.add(shape)
        return found[-1]

    def _problems(self, shape: str, value: Any) -> Iterator[str]:
        definitions = {
            name: each if name == "Event" else strict(each) for name, each in self._published["$defs"].items()
        }
        schema = {**self._published["commands"][shape], "$defs": definitions}
        for error in jsonschema_rs.validator_for(schema).iter_errors(value):
            yield f"{error.instance_path}: {error.message[:300]}"


@pytest.mark.usefixtures("own_log")
def test_every_json_output_fits_its_published_schema(
    tmp_path: Path, published: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "project"
    (folder / ".gen" / "agents").mkdir(parents=True)
    (folder / ".gen" / "agents" / "helping.md").write_text(
        "---\nname: helping\ndescription: Helps.\n---\nHelp.\n"
    )
    (folder / ".gen" / "settings.toml").write_text('deny = ["Read(secret/**)"]\n')
    (folder / "notes.txt").write_text("hello\n")
    (gen_home() / "settings.toml").parent.mkdir(parents=True, exist_ok=True)
    odd = json.dumps({"tools": offer("one")})
    (tmp_path / "odd.json").write_text(odd)
    program = f'command = "{sys.executable}"\nargs = ["-S", "-E", "{ODD_SERVER}", "{tmp_path}/odd.json"]\n'
    (gen_home() / "settings.toml").write_text(f"[mcp_servers.odd]\n{program}")
    read = {"name": "Read", "input": {"file_path": "notes.txt"}}
    model = script(
        tmp_path,
        main=[{"text": "", "calls": send("it")}, {"text": "Done."}],
        others=[{"text": "", "calls": [read]}, {"text": "Found."}],
    )
    printed = Printing(folder, published, capsys)
    answer = printed("gen -p", "-p", "go", "--model", model, "--output-format", "json")
    printed(
        *("gen -p --output-format stream-json", "-p", "go", "--model", model),
        *("--output-format", "stream-json"),
    )
    session = answer["sessionId"]
    task = printed("gen task run", "Explore", "look", "--model", model)["agentId"]
    _tasks(printed, tmp_path, task, session, model)
    _others(printed, tmp_path, session)
    assert printed.wrong == {}
    assert SHAPES.keys() - printed.seen == ELSEWHERE.keys()


def _tasks(printed: Printing, folder: Path, task: str, session: str, model: str) -> None:
    other = printed("gen task fork", task, "again", "--model", model)["agentId"]
    for shape in ("output", "show", "stop", "events", "replay"):
        printed(f"gen task {shape}", task)
    printed("gen task list", "--all", "--tree")
    printed("gen task interrupt", task)
    printed("gen task budget", task, "turns", "50")
    printed("gen task send", session, "and?")
    printed("gen task replay --against", task, "--against", other)
    printed("gen task resume", task, "go on", "--model", model)
    printed("gen task export", other, str(folder / "task.jsonl"))
    printed("gen sessions delete", other, "--yes")
    printed("gen task import", str(folder / "task.jsonl"))


def _others(printed: Printing, folder: Path, session: str) -> None:
    (folder / "cases.jsonl").write_text(json.dumps(CASE) + "\nnot json\n")
    printed("gen sessions list")
    printed("gen sessions show", session)
    printed("gen sessions fork", session)
    prompt = str(printed("gen sessions rewind", session)["points"][0]["to"])
    printed("gen sessions rewind --to", session, "--to", prompt)
    printed("gen sessions rewind --yes", session, "--to", prompt, "--yes")
    job = printed("gen cron add", "0 9 * * 1-5", "Which files changed?", "--zone", "UTC")["id"]
    printed("gen cron list")
    printed("gen cron remove", job)
    printed("gen agents list")
    printed("gen agents show", "Explore")
    printed("gen agents lint")
    printed("gen agents lint", str(printed.folder / ".gen"))
    printed("gen agents new", "tester", "--description", "Tests.", "--user")
    printed("gen agents add", "task-types")
    printed("gen skills list")
    printed("gen permissions explain", "--tool", "Bash", "--input", "git push")
    printed("gen permissions check", str(folder / "cases.jsonl"))
    printed("gen trust", "--show")
    printed("gen trust", "--yes")
    printed("gen trust --list", "--list")
    printed("gen trust --revoke", "--revoke")
    printed("gen trust --server", "--server", "odd", "--yes")
    for name in ("models", "tools", "doctor", "migrate"):
        printed(f"gen {name}")
    printed("gen completions", "fish")
    printed("gen sessions prune", "--older-than", "0", "--yes")
