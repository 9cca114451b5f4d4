"""Somebody opens a hostile repository: nothing of it runs, and nothing becomes more allowed, before trust."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.running import gen, script
from tests.stories.evil import (
    QUIET,
    REFUSED,
    a_crowd_of_agents,
    agents,
    agents_that_are_no_files,
    bare_repository,
    canary,
    git_elsewhere,
    settings,
    settings_above,
    submodule_with_programs,
    write,
)

from gencode.app import GenCode, components, forgetful
from gencode.core.errors import UserMistake
from gencode.permissions.trust import standing, trust
from gencode.settings import gen_home

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Bash", {"command": "make"}),
    ("Bash", {"command": "curl https://example.com"}),
    ("Read", {"file_path": ".env"}),
    ("Read", {"file_path": "/etc/hosts"}),
    ("Write", {"file_path": "new.txt", "content": "x"}),
    ("Write", {"file_path": ".gen/settings.toml", "content": "x"}),
    ("WebFetch", {"url": "https://example.com"}),
    ("Task", {"subagent_type": "general-purpose", "prompt": "x"}),
    ("mcp__evil__run", {}),
)
STRICTNESS = ("allow", "ask", "deny")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "around" / "ws").mkdir(parents=True)
    return tmp_path / "around" / "ws"


class Powers(dict[str, str]):
    """What may be done in a folder, by whom, and who answers; it can be compared with another one."""

    @classmethod
    async def of(cls, folder: Path) -> "Powers":
        async with GenCode.open(folder, store=forgetful()) as gen_:
            found = cls({f"{tool} {given}": gen_.explain(tool, given).decision for tool, given in CALLS})
            found["model"] = gen_.model.name
            found["mode"] = components(gen_).policy_root.policy.mode
            found["settings"] = repr((gen_.settings.sandbox, gen_.settings.models, gen_.settings.durability))
            found["allow"] = repr(
                [rule for rule in components(gen_).policy_root.policy.rules if rule.action == "allow"]
            )
            found["agents"] = repr([(spec.name, spec.mode, spec.source) for spec in gen_.agents.spawnable()])
            found["tools"] = repr(list(gen_.toolbox))
            return found

    def beyond(self, other: "Powers") -> dict[str, str]:
        """Where these reach further than the other ones."""
        return {
            what: said
            for what, said in self.items()
            if said != other[what]
            and not (said in STRICTNESS and STRICTNESS.index(said) > STRICTNESS.index(other[what]))
        }


@pytest.mark.parametrize("evil", QUIET, ids=lambda evil: evil.__name__)
async def test_no_power_grows_before_trust(
    evil: Callable[[Path], None], folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "clean").mkdir()
    clean = await Powers.of(tmp_path / "clean")
    evil(folder)
    assert (await Powers.of(folder)).beyond(clean) == {}
    assert not canary(folder).exists()


@pytest.mark.parametrize("evil", [settings, agents], ids=lambda evil: evil.__name__)
async def test_the_same_repository_counts_once_it_is_trusted(
    evil: Callable[[Path], None], folder: Path
) -> None:
    before = await Powers.of(folder)
    evil(folder)
    trust(standing(folder, gen_home()), gen_home())
    assert (await Powers.of(folder)).beyond(before) != {}


@pytest.mark.parametrize("evil", REFUSED, ids=lambda evil: evil.__name__)
async def test_rules_that_cannot_be_read_stop_everything_at_once(
    evil: Callable[[Path], None], folder: Path
) -> None:
    evil(folder)
    with pytest.raises(UserMistake, match=r"settings"):
        await Powers.of(folder)
    ended = gen("-p", "hello", cwd=folder)
    assert (ended.code, ended.err.startswith("gen: "), ended.err.count("\n"), ended.out) == (2, True, 1, "")
    assert len(ended.err) < 1_000


COMMANDS = (
    *(("agents", "list"), ("tools",), ("models",), ("doctor",), ("trust", "--show"), ("task", "list")),
    ("permissions", "explain", "--tool", "Bash", "--input", "git status"),
    ("task", "run", "Explore", "Where is the parser?"),
)


def everything(folder: Path) -> None:
    for evil in QUIET:
        if evil not in (
            git_elsewhere,
            bare_repository,
            settings_above,
            agents_that_are_no_files,
            a_crowd_of_agents,
        ):
            evil(folder)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_no_command_runs_anything_of_the_repository(folder: Path, command: tuple[str, ...]) -> None:
    everything(folder)
    assert gen(*command, cwd=folder).code in (0, 1)
    assert not canary(folder).exists()


@pytest.mark.parametrize("path", ["{usual}", "{folder}/bin:.:{usual}", ":{usual}"])
def test_the_installed_command_takes_no_module_and_no_program_from_where_it_is_run(
    folder: Path, path: str
) -> None:
    everything(folder)
    write(folder, "gencode/__init__.py", f"open({str(canary(folder))!r}, 'w').close()\n")
    usual = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [Path(sys.executable).parent / "gen", "-p", "Where is the parser built?", "--model", "offline"],
        cwd=folder,
        env={
            **os.environ,
            "PATH": path.format(folder=folder, usual=usual),
            "RIPGREP_CONFIG_PATH": str(folder / ".ripgreprc"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, canary(folder).exists()) == (0, False), ended.stderr


def test_an_agent_at_work_in_it_runs_nothing_and_gets_nothing(folder: Path, tmp_path: Path) -> None:
    everything(folder)
    calls = [
        *({"name": tool, "input": given} for tool, given in CALLS),
        *({"name": "Bash", "input": {"command": text}} for text in ("git status", "git diff", "git log -p")),
        {"name": "Grep", "input": {"pattern": "evil"}},
        {"name": "Task", "input": {"subagent_type": "deployer", "prompt": "deploy"}},
    ]
    model = script(tmp_path, main=[{"text": "", "calls": calls}, {"text": "done"}], others=[{"text": "done"}])
    ended = gen("-p", "go", "--model", model, "--json", cwd=folder, GEN_SANDBOX="off")
    assert (ended.code, canary(folder).exists()) == (3, False)
    assert "This folder's settings, agents, MCP servers and skills do not apply" in ended.err
    shown = gen("task", "show", ended.json["sessionId"], "--json", cwd=folder).json
    said = [each["decision"]["action"] for each in shown["decisions"]][: len(CALLS)]
    assert said == ["deny"] * 7 + ["allow"] + ["deny"]
    assert not (folder / "new.txt").exists()
    assert (folder / ".gen" / "settings.toml").read_text() != "x"


@pytest.mark.needs("git")
@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_a_submodule_whose_names_break_off_runs_nothing_in_any_mode(
    folder: Path, tmp_path: Path, sandbox: str
) -> None:
    submodule_with_programs(folder)
    texts = ("git log -p", "git diff", "git diff HEAD", "git status", "git show")
    calls = [{"name": "Bash", "input": {"command": text}} for text in texts]
    for mode in ("default", "plan"):
        model = script(tmp_path, main=[{"text": "", "calls": calls}, {"text": "done"}])
        ended = gen(
            "-p", "go", "--model", model, "--permission-mode", mode, "--json", cwd=folder, GEN_SANDBOX=sandbox
        )
        assert (ended.code, canary(folder).exists()) == (0, False)
        shown = gen("task", "show", ended.json["sessionId"], "--json", cwd=folder).json
        assert [each["decision"]["action"] for each in shown["decisions"]] == ["allow"] * len(texts)
        assert "It was run." not in repr(shown)
    subprocess.run(["git", "diff"], cwd=folder, capture_output=True, check=False)
    assert canary(folder).exists()
