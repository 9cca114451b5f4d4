"""Warnings of a result: computed when a task ends, from what it did, never from what it says."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence

from gencode.agent.ports import StartedTask
from gencode.agent.run_setup import LoopResult, RunSetup
from gencode.core.messages import AssistantMessage, Message, ToolMessage, UserMessage, is_summed_up
from gencode.core.spec import Workspace
from gencode.core.status import Status, as_verb
from gencode.core.task import Task
from gencode.core.text import counted, one_line

NO_TOOL = "no tool was called"
MOST_CHILDREN = 20
MOST_SHELLS = 5
LONGEST_COMMAND = 60
MOST_NAMED = 40
MOST_TEXT = 100_000
"""How much of a report is searched for file names."""

_TESTS = re.compile(
    r"(?:^|[\s;&|(/])"
    r"(?:pytest|py\.test|tox|nox|unittest|jest|vitest|mocha|ava|rspec|phpunit|ctest|bats|behave"
    r"|(?:npm|pnpm|yarn|bun)(?:\s+run)?\s+test\S*|(?:cargo|go|mix|swift|dotnet|deno|rake|zig|sbt|lein|flutter)\s+test"
    r"|cargo\s+nextest|(?:make|just|task)\s+(?:test|check)\S*|(?:mvn|gradle|gradlew)\s+\S*(?:test|verify|check)\S*"
    r"|(?:scripts?|bin|\.)/(?:run[_-]?)?tests?(?:\.sh)?)"
    r"(?=$|[\s;&|)])"
)
"""A command that runs tests, by the usual programs for that."""
_NAME = re.compile(r"(?<![\w.@+~/-])[\w@+~-]*+[./][\w.@+~/-]{1,300}")


def warnings_of(
    setup: RunSetup, transcript: Sequence[Message], task: Task, ending: LoopResult
) -> tuple[str, ...]:
    """What a reader of the result should know and the result may not say."""
    found = [*ending.warnings]
    if setup.delegate is not None:
        found += children_warnings(setup.delegate.sent())
    found += shells_warnings(setup, task)
    if setup.hooks is not None:
        found += setup.hooks.warnings
    if ending.status is Status.COMPLETED and not task.conversation:
        found += failed_test_run(task)
        if setup.toolbox and not task.evidence.tool_calls:
            found.append(NO_TOOL)
        if unread := list(never_read(setup, transcript, task, ending.text)):
            found.append(f"the report names files that were never read: {', '.join(unread)}")
    return tuple(found)


def children_warnings(sent: Sequence[StartedTask]) -> list[str]:
    """Which subagents did not complete."""
    found: list[str] = []
    for child in sent:
        if not child.status.ended:
            found.append(f"the task {child.task} of {child.agent} had not ended")
        elif child.status is not Status.COMPLETED:
            error = child.error or ("the model's reply was empty" if child.status is Status.EMPTY else "")
            why = f": {error.rstrip('.')}" if error else ""
            found.append(f"the task {child.task} of {child.agent} {as_verb(child.status)}{why}")
    rest = len(found) - MOST_CHILDREN
    return (
        [*found[:MOST_CHILDREN], f"and {counted(rest, 'more task')} did not end well"] if rest > 0 else found
    )


def failed_test_run(task: Task) -> list[str]:
    """That the last tests of a task failed, whatever its report says."""
    ran = [each for each in task.evidence.commands if _TESTS.search(each.command)]
    if not ran or not ran[-1].exit:
        return []
    command = one_line(ran[-1].command, LONGEST_COMMAND)
    return [f"its last test run, `{command}`, failed with exit code {ran[-1].exit}"]


def shells_warnings(setup: RunSetup, task: Task) -> list[str]:
    """Which commands of a task still run although it has ended."""
    if all(command.exit is not None for command in task.evidence.commands):
        return []  # it left none in the background, so the code that runs commands need not be loaded
    running = [shell for shell in setup.shells().of_task(task.id).values() if not shell.over]
    found = [
        f"the background command `{one_line(shell.order.text, LONGEST_COMMAND)}` ({shell.id}) was "
        "still running at the end; TaskStop or the end of the session stops it"
        for shell in running[:MOST_SHELLS]
    ]
    rest = len(running) - MOST_SHELLS
    return (
        [*found, f"and {rest} more background command{' was' if rest == 1 else 's were'} still running"]
        if rest > 0
        else found
    )


def never_read(setup: RunSetup, transcript: Sequence[Message], task: Task, report: str) -> Iterator[str]:
    """Files of the workspace that a report names and that no call read, changed, listed or was given.

    After a compaction this cannot be known.
    """
    if is_summed_up(transcript):
        return
    known = {*task.evidence.files_read, *(change.path for change in task.evidence.files_changed)}
    named = [name for name in _names(report, setup.workspace) if name not in known]
    for name in named:
        if setup.gate.may_read(name) and not any(_last(name) in text for text in _seen(transcript)):
            yield name


def _names(report: str, workspace: Workspace) -> list[str]:
    """The names of existing files, as paths from the working directory."""
    words = dict.fromkeys(word.rstrip(".-") for word in _NAME.findall(report[:MOST_TEXT]))
    cwd = str(workspace.cwd)
    found: dict[str, None] = {}
    for word in list(words)[:MOST_NAMED]:
        whole = word.startswith("/")
        name = os.path.relpath(word, os.path.realpath(cwd)) if whole else os.path.normpath(word)
        if not name.startswith("..") and _is_file(f"{cwd}/{name}"):
            found[name] = None
    return list(found)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _seen(transcript: Sequence[Message]) -> Iterator[str]:
    """Every text in arguments and results of calls, and reports of other agents; not the task's own text."""
    for message in reversed(transcript):
        match message:
            case ToolMessage():
                yield from (result.text for result in message.results)
            case AssistantMessage():
                yield from _texts(call.input.values() for call in message.calls)
            case UserMessage():
                if message.delivers:
                    yield message.text


def _texts(inputs: Iterable[Iterable[object]]) -> Iterator[str]:
    return (value for values in inputs for value in values if isinstance(value, str))
