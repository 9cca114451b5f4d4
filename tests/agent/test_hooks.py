"""Hooks at work: real commands that refuse, tell, fail, hang and are stopped."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.processes.living import alive, eventually, new_word

from gencode.agent.hook_settings import Hook, HookEvent, parse_hooks
from gencode.agent.hooks import MOST_GIVEN, MOST_KEPT, HookContext, HookResult, Hooks, hooks_for
from gencode.agent.toolbox import Toolbox, ToolContext, tool
from gencode.core.messages import ToolCall, ToolResult
from gencode.core.spec import Workspace
from gencode.sandbox.processes.command_runner import CommandRunner

CALL = ToolCall("c1", "Edit", {"file_path": "a.py", "text": "ünï \ud800"})


@tool(effect="write", name="Edit", aliases=("MultiEdit",))
async def edit(ctx: ToolContext, file_path: str) -> str:
    """Edit a file."""
    return file_path


class Yard:
    """A place to run hooks in."""

    def __init__(self, commands: CommandRunner, root: Path) -> None:
        self.root = root
        self._commands = commands

    def hooks(self, *hooks: Hook, main: bool = False) -> Hooks:
        workspace = Workspace(self.root, self.root, self.root)
        found = hooks_for(
            HookContext("0000abcd", "tester", workspace, Toolbox([edit]), main), self._commands.run, hooks
        )
        assert found is not None
        return found


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    (tmp_path / "ws").mkdir()
    async with CommandRunner(tmp_path / "state") as commands:
        yield Yard(commands, tmp_path / "ws")


def before(command: str, seconds: float = 10.0) -> Hook:
    return Hook("before", command, seconds=seconds)


def says(answer: Any) -> str:
    return f"cat <<'END'\n{json.dumps(answer)}\nEND"


async def test_a_hook_is_told_what_happens(yard: Yard):
    hooks = yard.hooks(before("cat > given.json; echo $CLAUDE_PROJECT_DIR > folder; pwd > here"))
    assert await hooks.before(CALL) is None
    assert json.loads((yard.root / "given.json").read_text()) == {
        "hook_event_name": "PreToolUse",
        "session_id": "0000abcd",
        "task": "0000abcd",
        "agent": "tester",
        "agent_type": "tester",
        "cwd": str(yard.root),
        "tool_name": "Edit",
        "tool_input": CALL.input,
        "tool_use_id": "c1",
    }
    assert {(yard.root / name).read_text().strip() for name in ("folder", "here")} == {str(yard.root)}


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("true", None),
        ("echo no >&2; exit 2", "no"),
        ("echo only here; exit 2", "only here"),
        ("exit 2", "The hook `exit 2` refused it"),
        (says({"decision": "block", "reason": "because"}), "because"),
        (says({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "x"}}), "x"),
        (says({"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "y"}}), "y"),
        (says({"continue": False, "stopReason": "z"}), "z"),
        (says({"decision": "approve"}), None),
        (says({"hookSpecificOutput": {"permissionDecision": "allow"}}), None),
        (
            says({"hookSpecificOutput": {"permissionDecision": "allow"}, "decision": "block", "reason": "r"}),
            "r",
        ),
        ("echo plain words", None),
        ("echo noise >&2; " + says({"decision": "block", "reason": "heard"}), "heard"),
        ("exit 1", None),
    ],
)
async def test_a_hook_refuses_by_its_exit_code_or_its_answer(yard: Yard, command: str, reason: str | None):
    assert await yard.hooks(before(command)).before(CALL) == reason


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sleep 100", "Timed out after"),
        ("kill -9 $$", "Ended by signal 9"),
        ("./not-there.sh", "Exit code 127."),
        ("echo '{half'", "its answer is not valid JSON"),
    ],
)
async def test_a_hook_that_gives_no_answer_has_not_agreed(yard: Yard, command: str, why: str):
    hooks = yard.hooks(before(command, seconds=0.3))
    reason = await hooks.before(CALL)
    assert reason is not None
    assert reason.startswith(f"The hook `{command}` gave no answer: {why}")
    assert hooks.warnings == [reason]


async def test_after_a_call_such_a_hook_is_only_a_warning(yard: Yard):
    hooks = yard.hooks(Hook("after", "./not-there.sh"))
    assert await hooks.after(CALL, ToolResult("c1", "Edit", "done")) == ""
    assert hooks.warnings == ["The hook `./not-there.sh` gave no answer: Exit code 127."]


async def test_a_hook_that_fails_is_passed_over_with_a_warning(yard: Yard):
    hooks = yard.hooks(before("exit 3"))
    assert (await hooks.before(CALL), hooks.warnings) == (
        None,
        ["The hook `exit 3` failed with exit code 3 and was ignored"],
    )


async def test_a_hook_cannot_change_a_call(yard: Yard):
    hooks = yard.hooks(before(says({"hookSpecificOutput": {"updatedInput": {"file_path": "/etc/passwd"}}})))
    assert await hooks.before(CALL) is None
    assert len(hooks.warnings) == 1
    assert hooks.warnings[0].endswith("wants to change a call, which is not supported")


@pytest.mark.parametrize("name", ["Edit", "edit", "MultiEdit", "multi_edit"])
@pytest.mark.parametrize("matcher", ["edit", "multiedit"])
async def test_no_spelling_of_a_tool_gets_around_a_hook(yard: Yard, name: str, matcher: str):
    hooks = yard.hooks(Hook("before", "exit 2", (matcher,)))
    assert await hooks.before(ToolCall("c", name, {})) is not None


async def test_a_hook_for_another_tool_is_not_run(yard: Yard):
    hooks = yard.hooks(Hook("before", "touch ran; exit 2", ("bash",)))
    assert await hooks.before(CALL) is None
    assert not (yard.root / "ran").exists()


async def test_of_several_objections_the_first_in_their_order_counts(yard: Yard):
    hooks = yard.hooks(before("true"), before("sleep 0.2; echo first >&2; exit 2"), before("exit 2"))
    assert await hooks.before(CALL) == "first"


async def test_keys_are_not_in_the_environment_of_a_hook(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-0123456789abcdef0123")
    monkeypatch.setenv("HARMLESS", "yes")
    assert await yard.hooks(before("env > seen")).before(CALL) is None
    seen = (yard.root / "seen").read_text()
    assert ("HARMLESS=yes" in seen, "0123456789abcdef" in seen) == (True, False)


async def test_what_a_hook_says_is_bounded_and_inert(yard: Yard):
    hooks = yard.hooks(before("printf 'a\\033[2Jb' >&2; head -c 100000 /dev/zero | tr '\\0' x >&2; exit 2"))
    reason = await hooks.before(CALL)
    assert reason is not None
    assert (reason.startswith("a[2Jbx"), len(reason) < 2_200) == (True, True)


async def test_a_call_too_large_to_be_shown_is_refused(yard: Yard):
    reason = await yard.hooks(before("true")).before(ToolCall("c", "Edit", {"text": "x" * MOST_GIVEN}))
    assert reason is not None
    assert "larger than 4,194,304 bytes" in reason


async def test_a_call_of_a_megabyte_is_shown_whole(yard: Yard):
    hooks = yard.hooks(before("wc -c > size"))
    assert await hooks.before(ToolCall("c", "Edit", {"text": "x" * 1_000_000})) is None
    assert int((yard.root / "size").read_text()) > 1_000_000


async def test_after_a_call_the_agent_reads_what_hooks_say(yard: Yard):
    hooks = yard.hooks(
        Hook("after", "echo 'lint failed' >&2; exit 2"),
        Hook("after", says({"hookSpecificOutput": {"additionalContext": "by the way"}})),
        Hook("after", "cat > given.json"),
    )
    assert await hooks.after(CALL, ToolResult("c1", "Edit", "done", error=True)) == "lint failed\nby the way"
    given = json.loads((yard.root / "given.json").read_text())
    assert given["tool_response"] == {"text": "done", "error": True}


async def test_at_the_start_hooks_may_tell_something_or_object(yard: Yard):
    tells = Hook("start", says({"hookSpecificOutput": {"additionalContext": "main is frozen"}}))
    assert await yard.hooks(tells).started() == HookResult(note="main is frozen")
    assert await yard.hooks(Hook("start", "echo closed >&2; exit 2")).started() == HookResult("closed")
    assert await yard.hooks(before("exit 2")).started() == HookResult()


async def test_a_hook_keeps_an_agent_at_work_a_few_times_at_most(yard: Yard):
    hooks = yard.hooks(Hook("stop", "cat >> given; echo >> given; echo more >&2; exit 2"))
    said = [await hooks.stopping("done") for _ in range(MOST_KEPT + 1)]
    assert said == [*["more"] * MOST_KEPT, None]
    given = [json.loads(line) for line in (yard.root / "given").read_text().splitlines()]
    assert [each["stop_hook_active"] for each in given] == [False, *[True] * MOST_KEPT]
    assert {each["last_assistant_message"] for each in given} == {"done"}
    assert hooks.warnings == ["a hook did not let it finish 3 times; then it finished nevertheless"]


@pytest.mark.parametrize(
    ("main", "event", "name"),
    [(True, "stop", "Stop"), (False, "stop", "SubagentStop"), (False, "start", "SubagentStart")],
)
async def test_events_have_the_names_that_hooks_know(yard: Yard, main: bool, event: HookEvent, name: str):
    hooks = yard.hooks(Hook(event, "cat > given"), main=main)
    await (hooks.stopping() if event == "stop" else hooks.started())
    assert json.loads((yard.root / "given").read_text())["hook_event_name"] == name


def test_without_hooks_for_this_seat_there_are_none(tmp_path: Path):
    around = HookContext("0000abcd", "tester", Workspace(tmp_path, tmp_path, tmp_path), Toolbox())
    run = CommandRunner(tmp_path / "state").run
    assert hooks_for(around, run, [Hook("stop", "true", seats="main")]) is None
    assert hooks_for(around, run, []) is None


async def test_a_stop_ends_a_hook_with_all_it_started(yard: Yard):
    word = new_word()
    hooks = yard.hooks(before(f"bash -c 'exec -a {word} sleep 100' & touch began; wait", seconds=60))
    asked = asyncio.create_task(hooks.before(CALL))
    await eventually(lambda: (yard.root / "began").exists() and bool(alive(word)))
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert not alive(word)


async def test_a_hook_that_was_killed_has_not_agreed(yard: Yard):
    refused = await yard.hooks(before("exit 137")).before(CALL)
    assert refused is not None and "it was killed (exit code 137)" in refused


async def test_the_warning_about_a_failed_hook_says_what_it_said(yard: Yard):
    hooks = yard.hooks(before("echo no such rule >&2; exit 1"))
    assert await hooks.before(CALL) is None
    assert hooks.warnings[0].endswith("failed with exit code 1 and was ignored: no such rule")


@pytest.mark.parametrize(
    "written",
    [
        {"PreTolUse": [{"hooks": [{"command": "true"}]}]},
        {"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "Good?"}]}]},
        {"PreToolUse": [{"hooks": [{"command": ["sh", "-c", "true"]}]}]},
        ["exit 2"],
    ],
)
async def test_a_guard_that_cannot_be_run_refuses_what_it_should_have_judged(yard: Yard, written: object):
    found = parse_hooks(written, of_agent=True)
    refused = await yard.hooks(*found.hooks).before(CALL)
    assert refused is not None and "has no effect" in refused.replace("they have", "it has")
    assert found.lost == found.findings
