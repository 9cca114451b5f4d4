"""How servers are written down, and what is wrong with those that cannot be used."""

import json
from typing import Any

import pytest

from gencode.core.errors import UserMistake
from gencode.mcp.definition import (
    FoundServers,
    ServerDefinition,
    all_definitions,
    servers_from_mcp_json,
    servers_from_settings,
    servers_of_agent,
)


def test_a_server_of_the_settings() -> None:
    table = {
        "git": {
            "command": "mcp-server-git",
            "args": ["-r", "."],
            "env": {"A": "b"},
            "cwd": "sub",
            "reads": ["git_*"],
        },
        "web": {
            "url": "https://x.example/mcp",
            "headers": {"Authorization": "Bearer ${T}"},
            "call_seconds": 5,
        },
    }
    assert servers_from_settings(table, "here", users=True) == (
        ServerDefinition("git", "here", "mcp-server-git", ("-r", "."), {"A": "b"}, "sub", reads=("git_*",)),
        ServerDefinition(
            "web",
            "here",
            url="https://x.example/mcp",
            headers={"Authorization": "Bearer ${T}"},
            call_seconds=5.0,
        ),
    )


def test_only_the_user_says_what_reads() -> None:
    table = {"git": {"command": "x", "reads": ["*"]}}
    assert [each.reads for each in servers_from_settings(table, "project", users=False)] == [()]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({}, "needs either a command or a url"),
        ({"command": "a", "url": "https://b.example"}, "either a command or a url"),
        ({"comand": "a"}, "unknown field `comand`.*command"),
        ({"command": ["a"]}, "Expected `str`"),
        ({"command": "a", "args": "b"}, "Expected `array`"),
        ({"command": "a", "env": {"A=B": "c"}}, "'?A=B'? is not a valid variable name"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "a", "type": "sse"}, "the type '?sse'? is not supported"),
        ({"url": "https://a.example", "type": "sse"}, "streamable HTTP"),
        ({"url": "ftp://a.example"}, "not an http or https URL"),
        ({"url": "https://a.example/ b"}, "not an http or https URL"),
        ({"url": "https://[a"}, "is not a valid URL"),
        ({"url": "http://a.example/mcp"}, "needs an https URL"),
        ({"url": "http://127.0.0.1.evil.example/mcp"}, "needs an https URL"),
        ({"url": "https://u:p@a.example"}, "user and password"),
        ({"url": "https://a.example", "headers": {"X": "a\r\nY: b"}}, "the header '?X'? is not allowed"),
        ({"url": "https://a.example", "headers": {"Host": "b"}}, "the header '?Host'? is not allowed"),
        ({"command": "a", "call_seconds": 0}, "seconds must be more than 0"),
        ({"command": "a", "args": ["${{ secrets.X }}"]}, "only variables of the form"),
        ({"command": "a", "args": ["x"] * 300}, "more than 256 parts"),
    ],
)
def test_what_is_wrong_with_a_server_is_said(table: dict[str, Any], why: str) -> None:
    with pytest.raises(UserMistake, match=f"(?s)^The MCP server '?s'? in file.*{why}"):
        servers_from_settings({"s": table}, "file", users=True)


def test_a_server_on_this_machine_needs_no_https() -> None:
    urls = ["http://localhost:1/mcp", "http://127.0.0.1:80", "http://[::1]:8080/x"]
    found = servers_from_settings(
        {str(number): {"url": url} for number, url in enumerate(urls)}, "", users=True
    )
    assert [each.kind for each in found] == ["http"] * 3


def test_variables_are_filled_in_late() -> None:
    (one,) = servers_from_settings(
        {"s": {"command": "${HOME}/x", "args": ["${A:-b c}", "$A", "${A"], "env": {"T": "${T}"}}},
        "",
        users=True,
    )
    filled = one.with_variables({"HOME": "/h", "T": "t"})
    assert (filled.command, filled.args, filled.env) == ("/h/x", ("b c", "$A", "${A"), {"T": "t"})
    assert filled.digest != one.digest
    with pytest.raises(UserMistake, match="needs the variable HOME, which is not set"):
        one.with_variables({})


def test_an_address_is_judged_after_it_was_filled_in() -> None:
    (one,) = servers_from_settings({"s": {"url": "${WHERE}"}}, "", users=True)
    with pytest.raises(UserMistake, match="needs an https URL"):
        one.with_variables({"WHERE": "http://evil.example"})


def test_the_file_of_other_products_is_read() -> None:
    servers = {
        "one": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "x"],
            "env": {"A": "1"},
            "description": "?",
        },
        "two": {"type": "http", "url": "https://x.example", "timeout": 5_000},
        "off": {"command": "x", "disabled": True},
        "bad": {"type": "sse", "url": "https://x.example/sse"},
        "odd": 7,
    }
    assert servers_from_mcp_json(json.dumps({"mcpServers": servers}).encode(), ".mcp.json") == FoundServers(
        (
            ServerDefinition("one", ".mcp.json", "npx", ("-y", "x"), {"A": "1"}),
            ServerDefinition("two", ".mcp.json", url="https://x.example", call_seconds=5.0),
            ServerDefinition("off", ".mcp.json", "x", disabled=True),
        ),
        (
            "The MCP server 'bad' in .mcp.json: the type 'sse' is not supported; "
            "use the URL of its streamable HTTP endpoint.",
            "The MCP server 'odd' in .mcp.json is not an object with a command or a url.",
        ),
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        (b"\xff", "is not valid JSON"),
        (b"[]", "has no object mcpServers"),
        (b" " * 300_000, "is larger than"),
    ],
)
def test_a_file_that_cannot_be_read_brings_nothing(content: bytes, why: str) -> None:
    found = servers_from_mcp_json(content, ".mcp.json")
    assert found.definitions == ()
    assert why in found.problems[0]


def test_an_agents_file_names_servers_or_brings_its_own() -> None:
    names, found = servers_of_agent(("git", {"own": {"command": "x"}}, 7, {"bad": {}}), "agent.md")
    assert names == ("git",)
    assert found.definitions == (ServerDefinition("own", "agent.md", "x"),)
    assert len(found.problems) == 2


def test_servers_of_all_places_add_up_and_the_last_of_a_name_counts() -> None:
    file = json.dumps({"mcpServers": {"a": {"command": "1"}, "b": {"command": "2"}, "bad": {}}}).encode()
    tables = [("user", {"b": {"command": "3"}, "c": {"command": "4", "reads": ["x"]}}, True)]
    tables += [("project", {"c": {"command": "5", "reads": ["*"]}}, False)]
    found = all_definitions(tables, {".mcp.json": file})
    assert found.definitions == (
        ServerDefinition("a", ".mcp.json", "1", sandboxed=True),
        ServerDefinition("b", "user", "3"),
        ServerDefinition("c", "project", "5", sandboxed=True),
    )
    assert len(found.problems) == 1


def test_an_approval_is_for_what_decides_who_is_asked() -> None:
    plain = ServerDefinition("s", command="a", env={"A": "1", "B": "2"})
    same = ServerDefinition("t", "elsewhere", "a", env={"B": "2", "A": "1"}, call_seconds=1, reads=("x",))
    others = [
        ServerDefinition("s", command="b", env=plain.env),
        ServerDefinition("s", command="a", env={"A": "1"}),
        ServerDefinition("s", command="a", env={"A": "1", "B": "3"}),
        ServerDefinition("s", command="a", args=("x",), env=plain.env),
        ServerDefinition("s", command="a", env=plain.env, cwd="/"),
        ServerDefinition("s", url="https://a"),
        ServerDefinition("s", command="a", env=plain.env, network=True),
        ServerDefinition("s", command="a", env=plain.env, write=("~/.cache",)),
    ]
    assert same.digest == plain.digest
    assert len({each.digest for each in (plain, *others)}) == len(others) + 1
