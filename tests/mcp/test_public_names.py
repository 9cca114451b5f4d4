"""What tools of servers are called, and which agents get them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.rules import Action, parse_rule
from gencode.core.spec import AgentSpec, ToolChoice
from gencode.mcp.public_names import denies_all, matches, server_labels, tool_names
from tests.mcp.fleet import Fleet, box, offer

FITS = re.compile(r"mcp__(?:(?!__)[A-Za-z0-9_-])+?__[A-Za-z0-9_-]+")


def test_plain_names_stay_as_they_are() -> None:
    assert server_labels(["git", "my-server"]) == {"git": "git", "my-server": "my-server"}
    assert tool_names("git", ["status", "get-x", "a__b"]) == {
        "status": "mcp__git__status",
        "get-x": "mcp__git__get-x",
        "a__b": "mcp__git__a__b",
    }


def test_names_that_would_be_alike_are_told_apart() -> None:
    labels = server_labels(["a b", "a.b", "a_b"])
    assert labels["a_b"] == "a_b"
    assert re.fullmatch(r"a_b_[0-9a-f]{6}", labels["a b"])
    assert len(set(labels.values())) == 3
    names = tool_names("s", ["x/y", "x y", "x_y"])
    assert names["x_y"] == "mcp__s__x_y"
    assert len(set(names.values())) == 3


def test_a_server_cannot_reach_into_the_name_of_another() -> None:
    assert server_labels(["a__b", "a"]) == {"a__b": "a_b", "a": "a"}


NAMES = st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=8)


@given(servers=NAMES, tools=NAMES)
def test_all_names_fit_and_are_different(servers: list[str], tools: list[str]) -> None:
    labels = server_labels(servers)
    names = [name for server in servers for name in tool_names(labels[server], tools).values()]
    assert len(set(names)) == len(servers) * len(tools)
    assert [name for name in names if len(name) > 64 or not FITS.fullmatch(name)] == []


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [
        ("mcp__git", True),
        ("mcp__git__*", True),
        ("mcp__*", True),
        ("mcp__git__git_status", True),
        ("mcp__git__git_*", True),
        ("mcp__gi", False),
        ("mcp__gi__*", False),
        ("mcp__git__git_log", False),
        ("*", True),
    ],
)
def test_patterns(pattern: str, hit: bool) -> None:
    assert matches(pattern, "git", "mcp__git__git_status") is hit


ALL = ["mcp__one__a", "mcp__one__b", "mcp__two__c"]


@pytest.mark.parametrize(
    ("choice", "named", "expected"),
    [
        (ToolChoice(), (), ALL),
        (ToolChoice(("Read",)), (), []),
        (ToolChoice(("Read", "mcp__one__*")), (), ALL[:2]),
        (ToolChoice(("mcp__two",)), (), ALL[2:]),
        (ToolChoice(("mcp__one__a", "mcp__two__c")), (), [ALL[0], ALL[2]]),
        (ToolChoice(("Read",)), ("two",), ALL[2:]),
        (ToolChoice(("Read", "mcp__one__b")), ("one",), [ALL[1]]),
        (ToolChoice(None, ("mcp__one",)), (), ALL[2:]),
        (ToolChoice(None, ("mcp__*",)), ("one",), []),
        (ToolChoice(("mcp__one",), ("mcp__one__a",)), (), [ALL[1]]),
    ],
)
async def test_an_agent_gets_what_its_file_asks_for(
    fleet: Fleet, choice: ToolChoice, named: tuple[str, ...], expected: list[str]
) -> None:
    servers = await fleet.open(
        one=fleet.odd("one", tools=offer("a", "b")), two=fleet.odd("two", tools=offer("c"))
    )
    spec = AgentSpec("agent", "", tools=choice, mcp_servers=named)
    assert list(box(servers, spec)) == expected


@pytest.mark.parametrize(
    ("text", "all_of_it"),
    [
        ("mcp__git", True),
        ("mcp__Git", True),
        ("mcp__git__*", True),
        ("mcp__*", True),
        ("*", True),
        ("mcp__g*", True),
        ("mcp__git__log", False),
        ("mcp__*__log", False),
        ("mcp__gi", False),
        ("mcp__git(x*)", False),
        ("mcp__git__", False),
        ("mcp__git__l*", False),
        ("Bash", False),
    ],
)
def test_a_rule_denies_all_of_a_server_or_not(text: str, all_of_it: bool) -> None:
    assert denies_all(parse_rule(text, Action.DENY), "git") is all_of_it
    assert not denies_all(parse_rule(text, Action.ASK), "git")


async def test_what_an_agent_does_not_get_is_told(fleet: Fleet) -> None:
    servers = await fleet.open(one=fleet.odd("one", tools=offer("a")), gone={"command": "no-such-program"})
    choice = ToolChoice(("Read", "mcp__one__*", "mcp__three__*"))
    spec = AgentSpec("agent", "", tools=choice, mcp_servers=("three", {"bad": {}}), source="agent.md")
    assert servers.warnings(spec) == [
        "The MCP server 'bad' in agent.md needs either a command or a url.",
        "there is no MCP server three",
        "the MCP server gone does not work (the program 'no-such-program' is not installed)",
        "no tool matches mcp__three__*",
    ]
