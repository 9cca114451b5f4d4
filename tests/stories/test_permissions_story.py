"""A person wonders why something was asked, finds the way out, and checks whole files of cases."""

from pathlib import Path

from tests.interfaces.cli.running import gen, script

from gencode.app import components
from gencode.core.events import CallDecided
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.rules import Action, Mode
from gencode.core.task import transcript_of
from gencode.testing import call, says, scripted

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.jsonl"))

AUTONOMOUS = """---
name: autonomous
description: Does everything without asking.
permission-mode: dontAsk
---
Work.
"""


def test_a_person_asks_why_git_push_is_asked_and_finds_the_way_out(tmp_path: Path) -> None:
    words = ("permissions", "explain", "--tool", "Bash", "--input", '{"command":"git push"}')
    first = gen(*words, cwd=tmp_path)
    assert (first.code, first.out.splitlines()[0]) == (0, 'ask: Bash {"command": "git push"}')
    assert '--allow "Bash(git push)"' in first.out
    second = gen(*words, "--allow", "Bash(git push)", "--json", cwd=tmp_path).json
    assert second["decision"] == "allow"
    assert second["rule"] == "allow Bash(git push) from the flag --allow"
    third = gen(*words, "--background", "--deny", "Bash(git push:*)", "--json", cwd=tmp_path).json
    assert (third["decision"], third["rule"]) == ("deny", "deny Bash(git push:*) from the flag --deny")


def test_a_person_checks_the_cases_of_the_specification_and_all_hold(tmp_path: Path) -> None:
    assert len(CASES) == 3
    ended = gen("permissions", "check", *map(str, CASES), cwd=tmp_path)
    assert ended.code == 0, ended.out
    assert [line.rpartition("; ")[2] for line in ended.out.splitlines()] == ["all as expected."] * 3


async def test_an_agent_with_a_wider_mode_runs_under_its_senders_ceiling_and_is_told(
    tmp_path: Path, home: Path
) -> None:
    (home / ".gen" / "agents").mkdir(parents=True)
    (home / ".gen" / "agents" / "autonomous.md").write_text(AUTONOMOUS)
    (tmp_path / ".env").write_text("KEY=1\n")
    send = says("", call("Task", subagent_type="autonomous", prompt="read the keys"))
    reads = [says("", call("Read", file_path=".env")), says("I could not.")]
    async with scripted(tmp_path, main=[send, says("done")], autonomous=reads) as gen_:
        outcome = await gen_.ask("go").outcome()
        (child,) = await gen_.tasks(parent=outcome.agent_id)
        events = await components(gen_).store.events(child.agent_id)
        task = await components(gen_).store.task(child.agent_id)
    told = [message for message in transcript_of(events) if isinstance(message, UserMessage)]
    assert [message.sender for message in told] == ["user", "system"]
    assert "no wider mode was approved" in told[1].text
    assert told[1].text in child.evidence.warnings
    (decided,) = [event.fact for event in events if isinstance(event.fact, CallDecided)]
    assert (decided.decision.action, decided.decision.policy) == (Action.DENY, "session")
    assert decided.chain == ("session: default", "agent autonomous: dontAsk")
    assert task is not None
    assert (task.created.grant, [policy.mode for policy in task.created.policies]) == (
        None,
        [Mode.DEFAULT, Mode.DONT_ASK],
    )


async def test_a_rule_that_was_written_with_a_link_holds_for_every_tool_and_travels_with_the_agent(
    tmp_path: Path,
) -> None:
    repo, link = tmp_path / "repo", tmp_path / "link"
    (repo / "secret").mkdir(parents=True)
    (repo / "secret" / "key.txt").write_text("topsecret\n")
    link.symlink_to(repo)
    tries = [
        *(call("Read", file_path=name) for name in ("secret/key.txt", f"{repo}/secret/key.txt")),
        *(call("Bash", command=f"cat {name}") for name in ("secret/key.txt", f"{repo}/secret/key.txt")),
        call("Grep", pattern="topsec", output_mode="content"),
    ]
    turns = [says("", *tries), says("I could not.")]
    rules = {"deny": [f"Read({link}/secret/**)"]}
    async with scripted(link, settings=rules, general_purpose=turns) as gen_:
        found = await gen_.task("general-purpose", "read it")
        events = await components(gen_).store.events(found.agent_id)
        task = await components(gen_).store.task(found.agent_id)
    decided = [event.fact.decision.action for event in events if isinstance(event.fact, CallDecided)]
    assert decided == [*[Action.DENY] * 4, Action.ALLOW]
    (told,) = [message for message in transcript_of(events) if isinstance(message, ToolMessage)]
    assert [result.text for result in told.results if "topsecret" in result.text] == []
    assert task is not None
    assert f"{repo}/secret/**" in [rule.pattern for policy in task.created.policies for rule in policy.rules]


HOOKED = """---
name: helper
description: Helps.
hooks:
  SubagentStart:
    - hooks: [{type: command, command: "touch ran"}]
---
Help.
"""


def test_who_may_edit_files_at_home_cannot_make_agents_there_whose_hooks_run(
    tmp_path: Path, home: Path
) -> None:
    """The folder that is worked in is the user's home, where agents count without trust."""
    write = {"name": "Write", "input": {"file_path": ".claude/agents/helper.md", "content": HOOKED}}
    send = {"name": "Task", "input": {"subagent_type": "helper", "prompt": "help"}}
    turns = [{"calls": [write]}, {"calls": [send]}, {"text": "done"}]
    model = script(tmp_path, main=turns, helper=[{"text": "helped"}])
    ended = gen("-p", "go", "--permission-mode", "acceptEdits", "--model", model, cwd=home)
    assert ended.code == 0, ended.err
    assert not (home / ".claude").exists()
    assert not (home / "ran").exists()
