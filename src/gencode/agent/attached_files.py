"""Attaches the files that a user mentions as `@path`, read by the agent's own Read tool.

The shell commands of a slash command are run by its Bash tool in the same way: the gate decides each, and
asks the person if it needs approval. Only files that the agent may read without approval are attached; they
count as read, so the agent may change them. A word with `@` that names no file is only a word.
"""

import os
import re
from collections.abc import Iterator, Sequence

from gencode.agent.recorder import Recorder
from gencode.agent.run_setup import RunSetup
from gencode.agent.stop import Stop
from gencode.agent.tool_calls import read_for_user, run_for_user
from gencode.core.messages import Image, Message, NoticeKind, SystemNotice, UserMessage
from gencode.core.text import code_span, disarmed, disarmed_line, quoted
from gencode.permissions.paths import resolve

MOST_FILES = 10
MOST_CHARACTERS = 60_000
LONGEST_NAME = 300
LONGEST_COMMAND = 500
_MENTION = re.compile(r'(?:^|(?<=[\s(\[]))@(?:"([^"\n]+)"|([^\s@"]+))')
_AFTER = ".,;:!?)]}'"


async def attachments(
    setup: RunSetup, messages: Sequence[Message], record: Recorder, stop: Stop
) -> list[UserMessage]:
    """A message with what messages of the user mention: files, and the output of shell commands."""
    if setup.sent:
        return []
    texts = [await _output(setup, command, record, stop) for command in _shell_of(messages)]
    images: list[Image] = []
    room = MOST_CHARACTERS
    for path in list(dict.fromkeys(_mentioned(setup, messages)))[:MOST_FILES]:
        name = f"@{disarmed_line(path, LONGEST_NAME)}"
        result = await read_for_user(setup, path, record, stop)
        if result is None or result.error:
            texts.append(f"[{name} was not attached: it cannot be read without approval.]")
        elif len(result.text) > room:
            texts.append(f"[{name} was not attached: the files mentioned are too long together. Use Read.]")
        else:
            room -= len(result.text)
            texts.append(f"[The user mentioned {name}. Its content:]\n{_content(setup, path, result.text)}")
            images += result.images
    if not texts:
        return []
    notice = SystemNotice(NoticeKind.FILES)
    return [UserMessage("\n\n".join(texts), sender="system", images=tuple(images), notice=notice)]


def _content(setup: RunSetup, path: str, text: str) -> str:
    """The content of a file or folder; the names in a folder could look like a notice, so they are quoted."""
    is_folder = os.path.isdir(resolve(path, setup.workspace).real)  # noqa: PTH112
    return quoted(text) if is_folder else text


def _shell_of(messages: Sequence[Message]) -> tuple[str, ...]:
    """The shell commands of the newest message; those of an earlier one were run or cut off before."""
    users = [each for each in messages if isinstance(each, UserMessage) and each.sender == "user"]
    return users[-1].runs if users else ()


async def _output(setup: RunSetup, command: str, record: Recorder, stop: Stop) -> str:
    result = await run_for_user(setup, command, record, stop)
    how = "This command failed or was not run:" if result.error else "The output of"
    return f"[{how} {code_span(command, LONGEST_COMMAND)}]\n{quoted(disarmed(result.for_people))}"


def unattached(transcript: Sequence[Message]) -> list[UserMessage]:
    """The messages at the end of a transcript whose files were not attached yet."""
    found: list[UserMessage] = []
    for each in reversed(transcript):
        if not isinstance(each, UserMessage) or has_files(each):
            break
        found.append(each)
    return found[::-1]


def has_files(message: Message) -> bool:
    """Whether a message holds files that the user mentioned."""
    notice = message.notice if isinstance(message, UserMessage) else None
    return notice is not None and notice.kind is NoticeKind.FILES


def _mentioned(setup: RunSetup, messages: Sequence[Message]) -> Iterator[str]:
    """The files and folders that the user's messages mention and that exist."""
    if "Read" not in setup.toolbox:
        return
    for message in messages:
        if not isinstance(message, UserMessage) or message.sender != "user" or "@" not in message.text:
            continue
        for in_quotes, bare in _MENTION.findall(message.text):
            said = (in_quotes,) if in_quotes else (bare, bare.rstrip(_AFTER))
            for path in (*said, *(each.partition("#L")[0] for each in said)):  # an editor names lines so
                if path and _is_there(setup, path):
                    yield path
                    break


def _is_there(setup: RunSetup, path: str) -> bool:
    place = resolve(path, setup.workspace)
    return not place.refusal and os.path.exists(place.real)  # noqa: PTH110
