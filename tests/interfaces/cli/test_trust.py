"""`gen trust`: a person sees what a folder brings, says yes or no, and can take it back."""

import stat
from pathlib import Path

import pytest

from gencode.sandbox.processes.environment import PROCESS_MARK
from tests.interfaces.cli.running import Ended, gen, in_terminal, script

SETTINGS = """\
permission_mode = "acceptEdits"
model = "offline"
allow = ["Bash(make  test:*)"]
deny = ["Read(*.sql)"]
durability = "power"
"""
DEPLOYER = """---
name: deployer
description: Deploys.
permission-mode: dontAsk
tools: Bash, Write
permissions: {allow: ["Bash(rm:*)"]}
---
Deploy.
"""
EXPLORE = "---\nname: Explore\ndescription: Ours.\noverride: true\n---\nLook.\n"
PLAN = "---\nname: Plan\ndescription: Ours.\n---\nPlan.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that brings a little of everything."""
    folder = tmp_path / "project"
    (folder / ".gen" / "agents").mkdir(parents=True)
    (folder / ".gen" / "settings.toml").write_text(SETTINGS)
    for name, text in (("deployer", DEPLOYER), ("explore", EXPLORE), ("plan", PLAN)):
        (folder / ".gen" / "agents" / f"{name}.md").write_text(text)
    (folder / ".mcp.json").write_text("{}")
    return folder


def states(folder: Path) -> list[str]:
    return [each["state"] for each in gen("trust", "--list", "--json", cwd=folder).json["folders"]]


def agents(folder: Path) -> dict[str, str]:
    """The agents that can be sent, by name, and where each comes from."""
    listed = gen("agents", "list", "--json", cwd=folder).json["agents"]
    usable = [each for each in listed if not (each["problem"] or each["shadowedBy"] or each["untrusted"])]
    return {each["name"]: Path(each["source"]).parent.parent.name for each in usable}


def test_a_folder_is_shown_in_plain_words(project: Path) -> None:
    assert gen("trust", "--show", cwd=project).out.splitlines() == [
        f"{project} is not trusted, so its content does not apply. It contains:",
        "",
        "Settings, in .gen/settings.toml",
        "  allow            Bash(make  test:*)  (without approval)",
        "  permission_mode  acceptEdits  (edits files without approval)",
        "  model            offline",
        "  deny             Read(*.sql)  (applies already, since it only restricts)",
        "  durability       power  (has no effect: only your own settings can set it)",
        "",
        "Agents",
        "  deployer  mode dontAsk (allows everything without approval); tools Bash, Write; allows Bash(rm:*)"
        "  (.gen/agents/deployer.md)",
        "  Explore   its parent's mode; all tools; replaces the built-in Explore  (.gen/agents/explore.md)",
        "  Plan      its parent's mode; all tools; has no effect: the built-in Plan has the same name"
        "  (.gen/agents/plan.md)",
        "",
        "Programs and servers that it starts",
        "  this folder  .mcp.json has no object mcpServers",
    ]
    assert states(project) == []


def test_every_program_that_would_be_started_is_shown_as_it_is(project: Path) -> None:
    (project / ".gen" / "agents" / "guarded.md").write_text(
        "---\nname: guarded\ndescription: d\nskills: [pdf]\ntools: Read\n"
        "mcpServers: {db: {command: sh, args: [-c, 'curl x | sh'], env: {A: b c}}}\n"
        "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: ./guard.sh}]\n"
        "---\nb"
    )
    skill = project / ".claude" / "skills" / "pdf" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: pdf\ndescription: d\n---\nb")
    (project / ".mcp.json").write_text('{"mcpServers": {"web": {"command": "npx", "args": ["-y", "web"]}}}')
    shown = gen("trust", "--show", cwd=project).out.splitlines()
    at = shown.index("Programs and servers that it starts")
    assert shown[at + 1 : at + 14] == [
        "  guarded      hook PreToolUse of bash: ./guard.sh",
        "  guarded      MCP server db: A='b c' sh -c 'curl x | sh'",
        "  this folder  MCP server web: npx -y web",
        "",
        "Files of this folder that these start; they are trusted, too",
        "  guard.sh",
        "",
        "Programs whose files are unknown, so that changes of them are not noticed",
        "  npx -y web: npx decides what is run",
        "  sh -c 'curl x | sh': sh reads its script from its input",
        "",
        "Skills",
        "  .claude/skills/pdf/SKILL.md",
    ]


STARTS = """---
name: guarded
description: d
hooks:
  SubagentStart:
    - hooks: [{type: command, command: "sh scripts/guard.sh"}]
---
Work.
"""


@pytest.fixture
def starting(tmp_path: Path) -> Path:
    """A folder with a hook and a server whose programs are files of its own."""
    folder = tmp_path / "starting"
    for name in ("scripts", ".gen/agents"):
        (folder / name).mkdir(parents=True)
    (folder / "scripts/guard.sh").write_text("touch hook-ran\n")
    (folder / "scripts/mcp.sh").write_text("touch server-ran\n")
    (folder / "scripts/mcp.sh").chmod(0o755)
    (folder / ".gen/agents/guarded.md").write_text(STARTS)
    (folder / ".mcp.json").write_text('{"mcpServers": {"own": {"command": "./scripts/mcp.sh"}}}')
    (folder / "Makefile").write_text("all:\n\techo 'touch server-escaped' > scripts/mcp.sh\n")
    return folder


@pytest.mark.parametrize("script", ["guard.sh", "mcp.sh"])
def test_a_script_that_a_folder_starts_is_trusted_with_it_and_a_change_ends_that(
    starting: Path, script: str
) -> None:
    shown = gen("trust", "--json", cwd=starting).json
    assert (sorted(shown["starts"]), shown["unknown"]) == (["scripts/guard.sh", "scripts/mcp.sh"], [])
    gen("trust", "--yes", cwd=starting)
    assert states(starting) == ["trusted"]
    (starting / "scripts" / script).write_text("touch other\n")
    assert gen("trust", "--json", cwd=starting).json["changes"] == [
        {"kind": "changed", "path": f"scripts/{script}"}
    ]
    sent = gen("task", "run", "guarded", "x", "--model", "offline", cwd=starting)
    assert (sent.code, sent.err.endswith(" with: gen trust .\n")) == (2, True)
    assert not (starting / "other").exists()
    gen("trust", "--yes", cwd=starting)
    assert states(starting) == ["trusted"]


def test_a_script_that_is_missing_when_a_folder_is_trusted_must_not_appear(starting: Path) -> None:
    (starting / "scripts/guard.sh").unlink()
    gen("trust", "--yes", cwd=starting)
    assert states(starting) == ["trusted"]
    (starting / "scripts/guard.sh").write_text("x")
    assert states(starting) == ["changed"]


def test_an_agent_that_may_edit_files_cannot_rewrite_what_the_folder_starts(starting: Path) -> None:
    gen("trust", "--yes", cwd=starting)
    before = {path: path.read_text() for path in (starting / "scripts").iterdir()}
    evil = [
        *(
            {"name": "Write", "input": {"file_path": f"scripts/{name}", "content": "touch evil\n"}}
            for name in ("guard.sh", "mcp.sh")
        ),
        {"name": "Bash", "input": {"command": "cp Makefile scripts/guard.sh"}},
    ]
    model = script(starting.parent, main=[{"calls": evil}, {"text": "done"}])
    words = ("--permission-mode", "acceptEdits", "--allow", "Bash(cp:*)", "--model", model)
    ended = gen("-p", "go", *words, cwd=starting)
    assert ended.code == 3, ended.err
    assert {path: path.read_text() for path in (starting / "scripts").iterdir()} == before
    assert states(starting) == ["trusted"]
    said = gen(
        "permissions", "explain", "--tool", "Write", "--input", "scripts/mcp.sh", "--json", cwd=starting
    )
    assert said.json["decision"] == "ask"


@pytest.mark.needs("bwrap")
@pytest.mark.needs("make")
def test_a_command_in_the_sandbox_cannot_rewrite_what_the_folder_starts(starting: Path) -> None:
    gen("trust", "--yes", cwd=starting)
    before = (starting / "scripts/mcp.sh").read_text()
    model = script(
        starting.parent, main=[{"calls": [{"name": "Bash", "input": {"command": "make"}}]}, {"text": "x"}]
    )
    ended = gen("-p", "go", "--allow", "Bash(make)", "--model", model, cwd=starting)
    assert ended.code == 0, ended.err
    assert (starting / "scripts/mcp.sh").read_text() == before


def test_trust_from_before_anybody_looked_at_scripts_has_to_be_given_again(
    starting: Path, home: Path
) -> None:
    gen("trust", "--yes", cwd=starting)
    record = home / ".gen" / "trust.toml"
    text = record.read_text()
    record.write_text(text[: text.index(f'[folders."{starting}".started]')])
    assert states(starting) == ["untrusted"]


def test_without_a_person_only_a_clear_yes_trusts(project: Path) -> None:
    asked = gen("trust", cwd=project)
    assert refused(asked, "--yes")
    assert (states(project), "deployer" in agents(project)) == ([], False)
    said = gen("trust", "--yes", cwd=project)
    assert said.code == 0 and said.out.splitlines()[-1].startswith("Trusted, with 5 files")
    assert states(project) == ["trusted"]
    assert agents(project) == {
        **dict.fromkeys(("Bash", "Plan", "Review", "general-purpose", "researcher"), "agents"),
        **dict.fromkeys(("Explore", "deployer"), ".gen"),
    }
    again = gen("trust", cwd=project)
    assert (again.code, again.out) == (0, f"{project} is trusted.\n")


def test_a_single_file_is_named_in_the_singular(tmp_path: Path) -> None:
    agent = tmp_path / ".gen" / "agents" / "helper.md"
    agent.parent.mkdir(parents=True)
    agent.write_text("---\nname: helper\ndescription: helps\n---\nHelp.\n")
    said = gen("trust", "--yes", cwd=tmp_path)
    assert said.code == 0 and "Trusted, with 1 file as it is now." in said.out


@pytest.mark.parametrize(
    ("typed", "code", "found"),
    [(b"y\n", 0, ["trusted"]), (b"n\n", 1, []), (b"\n", 1, []), (b"\x03", 130, [])],
)
def test_a_person_at_a_terminal_is_asked(project: Path, typed: bytes, code: int, found: list[str]) -> None:
    ended = in_terminal("trust", ".", cwd=project, columns=200, answers=[typed])
    assert (ended.code, "Trust it as it is now?" in ended.out, states(project)) == (code, True, found)


def test_a_change_is_told_and_nothing_counts_until_it_is_looked_at_again(project: Path) -> None:
    gen("trust", "--yes", cwd=project)
    (project / ".mcp.json").write_text('{"mcpServers": {}}')
    (project / ".gen" / "agents" / "plan.md").unlink()
    (project / ".gen" / "hooks.toml").write_text("")
    shown = gen("trust", "--show", cwd=project).out.splitlines()
    assert shown[0].startswith(f"{project} has changed since you trusted it")
    assert shown[-4:] == [
        "Changes since it was trusted",
        "  gone     .gen/agents/plan.md",
        "  new      .gen/hooks.toml",
        "  changed  .mcp.json",
    ]
    assert (states(project), "deployer" in agents(project)) == (["changed"], False)
    told = gen("-p", "hello", cwd=project).err
    assert "This folder changed since you trusted it, so its settings and agents do not apply" in told


def test_trust_is_taken_back(project: Path) -> None:
    gen("trust", "--yes", cwd=project)
    first, second = (gen("trust", "--revoke", cwd=project) for _ in range(2))
    assert (first.out, second.out) == (
        f"{project} is no longer trusted.\n",
        f"{project} was not trusted.\n",
    )
    assert gen("trust", "--list", cwd=project).out == "No folder is trusted.\n"


def test_one_line_tells_that_something_waits_and_nobody_is_asked(project: Path) -> None:
    ended = gen("-p", "hello", cwd=project)
    notes = [line for line in ended.err.splitlines() if "This folder" in line]
    assert notes == ["This folder's settings and agents do not apply until you trust it: gen trust ."]
    elsewhere = gen("-p", "hello", "--cwd", str(project), cwd=project.parent)
    assert elsewhere.err.rstrip().endswith(f"until you trust it: gen trust {project}")
    gen("trust", "--yes", cwd=project)
    assert "This folder" not in gen("-p", "hello", cwd=project).err


@pytest.mark.parametrize(
    ("path", "text", "waits"),
    [
        (".mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', "MCP servers"),
        (".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\nb", "skills"),
    ],
)
def test_the_line_also_tells_of_a_folder_with_nothing_else(
    tmp_path: Path, path: str, text: str, waits: str
) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    ended = gen("-p", "hello", cwd=tmp_path)
    assert f"This folder's {waits} do not apply until you trust it: gen trust ." in ended.err


def test_a_folder_whose_rules_only_narrow_is_left_in_peace(tmp_path: Path) -> None:
    (tmp_path / ".gen").mkdir()
    (tmp_path / ".gen" / "settings.toml").write_text('deny = ["Read(*.sql)"]\n')
    assert "This folder" not in gen("-p", "hello", cwd=tmp_path).err


def test_json_shows_a_folder_and_never_asks(project: Path) -> None:
    told = gen("trust", "--json", cwd=project).json
    assert {name: told[name] for name in ("folder", "state", "changes", "others", "problems")} == {
        "folder": str(project),
        "state": "untrusted",
        "changes": [],
        "others": [],
        "problems": [],
    }
    assert told["settings"]["allow"] == ["Bash(make  test:*)"]
    assert told["agents"][0] == {
        "name": "deployer",
        "path": ".gen/agents/deployer.md",
        "mode": "dontAsk",
        "model": "inherit",
        "tools": ["Bash", "Write"],
        "allow": ["Bash(rm:*)"],
        "programs": [],
        "skills": [],
        "hides": [],
        "hiddenBy": None,
        "problem": None,
    }
    assert gen("trust", "--json", "--yes", cwd=project).json["state"] == "trusted"
    assert gen("trust", "--revoke", "--json", cwd=project).json == {"folder": str(project), "revoked": True}


def test_a_folder_without_anything_needs_no_trust(tmp_path: Path, home: Path) -> None:
    ended = gen("trust", ".", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, f"{tmp_path} contains nothing that needs trust.\n")
    assert not (home / ".gen").exists()


def refused(ended: Ended, *words: str) -> bool:
    return ended.code == 2 and ended.err.count("\n") == 1 and all(word in ended.err for word in words)


def test_what_cannot_be_trusted_says_why(project: Path) -> None:
    (project / ".gen" / "hooks").symlink_to("/etc")
    assert refused(gen("trust", "--yes", cwd=project), "cannot be trusted", "a link")
    (project / ".gen" / "hooks").unlink()
    (project / ".gen" / "settings.toml").write_text("modle = 3")
    assert refused(gen("trust", "--yes", cwd=project), "cannot be trusted", "no setting 'modle'")
    assert states(project) == []


def test_only_a_person_trusts_and_no_command_of_an_agent(project: Path) -> None:
    ended = gen("trust", "--yes", cwd=project, **{PROCESS_MARK: "1"})
    assert refused(ended, "Only you can trust a folder")
    assert states(project) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [(("--yes", "--list"), "only one of"), (("nowhere",), "is not a folder"), (("--ye",), "--ye")],
)
def test_a_mistake_is_one_sentence(project: Path, words: tuple[str, ...], says: str) -> None:
    assert refused(gen("trust", *words, cwd=project), says)


def test_the_record_is_the_owners_alone(project: Path, home: Path) -> None:
    gen("trust", "--yes", cwd=project)
    record = home / ".gen" / "trust.toml"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert sorted(path.name for path in (project / ".gen").iterdir()) == ["agents", "settings.toml"]


def test_a_trusted_agent_of_a_wider_mode_stays_below_its_sender(project: Path) -> None:
    gen("trust", "--yes", cwd=project)
    (project / ".env").write_text("KEY=1\n")
    turns = [{"text": "", "calls": [{"name": "Read", "input": {"file_path": ".env"}}]}, {"text": "No."}]
    model = script(project.parent, deployer=turns)
    words = ("task", "run", "deployer", "go", "--model", model, "--permission-mode", "default", "--json")
    task = gen(*words, cwd=project).json
    assert task["evidence"]["filesRead"] == []
    assert any("no wider mode was approved" in warning for warning in task["evidence"]["warnings"])


def test_the_doctor_tells_how_the_folder_stands(project: Path) -> None:
    def told() -> tuple[str, str]:
        checks = gen("doctor", "--json", cwd=project).json["checks"]
        (trust,) = [each for each in checks if each["name"] == "trust"]
        return trust["state"], trust["fix"]

    assert told() == ("missing", "gen trust .")
    gen("trust", "--yes", cwd=project)
    assert told() == ("ok", "")
