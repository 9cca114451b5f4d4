"""Files of other products that say more than one file can: bases, parameters, settings with agents."""

import json
from pathlib import Path
from typing import Any

import pytest

from gencode.agents.agent_file import read_agent_file, read_agent_files
from gencode.agents.dialect import AgentFile
from gencode.agents.library import living_agents
from gencode.agents.lint import lint
from gencode.agents.registry import Registry
from gencode.core.rules import Action, Rule, written_in
from gencode.core.spec import AgentSpec, ToolChoice
from gencode.permissions.project_files import LARGEST_KEPT
from gencode.permissions.trust import standing, trust

KIMI = "version: 1\nagent:\n"
SHELL, READ, WRITE = (f"kimi_cli.tools.{name}" for name in ("shell:Shell", "file:ReadFile", "file:WriteFile"))


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def spec_of(path: Path) -> AgentSpec:
    (file,) = lint([path]).files
    assert file.spec is not None, file.why_not
    return file.spec


def notes_of(file: AgentFile) -> list[str]:
    return [each.message for each in file.findings if each.code == "recovered"]


@pytest.fixture
def kimi(tmp_path: Path) -> Path:
    folder = tmp_path / ".kimi/agents"
    base = "  system_prompt_path: ./system.md\n  system_prompt_args: {ROLE: base, WHO: Kim}\n"
    base += f"  tools: [{SHELL!r}, {READ!r}]\n"
    put(folder / "base.yaml", f"{KIMI}  name: base\n  when_to_use: Never.\n{base}")
    put(folder / "system.md", "You are ${WHO}, ${ROLE}. It is ${KIMI_NOW}.")
    return folder


def test_an_agent_of_kimi_has_what_its_base_says_and_it_does_not(kimi: Path):
    child = put(
        kimi / "scout.yaml",
        f"{KIMI}  extend: ./base.yaml\n  when_to_use: Now.\n  system_prompt_args: {{ROLE: a scout}}\n",
    )
    spec = spec_of(child)
    assert (spec.name, spec.description, spec.prompt, spec.tools) == (
        *("scout", "Now.", "You are Kim, a scout. It is ."),
        ToolChoice(("Bash", "Read")),
    )


def test_a_base_of_a_base_counts_last(kimi: Path):
    put(kimi / "middle.yaml", f"{KIMI}  extend: base.yaml\n  exclude_tools: [{SHELL!r}]\n")
    child = put(kimi / "scout.yaml", f"{KIMI}  extend: middle.yaml\n  when_to_use: Now.\n")
    spec = spec_of(child)
    assert (spec.tools, spec.prompt) == (
        ToolChoice(("Bash", "Read"), ("Bash",)),
        "You are Kim, base. It is .",
    )


def test_tools_are_never_more_than_a_base_allows(kimi: Path):
    put(kimi / "narrow.yaml", f"{KIMI}  allowed_tools: [{READ!r}]\n")
    child = put(
        kimi / "scout.yaml",
        f"{KIMI}  extend: narrow.yaml\n  tools: [{READ!r}, {WRITE!r}]\n  when_to_use: w\n",
    )
    assert spec_of(child).tools == ToolChoice(("Read",))


@pytest.mark.parametrize("base", ["../base.yaml", "/etc/base.yaml", "gone.yaml", "scout.yaml", "linked.yaml"])
def test_a_base_that_is_elsewhere_gives_nothing(kimi: Path, base: str):
    put(kimi.parent / "base.yaml", f"{KIMI}  tools: [{SHELL!r}]\n")
    (kimi / "linked.yaml").symlink_to(kimi.parent / "base.yaml")
    (file,) = lint([put(kimi / "scout.yaml", f"{KIMI}  extend: {base}\n  when_to_use: w\n")]).files
    assert file.spec is not None and file.spec.tools == ToolChoice(())
    assert notes_of(file)[0] == "its tools are those of a file that is not read, so it has none"


def test_in_a_project_only_bases_count_that_were_trusted(kimi: Path, tmp_path: Path):
    put(kimi / "scout.yaml", f"{KIMI}  extend: base.yaml\n  when_to_use: w\n")
    home = tmp_path / "home"
    trust(standing(tmp_path, home), home)
    seen = standing(tmp_path, home)
    put(kimi / "system.md", "Sneaky.")
    spec = Registry.load(home, seen, user=home).find("scout")
    assert (spec.prompt, spec.tools) == ("You are Kim, base. It is .", ToolChoice(("Bash", "Read")))
    assert standing(tmp_path, home).state == "changed"


def test_parameters_of_a_recipe_are_filled_in_or_come_with_the_task():
    text = (
        "title: t\ndescription: d\ninstructions: Look at {{ pr }} in {{repo}} of {{ other }}.\nparameters:\n"
        "  - {key: pr, requirement: required, description: the number}\n"
        "  - {key: repo, requirement: optional, default: here, description: where}\n"
    )
    file = read_agent_file(text.encode(), "x.yaml", "goose-recipe")
    assert file.spec is not None
    assert file.spec.prompt.splitlines()[0] == "Look at {{ pr }} in here of {{ other }}."
    assert file.spec.prompt.splitlines()[-1] == "- pr: the number"
    assert notes_of(file) == ["its parameters pr have no default; it is told to take them from the task"]


def kiro(settings: dict[str, Any]) -> tuple[Rule, ...]:
    text = json.dumps({"name": "x", "description": "d", "toolsSettings": {"execute_bash": settings}})
    spec = read_agent_file(text.encode(), "x.json", "kiro").spec
    assert spec is not None
    return spec.rules


def rule(pattern: str, action: Action = Action.DENY, *unless: str) -> Rule:
    return Rule("Bash", pattern, action, written_in("x.json"), unless)


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        ({"deniedCommands": ["git push .*"]}, (rule("git push *"),)),
        ({"deniedCommands": ["^rm -rf .*$", "reboot"]}, (rule("rm -rf *"), rule("reboot"))),
        ({"deniedCommands": ["curl.*"]}, (rule("curl*"), rule("curl* *"))),
        ({"deniedCommands": ["git (push|pull)"]}, (rule("*", Action.ASK),)),
        ({"deniedCommands": ["rm .*", "a{2}"]}, (rule("*", Action.ASK), rule("rm *"))),
        ({"allowedCommands": ["git .*"]}, ()),
        (
            {"denyByDefault": True, "allowedCommands": ["git status", "[a-z]+"]},
            (rule("git status", Action.ALLOW), rule("*", Action.DENY, "git status")),
        ),
        ({"denyByDefault": "what"}, (rule("*"),)),
        ({"somethingNew": 1}, (rule("*", Action.ASK),)),
    ],
)
def test_commands_that_kiro_refuses_are_refused_and_others_are_not_asked(
    settings: dict[str, Any], rules: tuple[Rule, ...]
):
    assert kiro(settings) == rules


SETTINGS = """{
  // what everybody may do
  "$schema": "https://opencode.ai/config.json", /* a link, not a // comment */
  "permission": {"webfetch": "deny", "bash": {"*": "allow"}},
  "agent": {
    "build": {"model": "anthropic/claude-sonnet-4"},
    "reviewer": {
      "description": "Reviews \\"code\\", // carefully.",
      "mode": "subagent",
      "prompt": "{file:./prompts/review.txt}",
      "tools": {"write": false, "edit": false},
      "permission": {"bash": {"*": "ask"}},
    },
    "broken": 3,
    "off": {"description": "d", "disable": true},
  },
}"""


def test_agents_inside_the_settings_of_opencode_are_read():
    reviewer, broken, off = read_agent_files(SETTINGS.encode(), "/p/opencode.json")
    spec = reviewer.spec
    assert spec is not None
    assert (spec.name, spec.description) == ("reviewer", 'Reviews "code", // carefully.')
    assert spec.prompt.startswith("Your instructions are in the file /p/prompts/review.txt; read it")
    assert spec.tools == ToolChoice(None, ("Write", "Edit", "WebFetch"))
    assert spec.rules == (Rule("Bash", "*", Action.ASK, written_in("/p/opencode.json")),)
    assert reviewer.findings == ()
    assert broken.why_not == "/p/opencode.json: the agent 'broken' must hold fields."
    assert off.why_not == "/p/opencode.json: it is switched off (disable: true)."


@pytest.mark.parametrize("text", ['{"agent": "x', "{} /*", "/" * 200_000, '"\\"' * 80_000, ", " * 100_000])
def test_settings_that_are_no_json_say_so_in_bounded_time(text: str):
    files = read_agent_files(text.encode(), "opencode.json")
    assert [bool(file.why_not) for file in files] in ([True], [])


def test_settings_of_a_project_count_when_it_is_trusted(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    path = put(project / ".opencode/opencode.jsonc", SETTINGS)
    named = [
        each for each in Registry.load(home, standing(project, home), user=home).listing() if each.project
    ]
    assert [(each.path, bool(each.untrusted)) for each in named] == [(str(path), True)]
    trust(standing(project, home), home)
    assert Registry.load(home, standing(project, home), user=home).find("reviewer").source == str(path)


def test_settings_of_the_user_count_and_keep_what_was_good_of_them(home: Path):
    path = put(home / ".config/opencode/opencode.json", SETTINGS)
    living = living_agents(home / ".gen", user=home)
    assert living.current().find("reviewer").source == str(path)
    assert "plan" not in [entry.spec.name for entry in living.current().listing() if entry.spec]
    path.write_text("{")
    assert "JSON" in living.current().find("reviewer").outdated


def test_the_linter_tells_every_agent_of_settings(tmp_path: Path):
    put(tmp_path / "opencode.json", SETTINGS)
    put(tmp_path / "sub/opencode.jsonc", "{}")
    found = [(file.spec.name if file.spec else "", file.why_not) for file in lint([tmp_path]).files]
    assert found[0] == ("reviewer", "")
    assert found[-1] == ("", f"{tmp_path}/sub/opencode.jsonc: it holds no agents.")


@pytest.mark.parametrize(
    ("config", "name", "file"),
    [
        ("opencode.json", "./prompts/review.txt", "prompts/review.txt"),
        (".opencode/opencode.json", "p.txt", ".opencode/p.txt"),
        (".opencode/opencode.json", "../docs/p.txt", "docs/p.txt"),
    ],
)
def test_a_prompt_in_another_file_is_found_from_the_settings_and_trusted_with_them(
    tmp_path: Path, config: str, name: str, file: str
):
    project, home = tmp_path / "project", tmp_path / "home"
    agent = {"description": "d", "prompt": f"{{file:{name}}}"}
    put(project / config, json.dumps({"agent": {"reviewer": agent}}))
    put(project / file, "Review it all.\n")
    trust(standing(project, home), home)
    found = Registry.load(home, standing(project, home), user=tmp_path / "user").find("reviewer")
    assert found.prompt.startswith("Review it all.")
    (linted,) = [each for each in lint([project / config]).files if each.spec]
    assert linted.spec is not None and linted.spec.prompt == found.prompt
    put(project / file, "Delete it all.\n")
    changed = standing(project, home)
    assert (changed.state, [each.path for each in changed.changes]) == ("changed", [file])


@pytest.mark.parametrize(
    "name", ["../secret.txt", "/etc/hostname", "~/secret.txt", "a/../../secret.txt", "big.txt"]
)
def test_a_prompt_takes_no_text_from_outside_nor_one_that_is_too_long(tmp_path: Path, name: str):
    project, home = tmp_path / "project", tmp_path / "home"
    put(
        project / "opencode.json",
        json.dumps({"agent": {"r": {"description": "d", "prompt": f"{{file:{name}}}"}}}),
    )
    put(tmp_path / "secret.txt", "secret")
    put(project / "big.txt", "x" * (LARGEST_KEPT + 1))
    trust(standing(project, home), home)
    found = Registry.load(home, standing(project, home), user=tmp_path / "user").find("r")
    assert found.prompt.startswith("Your instructions are in the file ")
    (linted,) = [each for each in lint([project / "opencode.json"]).files if each.spec]
    assert linted.spec is not None and linted.spec.prompt.startswith("Your instructions are in the file ")


ROLES = """
[agents.explorer]
description = "Explores the code."
config_file = "agents/explorer.toml"

[agents.plain]
description = "Plain."
"""


@pytest.mark.parametrize("of_user", [True, False])
def test_a_role_of_codex_has_its_description_from_the_settings_beside_it(tmp_path: Path, of_user: bool):
    project, home, user = tmp_path / "project", tmp_path / "home", tmp_path / "user"
    top = user if of_user else project
    put(top / ".codex/config.toml", ROLES)
    for name in ("explorer", "plain", "unknown"):
        put(top / f".codex/agents/{name}.toml", 'developer_instructions = "Look."\n')
    project.mkdir(exist_ok=True)
    if not of_user:
        trust(standing(project, home), home)
    listed = Registry.load(home, standing(project, home), user=user).listing()
    found = {each.spec.name: each.spec.description for each in listed if each.spec and not each.spec.builtin}
    assert found == {"explorer": "Explores the code.", "plain": "Plain."}
    assert [Path(each.path).name for each in listed if each.problem] == ["unknown.toml"]
    loadable = {Path(each.path).name: each.spec is not None for each in lint([top]).files}
    assert loadable == {
        "config.toml": False,
        "explorer.toml": True,
        "plain.toml": True,
        "unknown.toml": False,
    }
    if not of_user:
        put(project / ".codex/config.toml", ROLES.replace("Plain", "Other"))
        assert standing(project, home).state == "changed"
