"""What a file says about tools gives exactly these, under our names, and never more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agents.tool_lists import EVERY, RequestedTools, ToolSelection, ToolSelector, listed, split_names
from gencode.agents.tool_names import USUAL, known_tools, tools_called
from gencode.core.rules import Action, Mode, Rule, written_in
from gencode.core.spec import ToolChoice

FILE = written_in("f")


def choose(*allow: str, deny: tuple[str, ...] = (), mode: Mode | None = None) -> ToolSelection:
    return ToolSelector("f").choose(RequestedTools(allow, deny), mode)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("Read, Grep ,Read", ["Read", "Grep"]),
        (["Read", "Grep, Glob"], ["Read", "Grep", "Glob"]),
        ("Bash(git log, git show), Agent(a, b)", ["Bash(git log, git show)", "Agent(a, b)"]),
        ("Read Grep Bash", ["Read", "Grep", "Bash"]),
        ("Read the files", ["Read the files"]),
        ("- Read\n- Grep\n", ["Read", "Grep"]),
        ("['Read', \"Grep\"]", ["Read", "Grep"]),
        ([{"name": "Read"}, {"Bash": "x"}, True, None, 7], ["Read", "Bash", "7"]),
        (None, []),
        (False, []),
        (True, None),
        (7, None),
        ({"Read": True}, None),
    ],
)
def test_names_are_taken_from_every_shape(value: object, names: list[str] | None):
    assert listed(value) == names


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("read_file ReadFile fs_read read/readFile READ", "Read"),
        ("Shell run_shell_command execute/runInTerminal terminal bash", "Bash"),
        ("Agent task runSubagent", "Task"),
        ("MultiEdit replace StrReplaceFile edit/editFiles", "Edit"),
        ("grep_search search_file_content", "Grep"),
        ("list_directory list ls", "LS"),
        ("google_web_search SearchWeb", "WebSearch"),
        ("KillBash", "KillShell"),
    ],
)
def test_tools_of_all_products_have_a_name_here(theirs: str, ours: str):
    assert {tools_called(name) for name in theirs.split()} == {(ours,)}


def test_a_tool_that_can_do_less_than_ours_stands_for_none_of_them():
    assert [tools_called(name) for name in ("NotebookEdit", "runTests", "edit/createDirectory")] == [()] * 3


def test_every_tool_of_ours_stands_for_itself():
    assert {name: tools_called(name) for name in known_tools()} == {name: (name,) for name in known_tools()}


def test_what_is_not_known_stays_as_it_is_written_and_is_pointed_out():
    found = choose("Read", "codebase_map")
    assert found.choice == ToolChoice(("Read", "codebase_map"))
    assert [each.code for each in found.findings] == ["tool-unknown"]


def test_a_list_in_which_nothing_is_known_gives_nothing():
    found = choose("Foo", "Bar(x)")
    assert found.choice == ToolChoice(("Foo", "Bar(x)"))
    assert [each.code for each in found.findings] == ["tool-unknown", "tool-unknown", "tools-unresolved"]


def test_a_pattern_is_the_tool_with_everything_else_asked():
    found = choose("Bash(git *)", "Write", "Read")
    assert found.choice == ToolChoice(("Bash", "Write", "Read"))
    assert found.mode is Mode.DEFAULT
    assert found.rules == (
        Rule("Bash", "git *", Action.ALLOW, FILE),
        Rule("Bash", "*", Action.ASK, FILE, ("git *",)),
        Rule("Write", "*", Action.ALLOW, FILE),
        Rule("Read", "*", Action.ALLOW, FILE),
    )


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.UNATTENDED])
def test_a_pattern_leaves_a_mode_alone_that_asks_about_commands_anyway(mode: Mode):
    found = choose("Bash(git *)", mode=mode)
    limits = (Rule("Bash", "git *", Action.ALLOW, FILE), Rule("Bash", "*", Action.ASK, FILE, ("git *",)))
    assert (found.mode, found.rules) == (mode, limits)


def test_a_pattern_does_not_go_together_with_full_autonomy():
    found = choose("Bash(git *)", mode=Mode.DONT_ASK)
    assert (found.mode, [each.code for each in found.findings]) == (
        Mode.DEFAULT,
        ["tool-pattern", "mode-narrowed"],
    )


@pytest.mark.parametrize(
    ("entry", "tool", "mode"),
    [
        ("Read(src/**)", "Read", None),
        ("Skill(pdf)", "Skill", None),
        ("WebFetch(domain:x.org)", "WebFetch", Mode.PLAN),
        ("Edit(docs/**)", "Edit", Mode.ACCEPT_EDITS),
        ("mcp__s__t(x)", "mcp__s__t", None),
    ],
)
def test_a_tool_that_cannot_be_kept_to_a_pattern_is_always_asked(entry: str, tool: str, mode: Mode | None):
    found = choose(entry, mode=mode)
    assert (found.choice.allow, found.rules, found.mode) == (
        (tool,),
        (Rule(tool, "*", Action.ASK, FILE),),
        mode,
    )


@pytest.mark.parametrize("entry", ["Bash(*)", "Bash(:*)", "Bash()"])
def test_a_pattern_for_everything_is_the_whole_tool(entry: str):
    assert choose(entry) == ToolSelection(ToolChoice(("Bash",)))


def test_a_tool_named_as_a_whole_is_not_limited_by_a_pattern_beside_it():
    assert choose("Bash", "Bash(git *)").rules == ()


def test_agents_in_parentheses_are_those_that_may_be_sent():
    found = choose("Task(Explore, Plan)", "Agent(my-scout)")
    assert (found.choice.allow, found.sends, found.rules) == (("Task",), ("Explore", "Plan", "my-scout"), ())


def test_tools_of_servers_are_kept():
    found = choose("mcp__github__*", "mcp__linear", "mcp__a__b")
    assert found == ToolSelection(ToolChoice(("mcp__github__*", "mcp__linear", "mcp__a__b")))


def test_what_is_taken_away_is_a_tool_or_a_rule():
    found = ToolSelector("f").choose(
        RequestedTools(None, ("Shell(rm *)", "WriteFile", "mcp__*", "Agent(x)")), None
    )
    assert found.choice == ToolChoice(None, ("Write", "mcp__*"))
    assert found.rules == (Rule("Bash", "rm *", Action.DENY, FILE), Rule("Task", "x", Action.DENY, FILE))


def test_taking_everything_away_leaves_nothing():
    assert choose("Read", deny=("*",)).choice == ToolChoice(())


WORDS = st.sampled_from(
    ["Read", "Bash(git *)", "Foo", "(", ")", "a(b", "*x", "mcp__*", "Task(x)", "", " ", "@"]
)


@given(st.lists(WORDS | st.text(max_size=12), max_size=5), st.sampled_from([None, *Mode]))
def test_no_list_without_a_star_gives_all_tools(names: list[str], mode: Mode | None):
    entries = tuple(name for each in names for name in split_names(each))
    found = ToolSelector("f").choose(RequestedTools(entries), mode)
    assert (found.choice.allow is None) is (EVERY in entries)
    assert found.mode in (mode, Mode.DEFAULT)


def test_words_for_several_tools_count_where_a_dialect_knows_them():
    chooser = ToolSelector("f", ("edit", "search", "@builtin"), servers="/")
    assert chooser.called("edit") == ("Edit", "Write")
    assert chooser.called("search") == ("Grep", "Glob")
    assert chooser.called("@builtin") == USUAL
    assert chooser.called("@git/status") == ("mcp__git__status",)
    assert ToolSelector("f").called("search") == ()
