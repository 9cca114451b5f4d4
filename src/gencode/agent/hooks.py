"""Runs hooks: the commands that settings or an agent's file attach to tool calls, starts and ends.

They get the event as JSON on their input, run as commands of Bash do (in the sandbox, without keys, ended
with everything they started), and may refuse a call: with exit code 2 or with the answer `{"decision":
"block", "reason": "…"}`. Nothing they answer allows anything. A hook before a call that does not end by
itself has not agreed, so that call is refused as well. Only the user's own files and those of a trusted
project have hooks.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from gencode.agent.hook_settings import Hook, HookEvent
from gencode.agent.toolbox import Toolbox
from gencode.core.errors import ToolError
from gencode.core.messages import ToolCall, ToolResult
from gencode.core.spec import Workspace
from gencode.core.text import clip, inert, one_line

if TYPE_CHECKING:
    from gencode.sandbox.processes.command import Command, CommandOutcome

LONGEST_SAID = 2_000
MOST_GIVEN = 4 * 1024 * 1024
MOST_WARNINGS = 20
MOST_KEPT = 3
"""How often an agent that is done is sent back to work."""
_REFUSED = 2
_NOT_RUN = (126, 127)
"""The exit codes of a shell for a command that does not exist or cannot be run."""
_KILLED = 128
"""From this exit code on a signal ended the command."""
_ALSO_CALLED = {"Task": "Agent"}
_FROM_FILE = 'exec < "$2" || exit 126; exec "$0" --noprofile --norc -c "$1"'
"""A hook that cannot read its input was not run."""
_NAMES: dict[HookEvent, tuple[str, str]] = {
    "start": ("SessionStart", "SubagentStart"),
    "before": ("PreToolUse", "PreToolUse"),
    "after": ("PostToolUse", "PostToolUse"),
    "stop": ("Stop", "SubagentStop"),
}

Run = Callable[["Command"], Awaitable["CommandOutcome"]]
"""Runs a command to its end; if the wait is cancelled, the command is ended first."""


class HookContext(Struct, frozen=True, eq=False):
    """The agent of some hooks. `main`: it leads the conversation."""

    task: str
    agent: str
    workspace: Workspace
    toolbox: Toolbox
    main: bool = False


class HookResult(Struct, frozen=True):
    """The result of hooks: why something is refused, and what the agent should read."""

    blocked: str | None = None
    note: str = ""


def hooks_for(around: HookContext, run: Run, hooks: Iterable[Hook]) -> "Hooks | None":
    """The hooks of one agent; None if there are none, which then costs nothing."""
    seats = ("", "main" if around.main else "sent")
    own = tuple(hook for hook in hooks if hook.seats in seats)
    return Hooks(around, run, own) if own else None


class Hooks:
    """The hooks of one task. `warnings` are their problems, for its receipt."""

    def __init__(self, around: HookContext, run: Run, hooks: Sequence[Hook]) -> None:
        self._around = around
        self._run = run
        self._hooks = tuple(hooks)
        self._kept = 0
        self.warnings: list[str] = []

    async def before(self, call: ToolCall) -> str | None:
        """Why a call must not be made; None if no hook refuses it. The gate has allowed it already."""
        hooks = self._meant("before", call.name)
        return (await self._ask(hooks, "before", self._of(call))).blocked if hooks else None

    async def after(self, call: ToolCall, result: ToolResult) -> str:
        """What the agent should read after the result of a call; may be empty."""
        hooks = self._meant("after", call.name)
        if not hooks:
            return ""
        answer = {"text": result.for_people, "error": result.error}
        said = await self._ask(hooks, "after", {**self._of(call), "tool_response": answer})
        return "\n".join(text for text in (said.blocked, said.note) if text)

    async def started(self) -> HookResult:
        """Why an agent must not begin, or a note that it reads first."""
        hooks = self._meant("start")
        return await self._ask(hooks, "start", {}) if hooks else HookResult()

    async def stopping(self, text: str = "") -> str | None:
        """Why an agent that is done should continue; None if it may end. `text` is its answer."""
        hooks = self._meant("stop")
        if not hooks:
            return None
        given = {"stop_hook_active": self._kept > 0, "last_assistant_message": text}
        said = await self._ask(hooks, "stop", given)
        if said.blocked is not None and self._kept >= MOST_KEPT:
            self._warn(f"a hook did not let it finish {MOST_KEPT} times; then it finished nevertheless")
            return None
        self._kept += said.blocked is not None
        return said.blocked

    def _meant(self, event: HookEvent, tool: str = "") -> list[Hook]:
        found = [hook for hook in self._hooks if hook.event == event]
        if not found or not tool:
            return found
        names = self._names(tool)
        return [hook for hook in found if hook.meant_for(names)]

    def _names(self, tool: str) -> tuple[str, ...]:
        """All names of a tool, so that no spelling gets around a hook."""
        box = self._around.toolbox
        if tool not in box:
            return (tool,)
        known = box[tool]
        also = _ALSO_CALLED.get(known.name)
        return (tool, known.name, *known.aliases, *((also,) if also else ()))

    def _of(self, call: ToolCall) -> dict[str, Any]:
        box = self._around.toolbox
        name = box[call.name].name if call.name in box else call.name
        return {"tool_name": name, "tool_input": call.input, "tool_use_id": call.id}

    async def _ask(self, hooks: Sequence[Hook], event: HookEvent, more: Mapping[str, Any]) -> HookResult:
        """Run hooks side by side; the first refusal in their order wins, the notes of all are kept."""
        given = self._given(event, more)
        if len(given) > MOST_GIVEN:
            why = f"the call is larger than {MOST_GIVEN:,} bytes"
            return self._trouble(event, hooks[0], why)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._one(hook, event, given)) for hook in hooks]
        said = [each.result() for each in running]
        blocked = next((each.blocked for each in said if each.blocked is not None), None)
        return HookResult(blocked, "\n".join(each.note for each in said if each.note))

    async def _one(self, hook: Hook, event: HookEvent, given: bytes) -> HookResult:
        if hook.broken:
            return self._trouble(event, hook, hook.broken)
        import tempfile  # only where something is run

        try:
            with tempfile.NamedTemporaryFile(prefix="gen-hook-") as file:
                file.write(given)
                file.flush()
                ended = await self._run(self._command(hook, file.name))
        except (ToolError, OSError) as error:
            return self._trouble(event, hook, f"it could not be run: {error}")
        if ended.cause != "exited" or ended.exit_code is None or ended.exit_code in _NOT_RUN:
            return self._trouble(event, hook, ended.verdict or "it was not run")
        if ended.exit_code >= _KILLED:
            return self._trouble(event, hook, f"it was killed (exit code {ended.exit_code})")
        if ended.exit_code == _REFUSED:
            return HookResult(
                _shown(ended.errors.text() or ended.output.text()) or f"{_called(hook)} refused it"
            )
        if ended.exit_code:
            said = one_line(_shown(ended.errors.text() or ended.output.text()), 200)
            why = f": {said}" if said else ""
            self._warn(f"{_called(hook)} failed with exit code {ended.exit_code} and was ignored{why}")
            return HookResult()
        return self._answer(event, hook, ended.output.text().strip())

    def _command(self, hook: Hook, file: str) -> "Command":
        from gencode.sandbox.processes.command import Command, find_bash

        bash = find_bash()
        if bash is None:
            raise ToolError("Hooks need bash, which is not installed on this machine.")
        root = str(self._around.workspace.root)
        return Command(
            (bash, "--noprofile", "--norc", "-c", _FROM_FILE, bash, hook.command, file),
            self._around.workspace.cwd,
            seconds=hook.seconds,
            separate=True,
            environ={**os.environ, "CLAUDE_PROJECT_DIR": root, "GEN_PROJECT_DIR": root},
        )

    def _given(self, event: HookEvent, more: Mapping[str, Any]) -> bytes:
        around = self._around
        said = {
            "hook_event_name": _NAMES[event][not around.main],
            "session_id": around.task,
            "task": around.task,
            "agent": around.agent,
            "agent_type": around.agent,
            "cwd": str(around.workspace.cwd),
            **more,
        }
        return json.dumps(said).encode()

    def _answer(self, event: HookEvent, hook: Hook, text: str) -> HookResult:
        """The answer of a hook that ended well: JSON is read, anything else is ignored."""
        if not text.startswith("{"):
            return HookResult()
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return self._trouble(event, hook, "its answer is not valid JSON")
        answer = cast("dict[str, Any]", found)
        special = answer.get("hookSpecificOutput")
        inner = cast("dict[str, Any]", special) if isinstance(special, dict) else {}
        if "updatedInput" in inner or "updatedInput" in answer:
            self._warn(f"{_called(hook)} wants to change a call, which is not supported")
        note = _text(inner.get("additionalContext")) or _text(answer.get("additionalContext"))
        return HookResult(_objection(answer, inner, hook), _shown(note))

    def _trouble(self, event: HookEvent, hook: Hook, why: str) -> HookResult:
        """The result of a hook that gave no answer: before a call that is a refusal."""
        said = f"{_called(hook)} gave no answer: {one_line(why, 300)}"
        self._warn(said)
        return HookResult(said) if event == "before" else HookResult()

    def _warn(self, text: str) -> None:
        if len(self.warnings) < MOST_WARNINGS and text not in self.warnings:
            self.warnings.append(text)


def _objection(answer: Mapping[str, Any], inner: Mapping[str, Any], hook: Hook) -> str | None:
    """Why an answer refuses; a hook that requires approval refuses, too. None: it does not."""
    decisions = (inner.get("permissionDecision"), answer.get("permissionDecision"), answer.get("decision"))
    reasons = (inner.get("permissionDecisionReason"), answer.get("reason"), answer.get("stopReason"))
    if any(each in ("block", "deny", "ask") for each in decisions) or answer.get("continue") is False:
        return next((_shown(text) for text in map(_text, reasons) if text), f"{_called(hook)} refused it")
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _shown(text: str) -> str:
    return clip(inert(text).strip(), LONGEST_SAID)


def _called(hook: Hook) -> str:
    return f"The hook `{one_line(hook.command, 80)}`"
