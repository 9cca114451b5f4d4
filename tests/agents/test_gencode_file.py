"""GenCode's own agent files become specs, and never give an agent more than they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agents.agent_file import read_agent as read
from gencode.agents.agent_file import read_agent_file
from gencode.agents.dialects.table import GENCODE
from gencode.core.errors import UserMistake
from gencode.core.rules import Action, Mode, Rule, written_in
from gencode.core.spec import AgentSpec, ToolChoice


def read_agent(text: str, path: str, *, builtin: bool = False) -> AgentSpec:
    return read(text, path, GENCODE, builtin=builtin)


def agent(block: str, body: str = "", path: str = "agents/tester.md") -> AgentSpec:
    return read_agent(f"---\ndescription: d\n{block}\n---\n{body}", path)


def refusal(block: str) -> str:
    with pytest.raises(UserMistake) as caught:
        agent(block)
    return str(caught.value)


def test_every_field_of_the_dialect_is_read():
    text = """---
name: ml engineer
description: |
  Trains models.
  Use it for data too.
model: anthropic/some-model
permission-mode: dontAsk
max-turns: 12
tools:
  mode: allowlist
  allow:
    - Read
    - Bash
  deny: [Bash]
permissions:
  allow: ["Bash(git status:*)"]
  ask: [Write]
  deny: ["bash:rm -rf:*", "Read(secrets, all/**)"]
result-cap: 4000
effort: low
override: true
---

# Instructions

Validate first.
"""
    assert read_agent(text, "a/b.md", builtin=True) == AgentSpec(
        name="ml engineer",
        description="Trains models.\nUse it for data too.",
        prompt="# Instructions\n\nValidate first.",
        tools=ToolChoice(("Read", "Bash"), ("Bash",)),
        model="anthropic/some-model",
        mode=Mode.DONT_ASK,
        max_turns=12,
        result_cap=4000,
        effort="low",
        rules=(
            Rule("Bash", "git status:*", Action.ALLOW, written_in("a/b.md")),
            Rule("Write", "*", Action.ASK, written_in("a/b.md")),
            Rule("bash", "rm -rf:*", Action.DENY, written_in("a/b.md")),
            Rule("Read", "secrets, all/**", Action.DENY, written_in("a/b.md")),
        ),
        source="a/b.md",
        builtin=True,
        override=True,
    )


def test_a_file_with_only_a_description_takes_every_default():
    assert agent("") == AgentSpec("tester", "d", source="agents/tester.md")


def test_unknown_fields_are_kept_with_a_warning():
    spec = agent("shape: round\nweight: 0.2")
    assert spec.extra == {"shape": "round", "weight": "0.2"}
    assert spec.warnings == (
        "the field 'shape' is not known and has no effect",
        "the field 'weight' is not known and has no effect",
    )


def test_there_is_an_end_to_warnings():
    warnings = agent("\n".join(f"field{n}: 1" for n in range(100))).warnings
    assert (len(warnings), warnings[-1]) == (21, "and 80 more warnings")


def test_fields_may_be_spelled_in_other_ways():
    spec = agent("permissionMode: accept-edits\nmax_turns: '7'")
    assert (spec.mode, spec.max_turns) == (Mode.ACCEPT_EDITS, 7)


def test_a_name_of_digits_is_a_text():
    assert agent("name: 42").name == "42"


@pytest.mark.parametrize(
    ("block", "choice"),
    [
        ("", ToolChoice()),
        ("tools: Read, Grep , Read", ToolChoice(("Read", "Grep"))),
        ("tools: [Read, 'Grep, Glob']", ToolChoice(("Read", "Grep", "Glob"))),
        ("tools: '*'", ToolChoice()),
        ("tools: *", ToolChoice()),
        ("tools: []", ToolChoice(())),
        ("tools:", ToolChoice(())),
        ("tools: ''", ToolChoice(())),
        ("tools: ', ,'", ToolChoice(())),
        ("tools: [NoSuchTool]", ToolChoice(("NoSuchTool",))),
        ("tools: {mode: allowlist}", ToolChoice(())),
        ("tools: {}", ToolChoice(())),
        ("tools: {allow: Read}", ToolChoice(("Read",))),
        ("tools: {allow: []}", ToolChoice(())),
        ("tools: {mode: denylist, deny: [Write, Edit]}", ToolChoice(None, ("Write", "Edit"))),
        ("tools: {deny: [Write]}", ToolChoice(None, ("Write",))),
        ("tools: {mode: denylist, deny: '*'}", ToolChoice(())),
        ("tools: {mode: denylist}", ToolChoice()),
        ("allowed-tools: Read", ToolChoice(("Read",))),
        ("allowedTools:", ToolChoice(())),
        ("disallowedTools: [Bash]", ToolChoice(None, ("Bash",))),
        ("tools: Read, Bash\ndisallowed-tools: Bash", ToolChoice(("Read", "Bash"), ("Bash",))),
        ("tools: Bash(git log, git show), Read", ToolChoice(("Bash", "Read"))),
    ],
)
def test_tools_are_chosen_as_written(block: str, choice: ToolChoice):
    assert agent(block).tools == choice


def test_taking_away_some_calls_of_a_tool_becomes_a_deny_rule():
    spec = agent("tools: {mode: denylist, deny: [Write, 'Bash(rm, -r)']}")
    assert spec.tools == ToolChoice(None, ("Write",))
    assert spec.rules == (Rule("Bash", "rm, -r", Action.DENY, written_in("agents/tester.md")),)


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        (
            "permission-mode: bypassPermissions",
            "agents/tester.md, line 3: There is no permission mode 'bypassPermissions'. "
            "There are: acceptEdits, default, dontAsk, plan, unattended.",
        ),
        (
            "x: 1\nmaxTurns: many",
            "agents/tester.md, line 4: max-turns must be a whole number from 1 to 10000.",
        ),
        ("max-turns: 0", "agents/tester.md, line 3: max-turns must be a whole number from 1 to 10000."),
        ("max-turns: -3", "agents/tester.md, line 3: max-turns must be a whole number from 1 to 10000."),
        ("max-turns: true", "agents/tester.md, line 3: max-turns must be a whole number from 1 to 10000."),
        ("result-cap: 1", "agents/tester.md, line 3: result-cap must be a whole number from 100 to 100000."),
        (
            "max-turns: 1\nmaxTurns: 2",
            "agents/tester.md, line 4: max-turns is given twice, as max-turns and maxTurns.",
        ),
        ("model: [a, b]", "agents/tester.md, line 3: model must be a text."),
        ("name: true", "agents/tester.md, line 3: name must be a text."),
        (
            "name: ../../etc",
            "agents/tester.md, line 3: '../../etc' cannot be a name; use letters, digits, spaces, - and _.",
        ),
        (
            'name: "a\\u202eb"',
            "agents/tester.md, line 3: 'a\\u202eb' cannot be a name; use letters, digits, spaces, - and _.",
        ),
        (
            "name: '--'",
            "agents/tester.md, line 3: '--' cannot be a name; use letters, digits, spaces, - and _.",
        ),
        (f"name: {'n' * 65}", "agents/tester.md, line 3: the name is longer than 64 characters."),
        (
            "permissions: {alow: [Read]}",
            "agents/tester.md, line 3: permissions has no part 'alow', only allow, ask, deny.",
        ),
        ("permissions: Read", "agents/tester.md, line 3: permissions must hold allow, ask, deny."),
        (
            "permissions: {deny: ['(x)']}",
            "agents/tester.md, line 3: '(x)' is not a rule; write it as Tool, Tool(pattern) or tool:pattern.",
        ),
        (
            "permissions: {deny: [{Bash: rm}]}",
            "agents/tester.md, line 3: permissions must be texts, not {'Bash': 'rm'}; use quotes.",
        ),
        (
            "tools: {mode: denylist, allow: [Read]}",
            "agents/tester.md, line 3: tools.allow contradicts the mode denylist; take one of them out.",
        ),
        (
            "tools: {mode: some}",
            "agents/tester.md, line 3: tools.mode must be allowlist or denylist, not 'some'.",
        ),
        (
            "tools: {read: true}",
            "agents/tester.md, line 3: tools has no part 'read', only mode, allow, deny.",
        ),
        ("override: yes please", "agents/tester.md, line 3: override must be true or false."),
        ("tools: 3", "agents/tester.md, line 3: tools must be texts, not 3; use quotes."),
        (
            "tools: Read\nallowed-tools: Bash",
            "agents/tester.md, line 4: tools and allowed-tools are both given; keep tools.",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_the_place_and_the_reason(block: str, sentence: str):
    assert refusal(block) == sentence


def test_a_page_without_name_and_description_is_no_agent():
    with pytest.raises(UserMistake, match="neither name nor description, so it is no agent"):
        read_agent("---\ntitle: Notes\n---\nHello", "notes.md")


def test_what_cannot_be_seen_is_taken_out_with_a_warning():
    spec = read_agent(
        '---\nname: x\ndescription: "Safe\\u200b\\e[2K agent"\n---\nDo\u202e this\U000e0041.', "x.md"
    )
    assert (spec.description, spec.prompt) == ("Safe[2K agent", "Do this.")
    assert spec.warnings == (
        "invisible characters were removed from its description",
        "invisible characters were removed from its text",
    )


def test_an_agent_without_a_description_warns_that_nobody_will_send_it():
    assert read_agent("---\nname: x\n---\n", "x.md").warnings == (
        "it has no description, so no agent will know when to use it",
    )


def test_an_empty_choice_of_tools_is_pointed_out():
    assert agent("tools: []").warnings == ("its list of tools is empty, so it has none",)
    assert agent("tools: {allow: []}").warnings == ("its list of tools is empty, so it has none",)


NAMES = st.lists(st.sampled_from(["Read", "Bash", "Nope", "", " ", "Bash(a, b)"]), max_size=4)


@given(NAMES, st.booleans(), st.booleans())
def test_a_list_of_tools_never_becomes_all_tools(names: list[str], as_text: bool, nested: bool):
    written = repr(", ".join(names)) if as_text else repr(names)
    spec = agent(f"tools: {{allow: {written}}}" if nested else f"tools: {written}")
    meant = [name.partition("(")[0] for name in names if name.strip()]
    assert spec.tools.allow == tuple(dict.fromkeys(meant))


@given(
    st.sampled_from(["name", "model", "tools", "permissions", "permission-mode", "max-turns", "description"]),
    st.text(st.characters(codec="utf-8"), max_size=40),
)
def test_any_value_is_read_or_refused(field: str, value: str):
    try:
        spec = read_agent(f"---\nname: x\n{field}: {value}\n---\n", "x.md")
    except UserMistake as error:
        assert str(error).startswith("x.md")
    else:
        assert spec.name.isprintable()
        assert "/" not in spec.name


@pytest.mark.parametrize(
    ("text", "effort"), [("low", "low"), ("Medium", "medium"), ('"high"', "high"), ("", None), ("~", None)]
)
def test_an_agent_may_say_how_hard_it_thinks(text: str, effort: str | None) -> None:
    assert (agent(f"effort: {text}").effort, agent(f"effort: {text}").warnings) == (effort, ())


@pytest.mark.parametrize("text", ["xhigh", "max"])
def test_more_effort_than_there_is_here_is_the_most_there_is(text: str) -> None:
    read = agent(f"effort: {text}")
    assert (read.effort, read.warnings) == (
        "high",
        (f"effort {text} was read as high, which is the most there is here",),
    )


@pytest.mark.parametrize("text", ["extreme", "3", "none", "highest"])
def test_an_effort_that_nobody_knows_is_an_error(text: str) -> None:
    assert f"effort must be one of low, medium, high, not '{text}'" in refusal(f"effort: {text}")


@pytest.mark.parametrize("text", ["true", "[low]", "{a: low}"])
def test_an_effort_that_is_no_word_is_an_error(text: str) -> None:
    assert "effort must be a text" in refusal(f"effort: {text}")


def test_every_mistake_of_a_file_is_named_with_its_line():
    block = "max-turns: -3\ntols: Read\npermission-mode: wild\nbackground: perhaps"
    file = read_agent_file(f"---\nname: tester\ndescription: d\n{block}\n---\nx".encode(), "t.md", "gencode")
    assert [line for line in range(1, 9) if f"ine {line}: " in file.why_not] == [4, 6, 7]
    assert [(each.code, each.line) for each in file.findings] == [("unknown-field", 5)]
