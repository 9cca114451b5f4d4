"""Every dialect is read into one and the same kind of agent, and found where its files lie."""

from pathlib import Path

import pytest

from gencode.agents.agent_file import read_agent_file
from gencode.agents.dialects.table import DIALECTS, dialect_named
from gencode.agents.registry import Registry
from gencode.core.budget import Budget
from gencode.core.rules import Action, Mode, Rule, written_in
from gencode.core.spec import AgentSpec, ToolChoice
from gencode.permissions.agent_folders import AGENT_FOLDERS, USER_FOLDERS, agent_dialect
from gencode.permissions.trust import FolderTrust, standing, trust
from tests.agents.samples import SAMPLES, Sample


def read(name: str, text: str, path: str = "agents/x.md") -> AgentSpec:
    found = read_agent_file(text.encode(), path, name)
    assert found.spec is not None, found.why_not
    return found.spec


def claude(block: str) -> AgentSpec:
    return read("claude", f"---\nname: x\ndescription: d\n{block}\n---\nbody")


def opencode(block: str) -> AgentSpec:
    return read("opencode", f"---\ndescription: d\n{block}\n---\nbody")


def project_with(folder: Path, home: Path, *samples: Sample) -> FolderTrust:
    for sample in samples:
        file = folder / sample.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(sample.text)
    trust(standing(folder, home), home)
    return standing(folder, home)


def test_there_is_a_sample_of_every_dialect():
    assert [sample.dialect for sample in SAMPLES] == list(DIALECTS)


def test_the_lists_of_folders_are_those_that_the_dialects_name():
    assert {name: dialect_named(name).project for name in DIALECTS} == AGENT_FOLDERS
    named = [(name, folder) for name in DIALECTS for folder in dialect_named(name).user]
    assert sorted(USER_FOLDERS) == sorted(named)
    for name in DIALECTS:
        for folder in AGENT_FOLDERS[name]:
            for ending in dialect_named(name).endings:
                path = (
                    f"{folder}/x/{dialect_named(name).file}"
                    if dialect_named(name).file
                    else f"{folder}/x{ending}"
                )
                assert agent_dialect(path) == name


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.dialect)
def test_a_file_of_each_dialect_means_what_it_says(sample: Sample, tmp_path: Path):
    found = read_agent_file(sample.text.encode(), str(tmp_path / sample.path), sample.dialect)
    spec = found.spec
    assert spec is not None, found.why_not
    assert (spec.name, spec.tools, spec.dialect) == (sample.name, sample.tools, sample.dialect)
    assert {field: getattr(spec, field) for field in sample.also} == sample.also
    assert spec.prompt != ""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.dialect)
def test_the_dialect_of_a_file_is_told_from_its_place(sample: Sample, tmp_path: Path):
    place = tmp_path / sample.path
    assert read_agent_file(sample.text.encode(), str(place)).dialect == sample.dialect
    moved = str(tmp_path / (f"dot-{sample.path[1:]}" if sample.path[0] == "." else sample.path))
    assert read_agent_file(sample.text.encode(), moved).dialect == sample.dialect


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.dialect)
def test_a_trusted_project_brings_agents_of_each_dialect(sample: Sample, tmp_path: Path):
    home = tmp_path / "home"
    registry = Registry.load(home, project_with(tmp_path / "project", home, sample))
    spec = registry.find(sample.name)
    assert (spec.source, spec.tools) == (str(tmp_path / "project" / sample.path), sample.tools)
    assert (spec in registry.spawnable()) is not spec.hidden


@pytest.mark.parametrize("name", ["opencode", "qwen", "copilot", "gemini", "pi", "cursor", "codex", "claude"])
def test_the_dialect_of_a_file_somewhere_else_is_told_from_what_it_holds(name: str):
    sample = next(each for each in SAMPLES if each.dialect == name)
    path = f"elsewhere/{Path(sample.path).name}"
    assert read_agent_file(sample.text.encode(), path).dialect == name


@pytest.mark.parametrize(
    ("name", "field", "word", "mode"),
    [
        ("gencode", "permission-mode", "dontAsk", Mode.DONT_ASK),
        ("claude", "permissionMode", "dontAsk", Mode.UNATTENDED),
        ("claude", "permissionMode", "bypassPermissions", Mode.DONT_ASK),
        ("claude", "permissionMode", "plan", Mode.PLAN),
        ("claude", "permissionMode", "auto", Mode.DEFAULT),
        ("claude", "permissionMode", "manual", Mode.DEFAULT),
        ("claude", "permissionMode", "acceptEdits", Mode.ACCEPT_EDITS),
        ("claude", "permissionMode", "full", Mode.DEFAULT),
        ("claude", "permissionMode", "[a]", Mode.PLAN),
        ("claude", "permissionMode", "read-only", Mode.PLAN),
        ("qwen", "approvalMode", "yolo", Mode.DONT_ASK),
        ("qwen", "approvalMode", "bubble", None),
        ("qwen", "permissionMode", "dontAsk", Mode.UNATTENDED),
        ("openhands", "permission_mode", "confirm_risky", Mode.DEFAULT),
    ],
)
def test_modes_are_mapped_for_each_dialect(name: str, field: str, word: str, mode: Mode | None):
    assert read(name, f"---\nname: x\ndescription: d\n{field}: {word}\n---\nbody").mode is mode


@pytest.mark.parametrize(
    ("word", "mode"),
    [("read-only", Mode.PLAN), ("workspace-write", Mode.ACCEPT_EDITS), ("danger-full-access", Mode.DONT_ASK)],
)
def test_the_sandbox_of_codex_is_a_mode(word: str, mode: Mode):
    text = f'name = "x"\ndescription = "d"\ndeveloper_instructions = "i"\nsandbox_mode = "{word}"\n'
    assert read("codex", text, "x.toml").mode is mode


@pytest.mark.parametrize(
    ("written", "called"),
    [
        ("sonnet", "sonnet"),
        ("Opus", "opus"),
        ("inherit", "inherit"),
        ("auto", "inherit"),
        ("claude-sonnet-4-20250514", "anthropic/claude-sonnet-4-20250514"),
        ("gpt-5.4", "openai/gpt-5.4"),
        ("GPT-4.1", "openai/gpt-4.1"),
        ("Claude Opus 4.1 (copilot)", "opus"),
        ("gemini-2.5-flash", "gemini/gemini-2.5-flash"),
        ("openai:gpt-4o", "openai/gpt-4o"),
        ("moonshotai/kimi-k2.5", "moonshotai/kimi-k2.5"),
        ("[nothing-known, haiku]", "haiku"),
        ("reviewer-security", "reviewer-security"),
    ],
)
def test_models_of_all_products_have_a_name_here(written: str, called: str):
    assert claude(f"model: {written}").model == called


def test_names_of_other_products_may_hold_a_slash():
    assert read("claude", "---\nname: UI/UX Designer\ndescription: d\n---\nb").name == "UI/UX Designer"


def test_a_model_that_nobody_knows_is_pointed_out():
    found = read_agent_file(b"---\nname: x\ndescription: d\nmodel: fable\n---\nb", "x.md", "claude")
    assert [(each.code, each.line) for each in found.findings] == [("model-unknown", 4)]


def test_hooks_in_a_form_that_would_not_run_are_kept_and_pointed_out():
    spec = claude("hooks:\n  pre: echo hello")
    assert spec.hooks == {"pre": "echo hello"}
    assert len(spec.warnings) == 1
    assert spec.warnings[0].startswith("the hook 'pre' has no effect: there is no such event")
    good = claude(
        "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks: [{type: command, command: ./check}]"
    )
    assert list(good.hooks) == ["PreToolUse"]


def test_an_agent_may_have_a_place_of_its_own_a_schema_and_a_budget():
    spec = claude("isolation: worktree\noutput-schema: {type: object}\nbudget: {tokens: 9000, usd: 0.5}")
    assert (spec.isolation, spec.output_schema, spec.budget) == (
        *("worktree", {"type": "object"}),
        Budget(tokens=9_000, usd=0.5),
    )


def test_a_field_of_the_wrong_kind_costs_the_field_and_not_the_agent():
    spec = claude("maxTurns: many\nbackground: perhaps\nmemory: all\nisolation: vm\neffort: 9000")
    assert (spec.max_turns, spec.background, spec.memory, spec.isolation, spec.effort) == (
        *(50, False, "", ""),
        None,
    )
    assert len(spec.warnings) == 5


@pytest.mark.parametrize("name", ["claude", "opencode", "copilot"])
@pytest.mark.parametrize("value", ["7", "true", "[[a]]", "", "[]", "''", "[~]"])
def test_tools_that_cannot_be_understood_are_none(name: str, value: str):
    spec = read(name, f"---\nname: x\ndescription: d\ntools: {value}\n---\nbody")
    assert spec.tools == ToolChoice(())


def test_opencodes_switches_that_are_off_take_away():
    assert opencode("tools: {write: false, read: true}").tools == ToolChoice(None, ("Write",))
    assert opencode("tools: {'*': false, read: true}").tools == ToolChoice(("Read",))
    assert opencode("tools: {read: perhaps, grep: true}").tools == ToolChoice(("Grep",))


def test_opencodes_permissions_never_let_more_through_than_they_say():
    spec = opencode(
        "permission:\n  edit: deny\n  webfetch: ask\n  bash:\n    '*': deny\n    'git status*': allow\n"
        "  read: {'*.env': deny}\n  task: {'*': deny, scout: allow}"
    )
    origin = written_in("agents/x.md")
    assert spec.tools == ToolChoice(None, ("Edit", "Write"))
    assert spec.mode is Mode.DEFAULT
    assert spec.sends == ("scout",)
    assert set(spec.rules) == {
        Rule("WebFetch", "*", Action.ASK, origin),
        Rule("Bash", "git status", Action.ALLOW, origin),
        Rule("Bash", "git status *", Action.ALLOW, origin),
        Rule("Bash", "*", Action.DENY, origin, ("git status", "git status *")),
        *(Rule(tool, each, Action.DENY, origin) for tool in ("Read", "LS") for each in ("*.env", "**.env")),
    }


def test_opencodes_star_at_the_end_of_a_denial_also_means_more_words():
    rules = opencode("permission:\n  bash:\n    'rm -rf*': deny\n    '* --force': ask").rules
    assert {(rule.pattern, rule.action) for rule in rules} == {
        ("rm -rf*", Action.DENY),
        ("rm -rf* *", Action.DENY),
        ("* --force", Action.ASK),
        ("*", Action.ASK),
    }


def test_opencodes_refusal_of_everything_leaves_what_it_names():
    spec = opencode("permission: {'*': deny, read: allow, grep: allow}")
    assert spec.tools == ToolChoice(("Read", "Grep", "LS"))


def test_an_agent_that_is_switched_off_or_elsewhere_is_none():
    off = read_agent_file(b"---\ndescription: d\ndisable: true\n---\nb", "x.md", "opencode")
    far = read_agent_file(b"---\nname: x\nkind: remote\nagent_card_url: y\n---\n", "x.md", "gemini")
    assert "switched off" in off.why_not
    assert "another machine" in far.why_not


def test_a_copilot_agent_that_no_model_may_call_is_hidden():
    assert read("copilot", "---\ndescription: d\ndisable-model-invocation: true\n---\nb").hidden
    assert read("copilot", "---\ndescription: d\ninfer: false\n---\nb").hidden
    assert not read("copilot", "---\ndescription: d\nuser-invocable: false\n---\nb").hidden
