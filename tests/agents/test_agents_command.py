"""`gen agents show`, `lint` and `new`, as a person types them."""

from pathlib import Path

import pytest

from gencode.sandbox.processes.environment import PROCESS_MARK
from tests.agents.samples import SAMPLES
from tests.interfaces.cli.running import gen

CLAUDE = """---
name: reviewer
description: Reviews code: carefully.
tools: Read, MultiEdit, Shell, Nonsense
disallowedTools: WebFetch
model: claude-sonnet-4-20250514
permissionMode: bypassPermissions
---
Review.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "repo" / ".claude" / "agents"
    place.mkdir(parents=True)
    (place / "reviewer.md").write_text(CLAUDE)
    (place / "README.md").write_text("# Agents\n")
    (place / "again.md").write_text(CLAUDE.replace("carefully", "again"))
    return tmp_path / "repo"


def test_lint_prints_every_file_with_its_own_words_and_ours(folder: Path):
    told = gen("agents", "lint", str(folder), "--json", cwd=folder.parent).json
    place = folder / ".claude" / "agents"
    assert [Path(file["path"]).name for file in told["files"]] == ["README.md", "again.md", "reviewer.md"]
    file = told["files"][2]
    warnings = {each["code"]: each["line"] for each in file.pop("warnings")}
    assert file == {
        "path": str(place / "reviewer.md"),
        "dialect": "claude",
        "loadable": True,
        "name": "reviewer",
        "description": "Reviews code: carefully.",
        "tools": ["Read", "MultiEdit", "Shell", "Nonsense"],
        "disallowedTools": ["WebFetch"],
        "resolvedTools": ["Read", "Edit", "Bash"],
        "model": "claude-sonnet-4-20250514",
        "mode": "dontAsk",
        "stage": "requoted",
        "why_not": None,
    }
    assert warnings == {
        "recovered": 3,
        "mode-wide": 7,
        "tool-retired": 4,
        "tool-unknown": 4,
        "model-mapped": 6,
    }
    assert told["clashes"] == [
        {
            "name": "reviewer",
            "dialect": "claude",
            "paths": [str(place / "again.md"), str(place / "reviewer.md")],
        }
    ]


def test_lint_says_why_a_page_is_no_agent(folder: Path):
    told = gen("agents", "lint", str(folder), "--json", cwd=folder).json["files"][0]
    assert (told["loadable"], told["name"], told["tools"], told["resolvedTools"]) == (False, None, None, [])
    assert told["why_not"].startswith(told["path"]) and "no front matter" in told["why_not"]


def test_lint_reads_like_a_linter(folder: Path):
    out = gen("agents", "lint", ".", cwd=folder).out
    assert f"{folder}/.claude/agents/reviewer.md:4: the tool Nonsense is not known here [tool-unknown]" in out
    assert out.splitlines()[-1] == "2 agent files, 2 can be used, 1 name clash, 1 other file"


def test_lint_tells_all_tools_from_none(tmp_path: Path):
    (tmp_path / "all.md").write_text("---\nname: a\ndescription: d\ntools: '*'\n---\nx")
    (tmp_path / "none.md").write_text("---\nname: b\ndescription: d\ntools: []\n---\nx")
    files = gen("agents", "lint", str(tmp_path), "--json", cwd=tmp_path).json["files"]
    assert [file["tools"] for file in files] == ["all", []]
    assert "Bash" in files[0]["resolvedTools"] and "Task" not in files[0]["resolvedTools"]
    assert files[1]["resolvedTools"] == []


def test_lint_of_nothing_is_a_mistake(tmp_path: Path):
    ended = gen("agents", "lint", "nowhere", cwd=tmp_path)
    assert (ended.code, "There is no file or folder" in ended.err) == (2, True)


def test_lint_knows_every_dialect_by_its_place(tmp_path: Path):
    for sample in SAMPLES:
        file = tmp_path / sample.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(sample.text)
    files = gen("agents", "lint", str(tmp_path), "--json", cwd=tmp_path).json["files"]
    assert {(file["dialect"], file["name"]) for file in files} == {
        (each.dialect, each.name) for each in SAMPLES
    }


def test_show_tells_what_was_asked_for_and_what_is_used(tmp_path: Path, home: Path):
    place = home / ".claude" / "agents" / "reviewer.md"
    place.parent.mkdir(parents=True)
    place.write_text(CLAUDE)
    told = gen("agents", "show", "Reviewer", "--json", cwd=tmp_path).json
    assert (told["model"], told["usedModel"]) == ("anthropic/claude-sonnet-4-20250514", "offline-search")
    assert (told["resolvedTools"], told["missing"], told["prompt"]) == (
        ["Read", "Edit", "Bash"],
        ["Nonsense"],
        "Review.",
    )
    out = gen("agents", "show", "reviewer", cwd=tmp_path).out
    assert "used model: offline-search" in out and out.rstrip().endswith("Review.")


def test_show_tells_the_model_that_the_settings_give_an_agent(tmp_path: Path, home: Path):
    (home / ".gen").mkdir()
    (home / ".gen" / "settings.toml").write_text('[agent_models]\nexplore = "offline"\n')
    shown = gen("agents", "show", "Explore", "--json", cwd=tmp_path, GEN_MODEL="vllm/main")
    other = gen("agents", "show", "Plan", "--json", cwd=tmp_path, GEN_MODEL="vllm/main")
    assert (shown.json["usedModel"], other.json["usedModel"]) == ("offline-search", "vllm/main")


def test_show_of_an_unknown_agent_offers_the_nearest(tmp_path: Path):
    ended = gen("agents", "show", "Explor", cwd=tmp_path)
    assert (ended.code, "Did you mean Explore" in ended.err) == (2, True)


def test_new_writes_a_file_for_this_folder_and_says_where(tmp_path: Path):
    words = ("--description", "Runs the tests.", "--tools", "Bash,Read", "--max-turns", "9")
    ended = gen("agents", "new", "tester", *words, cwd=tmp_path)
    path = tmp_path / ".gen" / "agents" / "tester.md"
    assert (ended.code, ended.out.splitlines()) == (0, [f"Wrote {path}"])
    assert "gen trust" in ended.err
    listed = gen("agents", "list", "--json", cwd=tmp_path).json["agents"]
    assert [agent["source"] for agent in listed if agent["untrusted"]] == [str(path)]


def test_new_leaves_a_trusted_folder_trusted_with_the_new_agent(tmp_path: Path):
    words = ("agents", "new", "--description", "Runs tests.")
    gen(*words, "first", cwd=tmp_path)
    gen("trust", "--yes", cwd=tmp_path)
    ended = gen(*words, "second", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert gen("trust", "--json", cwd=tmp_path).json["state"] == "trusted"
    assert gen("agents", "show", "second", "--json", cwd=tmp_path).code == 0
    by_an_agent = gen(*words, "third", cwd=tmp_path, **{PROCESS_MARK: "1"})
    assert "gen trust" in by_an_agent.err
    assert gen("trust", "--json", cwd=tmp_path).json["state"] == "added"


def test_new_does_not_trust_what_else_changed(tmp_path: Path):
    words = ("agents", "new", "--description", "Runs tests.")
    gen(*words, "first", cwd=tmp_path)
    gen("trust", "--yes", cwd=tmp_path)
    (tmp_path / ".mcp.json").write_text("{}")
    assert "gen trust" in gen(*words, "second", cwd=tmp_path).err
    changed = gen("trust", "--json", cwd=tmp_path).json["changes"]
    assert [each["path"] for each in changed] == [".gen/agents/second.md", ".mcp.json"]


PACKAGE = '{"name": "x", "description": "A package.", "version": "1.0.0", "mcpServers": {}}'


def test_lint_tells_agents_from_what_only_lies_beside_them(tmp_path: Path):
    others = {
        **dict.fromkeys(("package.json", "plugin.json", ".claude-plugin/marketplace.json"), PACKAGE),
        "hooks/hooks.json": '{"description": "Hooks.", "hooks": {}}',
        "README.md": "# Read me\n",
        ".claude/agents/README.md": "# Read me\n",
        "pyproject.toml": "[project]\nname = 'x'\n",
        "compose.yaml": "services: {}\n",
    }
    agents = {
        ".kiro/agents/k.json": '{"description": "d", "prompt": "p"}',
        "elsewhere/k2.json": '{"name": "k2", "description": "d", "prompt": "p"}',
    }
    skipped = {"node_modules/a/package.json": PACKAGE, "node_modules/a/agent.md": CLAUDE}
    for name, text in {**others, **agents, **skipped}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    ended = gen("agents", "lint", ".", "--json", cwd=tmp_path)
    files = {str(Path(each["path"]).relative_to(tmp_path)): each["loadable"] for each in ended.json["files"]}
    assert files == {**dict.fromkeys(others, False), **dict.fromkeys(agents, True)}
    assert ended.code == 0
    plain = gen("agents", "lint", ".", cwd=tmp_path)
    assert (plain.code, "error:" in plain.out, "unknown-field" in plain.out) == (0, False, False)


@pytest.mark.parametrize("words", [(), (".",), (".claude/agents/x.md",)])
def test_lint_ends_with_1_when_an_agent_cannot_be_used(tmp_path: Path, words: tuple[str, ...]):
    file = tmp_path / ".claude/agents/x.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: x\ntools: [Read, Grep\nmodel: x\n---\nb")
    ended = gen("agents", "lint", *words, cwd=tmp_path)
    assert ended.code == 1
    assert f"{file}, line 3: " in ended.out


def test_lint_names_agents_of_one_name_in_folders_of_several_products(tmp_path: Path):
    for name in (".claude", ".agents"):
        (tmp_path / name / "agents").mkdir(parents=True)
        (tmp_path / name / "agents" / "reviewer.md").write_text("---\nname: reviewer\ndescription: d\n---\nb")
    (clash,) = gen("agents", "lint", ".", "--json", cwd=tmp_path).json["clashes"]
    assert (clash["name"], clash["dialect"]) == ("reviewer", "claude, agents")


def test_new_for_all_folders_counts_at_once(tmp_path: Path, home: Path):
    ended = gen("agents", "new", "tester", "--description", "Tests.", "--user", "--json", cwd=tmp_path)
    assert ended.json["path"] == str(home / ".gen" / "agents" / "tester.md")
    assert gen("agents", "show", "tester", "--json", cwd=tmp_path).json["description"] == "Tests."


def test_new_without_a_description_says_what_is_missing(tmp_path: Path):
    ended = gen("agents", "new", "tester", cwd=tmp_path)
    assert (ended.code, "needs a description" in ended.err) == (2, True)


def test_new_with_a_tool_that_is_not_there_writes_nothing(tmp_path: Path):
    words = ("agents", "new", "tester", "--description", "Tests.", "--tools")
    unknown, empty = gen(*words, "Raed", cwd=tmp_path), gen(*words, "", cwd=tmp_path)
    assert (unknown.code, "Did you mean Read" in unknown.err) == (2, True)
    assert (empty.code, "No tool is named" in empty.err) == (2, True)
    assert not (tmp_path / ".gen" / "agents").exists()


def test_lint_says_what_a_call_would_say_about_a_schema(tmp_path: Path):
    file = tmp_path / ".gen" / "agents" / "a.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: a\ndescription: d\noutput-schema: {type: strnig}\n---\nx")
    out = gen("agents", "lint", str(file), cwd=tmp_path).out
    assert "This is not a JSON Schema at " in out and out.count("[schema-invalid]") == 1
    assert out.startswith(f"error: {file}: output-schema: ") and out.endswith(
        "1 agent file, 0 can be used, 0 name clashes\n"
    )


def home_agent(home: Path, name: str, field: str) -> Path:
    file = home / ".gen" / "agents" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\ndescription: d\n{field}\n---\nx")
    return file


def test_a_bad_schema_is_told_with_its_agent_and_file_in_the_list_and_by_a_call(tmp_path: Path, home: Path):
    file = home_agent(home, "badf", "output-schema: {type: strnig}")
    listed = gen("agents", "list", cwd=tmp_path).out
    assert f"broken: {file}: output-schema: This is not a JSON Schema at $.type" in listed
    ended = gen("task", "run", "badf", "x", "--model", "offline", cwd=tmp_path)
    said = f"The output-schema of the agent badf, in {file}: This is not a JSON Schema at $.type"
    assert (ended.code, said in ended.err) == (2, True)


def test_who_an_agent_may_send_is_checked(tmp_path: Path, home: Path):
    home_agent(home, "nobody", "tools: Read, Task(Plan)\nsends: [leaf]")
    home_agent(home, "number", "sends: 5")
    home_agent(home, "somebody", "tools: Read, Task(Plan, Explore)\nsends: [Plan]")
    home_agent(home, "unknown", "tools: Read, Task(nope)")
    lines = gen("agents", "list", cwd=tmp_path).out.splitlines()
    remarks = [line for line in lines if line.startswith(("broken: ", "warning: "))]
    assert [(line.partition(":")[0], line.partition(".gen/agents/")[2]) for line in remarks] == [
        ("warning", "nobody.md: sends and Task(…) name different agents, so it may start none"),
        ("broken", "number.md, line 4: sends must be names of agents."),
        ("warning", "unknown.md: it may start nope, but there is no such agent"),
    ]


def test_the_agents_of_task_types_are_copied_once_and_apply_once_trusted(tmp_path: Path):
    written = gen("agents", "add", "task-types", "--json", cwd=tmp_path).json["written"]
    again = gen("agents", "add", "task-types", cwd=tmp_path)
    assert [Path(each).name for each in written] == ["code", "deepresearch", "explore", "general", "plan"]
    assert (again.code, again.out) == (2, "")
    assert gen("trust", "--yes", cwd=tmp_path).code == 0
    listed = gen("agents", "list", "--json", cwd=tmp_path).json["agents"]
    used = [each["name"] for each in listed if any(each["source"].startswith(one) for one in written)]
    assert sorted(used) == ["code", "deepresearch", "explore", "general", "plan"]


def test_the_team_is_copied_for_a_project_or_for_oneself_and_nothing_is_wrong_with_it(tmp_path: Path):
    for_all = gen("agents", "add", "team", "--user", "--json", cwd=tmp_path).json["written"]
    written = gen("agents", "add", "team", "--json", cwd=tmp_path).json["written"]
    linted = gen("agents", "lint", ".gen/agents", "--json", cwd=tmp_path).json["files"]
    skills = gen("skills", "list", "--json", cwd=tmp_path).json["skills"]
    assert {Path(each).name for each in for_all} == {Path(each).name for each in written}
    assert len(linted) == len([each for each in written if each.endswith(".md")]) > 4
    assert [each["warnings"] for each in linted if each["warnings"] or not each["loadable"]] == []
    assert {Path(each).name for each in for_all if "/skills/" in each} <= {each["name"] for each in skills}
    assert gen("agents", "add", "task-types", "--user", cwd=tmp_path).code == 2


@pytest.mark.parametrize("link", [".gen", ".gen/agents", ".gen/agents/bug-fixer.md"])
def test_agents_are_not_copied_through_a_link_of_the_folder(tmp_path: Path, link: str) -> None:
    folder, elsewhere = tmp_path / "ws", tmp_path / "elsewhere"
    (folder / link).parent.mkdir(parents=True)
    elsewhere.mkdir()
    (folder / link).symlink_to(elsewhere / "new" if link.endswith(".md") else elsewhere)
    told = gen("agents", "add", "team", cwd=folder)
    assert (told.code, list(elsewhere.iterdir())) == (2, [])
    assert "Nothing was copied" in told.err
