"""Every row of the table for tools that take no path and no command, in every mode."""

from pathlib import Path
from typing import Any

import pytest

from gencode.core.rules import Action, DecidedBy, Decision, Mode, Policy, Remedy, parse_rule
from gencode.core.spec import Workspace
from gencode.permissions.calls import Approval, CallFacts, approval_for
from gencode.permissions.decision import NEEDS_APPROVAL, decide, granted

WHERE = Workspace(Path("/ws"), Path("/ws"), Path("/home/me"))
ROOT = Policy(Mode.DONT_ASK, owner="root")


def facts(tool: str, given: dict[str, Any] | None = None, **more: Any) -> CallFacts:
    known: dict[str, Any] = {"tool": tool, "input": given or {}, "effect": "read", "workspace": WHERE}
    return CallFacts(**known | more)


def policy(*rules: str, mode: Mode = Mode.DEFAULT, owner: str = "session") -> Policy:
    parsed = (text.partition(" ") for text in rules)
    return Policy(mode, tuple(parse_rule(rule, Action(action)) for action, _, rule in parsed), owner)


def row(call: CallFacts) -> tuple[str, ...]:
    """The decisions in default, acceptEdits, plan and dontAsk."""
    modes = (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK)
    return tuple(decide(call, [Policy(mode)]).action.value for mode in modes)


ALLOWED = ("allow", "allow", "allow", "allow")
DENIED = ("deny", "deny", "deny", "deny")
FREE = [
    "get_env",
    "TodoWrite",
    "ToolSearch",
    "ToolUse",
    "notify",
    "current_time",
    "sleep",
    "json_query",
    "base64_encode",
    "memory_list",
    "memory_read",
    "task_list",
    "task_replay",
    "Skill",
    "AskUserQuestion",
    "WebSearch",
]
URL = {"url": "https://Docs.Example.com./page"}


@pytest.mark.parametrize("tool", FREE)
def test_free_tools_are_allowed_in_every_mode(tool: str) -> None:
    assert row(facts(tool)) == ALLOWED


@pytest.mark.parametrize("tool", ["TaskOutput", "TaskStop", "SendMessage", "KillShell"])
def test_ones_own_tasks_are_allowed_and_anybody_elses_denied(tool: str) -> None:
    assert (row(facts(tool, own=True)), row(facts(tool))) == (ALLOWED, DENIED)


def test_a_message_to_kin_needs_a_file_that_names_the_tool() -> None:
    named = frozenset({"SendMessage", "TaskStop"})
    assert row(facts("SendMessage", kin=True, named=named)) == ALLOWED
    assert row(facts("SendMessage", kin=True)) == DENIED
    assert row(facts("TaskStop", kin=True, named=named)) == DENIED


def test_file_info_is_judged_as_a_listing() -> None:
    assert row(facts("get_file_info", {"path": "/ws/.env"})) == ALLOWED
    assert row(facts("get_file_info", {"path": "/srv/x"})) == ("ask", "ask", "ask", "allow")
    assert decide(facts("get_file_info", {"path": "/ws/a"}), [policy("deny LS(a)")]).action == "deny"
    assert decide(facts("get_file_info", {"path": "/ws/a"}), [policy("ask get_file_info")]).action == "ask"


def test_tools_of_plugins_are_judged_by_their_effect() -> None:
    assert row(facts("count_lines", source="plugin")) == ALLOWED
    for effect in ("write", "execute", "delegate"):
        assert row(facts("deploy", source="plugin", effect=effect)) == ("ask", "ask", "deny", "allow")


def test_a_plugin_that_bears_a_builtin_name_satisfies_both_rows() -> None:
    call = facts("Read", {"file_path": "/ws/.env"}, source="plugin")
    assert row(call) == ("ask", "ask", "ask", "allow")
    assert row(facts("Bash", {"command": "make"}, source="plugin")) == ("ask", "ask", "deny", "allow")


@pytest.mark.parametrize("tool", ["WebFetch", "http_get"])
def test_fetching_asks_once_per_host(tool: str) -> None:
    call = facts(tool, URL)
    assert approval_for(call) == Approval("host", "docs.example.com")
    assert row(call) == ("ask", "ask", "ask", "allow")
    assert row(facts(tool, URL, already=frozenset({Approval("host", "docs.example.com")}))) == ALLOWED
    assert row(facts(tool, URL, already=frozenset({Approval("host", "example.com")}))) == (
        "ask",
        "ask",
        "ask",
        "allow",
    )


@pytest.mark.parametrize("tool", ["WebFetch", "http_get"])
@pytest.mark.parametrize("source", ["builtin", "plugin"])
@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://localhost/", "http://169.254.169.254/latest/", "http://u:p@x.org/"),
        *("file:///etc/passwd", "http://x.org:22/", "http://2130706433/", "http://x.org\\@y.org/"),
        *("nonsense", 7, None),
    ],
)
def test_a_url_that_may_never_be_fetched_is_denied_whatever_a_policy_says(
    tool: str, source: str, url: object
) -> None:
    already = frozenset({Approval("host", host) for host in ("", "127.0.0.1", "localhost", "x.org")})
    call = facts(tool, {} if url is None else {"url": url}, already=already, source=source)
    assert row(call) == DENIED
    assert decide(call, [policy(f"allow {tool}", "allow *")]).action == "deny"
    assert decide(call, [ROOT, Policy(Mode.PLAN)]).remedy is Remedy.NOTHING


def test_a_url_that_is_denied_says_why_without_asking_anybody() -> None:
    call = facts("WebFetch", {"url": "http://127.0.0.1/"})
    assert decide(call, [Policy()]) == Decision(
        Action.DENY,
        "WebFetch: 'http://127.0.0.1/' is not fetched: 127.0.0.1 is no public address.",
        policy="session",
        remedy=Remedy.NOTHING,
    )


def test_a_url_without_a_host_is_never_remembered() -> None:
    for url in ("nonsense", "http://[", 7):
        assert approval_for(facts("WebFetch", {"url": url})) is None


def test_plan_as_a_childs_own_mode_leaves_fetching_to_its_ancestors() -> None:
    plan = Policy(Mode.PLAN)
    assert decide(facts("WebFetch", URL), [ROOT, plan]).action == "allow"
    assert decide(facts("WebFetch", URL), [Policy(), plan]).action == "ask"
    assert decide(facts("WebFetch", URL), [plan, plan]).action == "ask"
    assert decide(facts("WebFetch", URL), [ROOT, plan, ROOT]).action == "ask"


SPAWNS: list[tuple[str, dict[str, Any], Approval]] = [
    ("Task", {"subagent_type": "My Agent"}, Approval("agent", "myagent")),
    ("spawn", {"task": "x"}, Approval("agent", "generalpurpose")),
    ("spawn_subagent", {"input": "x"}, Approval("agent", "generalpurpose")),
    ("spawn_subagent", {"type": "planner"}, Approval("agent", "plan")),
]


@pytest.mark.parametrize(("tool", "given", "key"), SPAWNS)
def test_spawning_is_free_for_builtin_readers_and_asked_once_for_others(
    tool: str, given: dict[str, Any], key: Approval
) -> None:
    assert approval_for(facts(tool, given)) == key
    assert row(facts(tool, given, agent_kind="builtin-reader")) == ALLOWED
    assert row(facts(tool, given, agent_kind="other")) == ("ask", "ask", "ask", "allow")
    assert row(facts(tool, given)) == ("ask", "ask", "ask", "allow")
    assert row(facts(tool, given, agent_kind="other", already=frozenset({key}))) == ALLOWED


@pytest.mark.parametrize("how", [{"answerable": False}, {"background": True}])
def test_where_nobody_can_be_asked_spawning_is_allowed_without_a_grant(how: dict[str, Any]) -> None:
    given = {"subagent_type": "mine"}
    assert row(facts("Task", given, agent_kind="other", **how)) == ALLOWED
    ruled = decide(facts("Task", given, agent_kind="other", **how), [policy("ask Task")])
    assert ruled.action == "deny"


def test_below_an_unattended_root_spawning_is_allowed_but_an_unattended_child_frees_nobody() -> None:
    call = facts("Task", {"subagent_type": "mine"}, agent_kind="other")
    assert decide(call, [Policy(Mode.UNATTENDED), Policy()]).action == "allow"
    assert decide(call, [Policy(), Policy(Mode.UNATTENDED)]).action == "deny"


@pytest.mark.parametrize("tool", ["delete_file", "move_file"])
def test_deleting_and_moving_are_judged_as_writing_for_each_path(tool: str) -> None:
    assert row(facts(tool, {"path": "/ws/a"})) == ("ask", "allow", "deny", "allow")
    assert row(facts(tool, {"source": "/ws/a", "destination": "/ws/.git/x"})) == DENIED
    assert row(facts(tool, {"source": "/srv/a", "destination": "/ws/b"})) == ("ask", "ask", "deny", "allow")
    assert row(facts(tool, {})) == DENIED
    assert decide(facts(tool, {"path": "/ws/a"}), [policy("allow Write(./a)")]).action == "allow"


@pytest.mark.parametrize(("scope", "action"), [("user", "ask"), ("project", "allow"), ("agent", "allow")])
def test_an_agent_of_a_project_keeps_no_notes_for_other_folders_unasked(scope: str, action: str) -> None:
    named = frozenset({"memory_write"})
    call = facts("memory_write", {"scope": scope}, named=named, of_project=True)
    assert decide(call, [Policy(Mode.PLAN)]).action == action


@pytest.mark.parametrize("tool", ["memory_write", "memory_patch", "memory_append"])
def test_memory_is_written_by_agents_whose_file_names_the_tool(tool: str) -> None:
    assert row(facts(tool)) == ("ask", "ask", "ask", "allow")
    assert row(facts(tool, named=frozenset({tool}))) == ALLOWED


@pytest.mark.parametrize(
    "tool", ["http_post", "http_request", "message", "cron", "set_env", "mcp__git__push"]
)
def test_reaching_out_asks_once_per_tool_and_is_denied_in_plan(tool: str) -> None:
    assert row(facts(tool)) == ("ask", "ask", "deny", "allow")
    assert row(facts(tool, already=frozenset({Approval("tool", tool)}))) == (
        "allow",
        "allow",
        "deny",
        "allow",
    )


def test_an_mcp_tool_approved_as_reading_is_allowed_in_plan_and_asked_in_default() -> None:
    approved = frozenset({Approval("reads", "mcp__x__get")})
    assert row(facts("mcp__x__get", source="mcp", already=approved)) == ("ask", "ask", "allow", "allow")
    assert row(facts("mcp__x__get", source="mcp", effect="write", already=approved))[2] == "deny"


def test_a_tool_nobody_knows_is_asked_even_in_dont_ask() -> None:
    assert row(facts("surprise")) == ("ask", "ask", "ask", "ask")
    assert row(facts("surprise", effect="execute")) == ("ask", "ask", "deny", "ask")
    assert decide(facts("surprise"), [policy("allow surprise")]).action == "allow"


@pytest.mark.parametrize("mode", list(Mode))
def test_deny_and_ask_rules_count_in_every_mode(mode: Mode) -> None:
    assert decide(facts("TodoWrite"), [policy("deny todowrite", mode=mode)]).action == "deny"
    asked = decide(facts("TodoWrite"), [policy("ask TodoWrite", "allow TodoWrite", mode=mode)]).action
    assert asked == ("deny" if mode is Mode.UNATTENDED else "ask")


def test_an_allow_rule_lifts_an_ask_and_never_a_deny() -> None:
    assert decide(facts("http_post"), [policy("allow http_post")]).action == "allow"
    assert decide(facts("http_post"), [policy("allow http_post", mode=Mode.PLAN)]).action == "deny"
    assert decide(facts("TaskStop"), [policy("allow TaskStop")]).action == "deny"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("allow Task(My-Agent)", "allow"),
        ("allow Task(my*)", "allow"),
        ("allow Task(other)", "ask"),
        ("deny Task(my_agent)", "deny"),
        ("deny *(my agent)", "deny"),
        ("ask Task(other)", "ask"),
    ],
)
def test_a_pattern_of_task_names_agents(rule: str, expected: str) -> None:
    call = facts("Task", {"subagent_type": "my agent", "prompt": "go"}, agent_kind="other")
    assert decide(call, [policy(rule)]).action == expected


def test_an_alias_of_an_agent_does_not_slip_past_a_deny_rule() -> None:
    call = facts("Task", {"subagent_type": "general"}, agent_kind="other")
    assert decide(call, [policy("deny Task(general-purpose)")]).action == "deny"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("allow WebFetch(domain:docs.example.com)", "allow"),
        ("allow WebFetch(*.example.com)", "allow"),
        ("allow WebFetch(domain:example.com)", "ask"),
        ("allow WebFetch(https://*)", "ask"),
        ("deny WebFetch(domain:example.com)", "deny"),
        ("deny WebFetch(https://*/page)", "deny"),
        ("deny web_fetch", "deny"),
    ],
)
def test_a_pattern_of_fetching_names_hosts(rule: str, expected: str) -> None:
    assert decide(facts("WebFetch", URL), [policy(rule)]).action == expected


def test_a_deny_pattern_looks_at_every_text_of_an_input() -> None:
    call = facts("mcp__db__run", {"steps": [{"sql": "DROP TABLE users"}]}, source="mcp")
    assert decide(call, [policy("deny mcp__db__run(drop table*)", mode=Mode.DONT_ASK)]).action == "deny"
    assert decide(call, [policy("allow mcp__db__run(DROP*)")]).action == "ask"


def test_deny_rules_know_a_tool_by_its_aliases_and_allow_rules_do_not() -> None:
    read = facts("Read", {"file_path": "/ws/a"}, aliases=("read_file",))
    assert decide(read, [policy("deny read_file")]).action == "deny"
    post = facts("http_post", aliases=("post",))
    assert decide(post, [policy("allow post")]).action == "ask"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((), ("ask", "ask", "deny", "allow")),
        (("allow Bash",), ("allow", "allow", "deny", "allow")),
        (("allow Bash(make:*)",), ("allow", "allow", "deny", "allow")),
        (("allow Bash(make)",), ("ask", "ask", "deny", "allow")),
        (("deny Bash",), DENIED),
        (("ask Bash", "allow Bash"), ("ask", "ask", "deny", "ask")),
        (("allow Bash", "deny Bash(make:*)"), DENIED),
        (("allow Bash", "deny Bash(make clean:*)"), ("ask", "ask", "deny", "ask")),
        (("allow Bash", "deny Read(.env)"), ("ask", "ask", "deny", "ask")),
        (("allow *",), ("allow", "allow", "deny", "allow")),
        (("deny WebFetch",), ("ask", "ask", "deny", "allow")),
    ],
)
def test_a_command_is_judged_by_the_rules_for_commands_and_paths(
    rules: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    modes = (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK)
    call = facts("Bash", {"command": "make $target"}, effect="execute")
    assert tuple(decide(call, [policy(*rules, mode=mode)]).action for mode in modes) == expected


@pytest.mark.parametrize("command", ["", "  ", "ls\x1b[2K", "x" * 32_769, None])
def test_a_command_that_cannot_be_read_is_never_allowed(command: str | None) -> None:
    assert row(facts("Bash", {"command": command})) == ("ask", "ask", "deny", "ask")


@pytest.mark.parametrize("how", [{"answerable": False}, {"background": True}])
def test_what_is_still_asked_is_denied_when_nobody_can_be_asked(how: dict[str, Any]) -> None:
    decision = decide(facts("http_post", **how), [policy(owner="main")])
    assert decision == Decision(
        Action.DENY,
        f"{NEEDS_APPROVAL}. http_post: this tool needs approval once per session.",
        "",
        "main",
        by=DecidedBy.NOBODY,
        offers=(parse_rule("http_post", Action.ALLOW),),
    )


def test_an_unattended_policy_anywhere_in_the_chain_denies_what_is_asked() -> None:
    for chain in (
        [Policy(Mode.UNATTENDED)],
        [Policy(Mode.UNATTENDED), ROOT],
        [ROOT, Policy(Mode.UNATTENDED)],
    ):
        assert decide(facts("http_post"), chain).action == "deny"


def test_the_strictest_policy_of_the_chain_decides_and_is_named() -> None:
    chain = [ROOT, policy("deny http_post", owner="middle"), Policy(Mode.DONT_ASK, owner="child")]
    assert decide(facts("http_post"), chain).policy == "middle"


def test_without_a_policy_nothing_is_allowed() -> None:
    assert decide(facts("TodoWrite"), []).action == "deny"


def test_a_grant_widens_default_and_accept_edits_and_nothing_else() -> None:
    deny = parse_rule("Bash", Action.DENY)
    chain = [Policy(mode, (deny,)) for mode in Mode]
    modes = [policy.mode for policy in granted((*chain, Policy()), Mode.DONT_ASK)]
    assert modes == [Mode.PLAN, Mode.DONT_ASK, Mode.DONT_ASK, Mode.DONT_ASK, Mode.UNATTENDED, Mode.DEFAULT]
    assert all(each.rules == (deny,) for each in granted((*chain, Policy()), Mode.DONT_ASK)[:-1])


def test_a_grant_does_not_reach_over_a_planning_ancestor() -> None:
    call = facts("http_post", grant=Mode.DONT_ASK)
    child = Policy(Mode.DONT_ASK)
    assert decide(call, [Policy(), child]).action == "allow"
    assert decide(call, [Policy(Mode.PLAN), child]).action == "deny"
    assert decide(facts("http_post"), [Policy(), child]).action == "ask"
