"""A file that is misread never gives more than its author meant; what is not understood gives less."""

from pathlib import Path

import pytest

from gencode.agents.agent_file import read_agent_file
from gencode.agents.dialect import AgentFile
from gencode.agents.tool_names import READING
from gencode.core.budget import Budget
from gencode.core.messages import ToolCall
from gencode.core.rules import Action, Mode, Policy
from gencode.core.spec import AgentSpec, ToolChoice, Workspace
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide

READS = ToolChoice(READING)


def file(name: str, block: str, path: str = "agents/x.md") -> AgentFile:
    head = "" if name in ("opencode", "kilo") else "name: x\n"
    return read_agent_file(f"---\n{head}description: d\n{block}\n---\nbody".encode(), path, name)


def read(name: str, block: str) -> AgentSpec:
    found = file(name, block)
    assert found.spec is not None, found.why_not
    return found.spec


def codes(name: str, block: str) -> list[str]:
    return [finding.code for finding in file(name, block).findings]


def decided(spec: AgentSpec, tool: str, tmp_path: Path, **given: str) -> Action:
    """What an agent whose sender has full autonomy may do."""
    policy = Policy(spec.mode or Mode.DONT_ASK, spec.rules)
    place = Workspace(tmp_path, tmp_path, tmp_path / "home")
    call = ToolCall("c", tool, dict(given))
    effect = "execute" if tool == "Bash" else "write"
    facts = CallFacts(tool=call.name, input=call.input, workspace=place, effect=effect)
    return decide(facts, [Policy(Mode.DONT_ASK), policy]).action


@pytest.mark.parametrize("name", ["opencode", "kilo"])
@pytest.mark.parametrize(
    "said",
    ['{"*": deny, "git *": ask}', '{"**": deny, "git *": ask}', '{"*": deny, "rm *": deny, "git *": allow}'],
)
def test_a_refusal_of_all_commands_but_some_refuses_the_others(name: str, said: str, tmp_path: Path):
    spec = read(name, f"permission: {{bash: {said}}}")
    assert decided(spec, "Bash", tmp_path, command="rm -rf x") is Action.DENY
    assert decided(spec, "Bash", tmp_path, command="git log") is not Action.DENY


def test_a_refusal_of_all_paths_but_some_refuses_the_others(tmp_path: Path):
    spec = read("opencode", 'permission: {edit: {"*": deny, "docs/*": ask}}')
    found = [decided(spec, "Write", tmp_path, file_path=str(tmp_path / each)) for each in ("a", "docs/a")]
    assert found == [Action.DENY, Action.ASK]


@pytest.mark.parametrize(
    ("said", "denied"),
    [
        ('{bash: {"*": deny, "rm *": deny}}', ("Bash",)),
        ('{bash: allow, "*": deny}', ("Bash",)),
        ('{"bas*": deny}', ("Bash",)),
        ("{bash: false}", ("Bash",)),
        ("{edit: denied}", ("Edit", "Write")),
        ('{webfetch: {"*": deny, "https://x/*": ask}}', ("WebFetch",)),
        ("[{permission: bash, pattern: '*', action: deny}]", ("Bash",)),
    ],
)
def test_what_a_permission_refuses_as_a_whole_is_not_there(said: str, denied: tuple[str, ...]):
    assert {*denied} <= {*read("opencode", f"permission: {said}").tools.deny}


def test_a_permission_that_nobody_understands_leaves_what_reads():
    assert read("opencode", "permission: [bash]").tools == READS
    assert "permission-unknown" in codes("opencode", "permission: [bash]")


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        ("{read: allow, grep: allow}", ToolChoice(("Read", "Grep"))),
        ("{read: yes}", ToolChoice(("Read",))),
        ("{read: ~}", ToolChoice(())),
        ("{read: {enabled: true}}", ToolChoice(("Read",))),
        ("{allow: [Read], deny: [Bash], ask: [Edit]}", ToolChoice(("Read",), ("Bash",))),
        ("{include: [Read]}", ToolChoice(("Read",))),
        ("{allowed: [Read], denied: [Bash]}", ToolChoice(("Read",), ("Bash",))),
        ("[Read, {Bash: false}]", ToolChoice(("Read",), ("Bash",))),
        ("[Read, {Bash: deny}, {Write: {enabled: false}}]", ToolChoice(("Read",), ("Bash", "Write"))),
        ("[Read, '-Bash']", ToolChoice(("Read",), ("Bash",))),
        ("['*', '-Bash', '!Write']", ToolChoice(None, ("Bash", "Write"))),
        ("docker:exec, Read", ToolChoice(("docker:exec", "Read"))),
        ("Ba\u017fh", ToolChoice(("Ba\u017fh",))),
    ],
)
def test_a_list_gives_what_it_grants_and_nothing_else(said: str, choice: ToolChoice):
    assert read("claude", f"tools: {said}").tools == choice


@pytest.mark.parametrize(
    ("said", "denied"),
    [
        ("[[Bash, Write]]", ("Bash", "Write")),
        ('"Ba\\u200bsh, Write"', ("Bash", "Write")),
        ("Bash; Write", ("Bash", "Write")),
        ("Bash|Write", ("Bash", "Write")),
        (f"[{', '.join(['Task'] * 600)}, Bash]", ("Task", "Bash")),
    ],
)
def test_a_denial_in_any_shape_takes_away(said: str, denied: tuple[str, ...]):
    assert read("claude", f"disallowedTools: {said}").tools == ToolChoice(None, denied)


def test_a_denial_with_stars_takes_away_all_that_it_means():
    assert {"WebFetch", "WebSearch", "Bash"} <= {
        *read("claude", "disallowedTools: ['Web*', 'Bash*']").tools.deny
    }


@pytest.mark.parametrize("said", ["Bsah", "'Bash(rm *, Write'", "[{a: 1}]"])
def test_a_denial_that_nobody_understands_leaves_what_reads(said: str):
    spec = read("claude", f"tools: Read, Bash, Grep\ndisallowedTools: {said}")
    assert spec.tools.allow == ("Read", "Grep")
    assert "denial-unknown" in codes("claude", f"disallowedTools: {said}")


def test_a_denial_that_nobody_understands_refuses_a_file_of_ours():
    assert "Bsah" in file("gencode", "tools: {mode: denylist, deny: [Bsah]}").why_not


@pytest.mark.parametrize("line", ['"tools": Read', "tools : Read", " tools: Read", "  tools: Read"])
def test_a_repair_never_swallows_the_line_of_the_tools(line: str):
    found = file("claude", f"color: blue: ish\n{line}")
    assert found.spec is None or found.spec.tools == ToolChoice(("Read",))


@pytest.mark.parametrize("line", ["tools\u200b: Read", "\uff54ools: Read", "color: red\u2028tools: Bash"])
def test_what_cannot_be_seen_in_a_field_refuses_the_file(line: str):
    assert file("claude", line).spec is None


@pytest.mark.parametrize(
    "said", ["permissions: {Deny: [Bash]}", "permissions: {deny: {Bash: true}}", "permission: {bash: deny}"]
)
def test_permissions_of_others_refuse_in_every_shape(said: str, tmp_path: Path):
    spec = read("claude", said)
    gone = "Bash" in spec.tools.deny
    assert gone or decided(spec, "Bash", tmp_path, command="ls") is Action.DENY


def test_a_pattern_also_keeps_from_other_commands_that_only_read(tmp_path: Path):
    spec = read("claude", "tools: Bash(git status), Bash(git diff:*)")
    found = [decided(spec, "Bash", tmp_path, command=each) for each in ("git status", "cat f")]
    assert found[0] is Action.ALLOW
    assert found[1] is not Action.ALLOW


@pytest.mark.parametrize(("text", "tools"), [("tools: ''", ()), ("extend: ./base.yaml", ())])
def test_an_agent_of_kimi_without_tools_has_none(text: str, tools: tuple[str, ...]):
    found = read_agent_file(f"version: 1\nagent:\n  name: x\n  {text}\n".encode(), "x.yaml", "kimi")
    assert found.spec is not None and found.spec.tools == ToolChoice(tools)


def test_kiros_settings_of_tools_refuse(tmp_path: Path):
    text = (
        '{"name": "x", "description": "d", "toolsSettings": {"execute_bash": {"deniedCommands": ["rm .*"]},'
        '"fs_write": {"deniedPaths": ["secret"]}}}'
    )
    spec = read_agent_file(text.encode(), "x.json", "kiro").spec
    assert spec is not None
    assert decided(spec, "Bash", tmp_path, command="rm x") is not Action.ALLOW
    assert decided(spec, "Write", tmp_path, file_path=str(tmp_path / "secret")) is Action.DENY


def test_kiros_rules_in_markdown_refuse():
    spec = read("kiro", "permissions:\n  - {capability: shell, effect: deny}")
    assert "Bash" in spec.tools.deny


def test_a_field_that_is_twice_in_json_refuses_the_file():
    text = b'{"name": "x", "description": "d", "tools": ["fs_read"], "tools": ["*"]}'
    assert "given twice" in read_agent_file(text, "x.json", "kiro").why_not


@pytest.mark.parametrize("text", ["[{}]", "x = {{{}=1}}", '"a=b".{}=1', '"\\"".{}=1'])
def test_toml_that_is_nested_by_dots_is_refused_before_it_is_read(text: str):
    content = text.format(".".join(["a"] * 20_000)).encode()
    assert "nested too deep" in read_agent_file(content, "x.toml", "codex").why_not


@pytest.mark.parametrize(
    "hooks",
    [
        "{PreTolUse: [{hooks: [{type: command, command: exit 2}]}]}",
        '["exit 2"]',
        "{PreToolUse: [{hooks: [{type: command, command: [sh, -c, exit 2]}]}]}",
        "{PreToolUse: [{hooks: [{type: prompt, prompt: Is it good?}]}]}",
    ],
)
def test_a_guard_that_cannot_be_run_is_an_error_in_files_of_ours_and_told_in_others(hooks: str):
    assert "has no effect" in file("gencode", f"hooks: {hooks}").why_not
    assert "hooks-shape" in codes("claude", f"hooks: {hooks}")


def test_settings_of_a_recipe_do_not_widen_it():
    text = (
        b"title: x\ndescription: d\ninstructions: i\ntools: []\nsettings: {tools: '*', permissionMode: plan}"
    )
    spec = read_agent_file(text, "x.yaml", "goose-recipe").spec
    assert spec is not None and (spec.tools, spec.mode) == (ToolChoice(()), None)


def test_a_mode_that_cannot_be_read_is_the_narrowest():
    codex = read_agent_file(b'name="x"\ndescription="d"\nsandbox_mode=["read-only"]', "x.toml", "codex").spec
    assert codex is not None and codex.mode is Mode.PLAN
    assert read("cursor", "readonly:").mode is Mode.PLAN


def test_switches_of_features_in_codex_are_no_list():
    text = b'name="x"\ndescription="d"\n[tools]\nweb_search = true'
    spec = read_agent_file(text, "x.toml", "codex").spec
    assert spec is not None and spec.tools == ToolChoice()


@pytest.mark.parametrize(
    "amount", ["-5", "0", "1.5", "1e30", "99999999999999999999999", f"1{'0' * 400}", "yes"]
)
def test_a_count_that_is_no_budget_refuses_the_file_and_says_what_would_be_one(amount: str):
    for kind, least in (("tokens", 1), ("turns", 1), ("spawns", 0)):
        if amount != str(least):  # an agent may be one that sends nobody
            why = file("claude", f"budget: {{{kind}: {amount}}}").why_not
            assert f"budget.{kind} must be a whole number from {least} to 9,007,199,254,740,992" in why


@pytest.mark.parametrize("amount", ["-5", "0", "1e30", "1e-12", ".nan", ".inf", f"1{'0' * 400}", "yes"])
def test_a_measure_that_is_no_budget_refuses_the_file_and_says_what_would_be_one(amount: str):
    for kind in ("usd", "seconds"):
        why = file("claude", f"budget: {{{kind}: {amount}}}").why_not
        assert f"budget.{kind} must be a number from 0.000000001 to 1,000,000,000" in why


def test_a_time_limit_of_qwen_beyond_all_measure_is_none():
    assert read("qwen", "runConfig: {max_time_minutes: 1.0e+300}").budget == Budget()


def test_an_agent_called_main_is_pointed_out():
    found = read_agent_file(b"---\nname: main\ndescription: d\n---\nb", "main.md", "claude")
    assert "name-taken" in [each.code for each in found.findings]
