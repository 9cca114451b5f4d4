"""The offline model: answers by searching files, without a language model; the default without a key.

It has no state beside the messages: the id of each call says what the call was for, so that the next turn
needs only the transcript. Two runs over the same files give the same answer.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from zlib import crc32

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from gencode.core.text import unquoted
from gencode.offline_search import answer_text
from gencode.offline_search.intents import (
    CollectIntent,
    DefinitionIntent,
    GreetingIntent,
    ListIntent,
    ReadIntent,
    RefusalIntent,
    SearchIntent,
    UnsearchableIntent,
    intent_of,
)
from gencode.offline_search.lookups import LOOKUPS, collect, look_up
from gencode.offline_search.query import query_of
from gencode.offline_search.question_splitter import split_question, task_title
from gencode.offline_search.result_parser import read_lines, read_paths
from gencode.offline_search.search_plan import CallResult, PlannedCall, SearchResult, next_step

LONGEST_PROMPT = 20_000
FIRST_READ = 400
PIECE = 800


@dataclass(frozen=True, slots=True)
class SearchTurn:
    """One question and the results of the calls made for it so far."""

    text: str
    prefix: str
    got: dict[str, CallResult]
    tools: AbstractSet[str]


Reply = str | list[PlannedCall]


_ABSENT = "does not exist"
"""The prefix of Read's error for a missing file; any other error is quoted as it is."""
_GOES_ON = re.compile(r"^\[… .*go on with offset=\d+\]\s*\Z", re.MULTILINE)


class OfflineProvider:
    """A provider that answers with what a search finds."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Tool calls, or the final text in a few pieces."""
        if request.sums_up:
            raise ProviderError(f"{answer_text.MODEL} searches and writes no summaries.")
        turn = turn_of(request)
        reply = await asyncio.to_thread(reply_to, turn)
        if isinstance(reply, str):
            for piece in _pieces(reply):
                yield TextPart(piece)
            yield EndPart(model=answer_text.MODEL, stop="end_turn")
            return
        for planned in reply:
            yield CallPart(ToolCall(f"{turn.prefix}{planned.purpose}", planned.tool, planned.input))
        yield EndPart(model=answer_text.MODEL, stop="tool_use")


def turn_of(request: Request) -> SearchTurn:
    """The newest question of a transcript and the results of the calls made for it."""
    messages = list(request.messages)
    start, text = _question_in(messages)
    # By its words and not by its place, which changes when a long conversation is summed up.
    prefix = f"search{crc32(text.encode('utf-8', 'replace')):08x}-"
    asked: dict[str, ToolCall] = {}
    got: dict[str, CallResult] = {}
    for message in messages[start + 1 :]:
        if isinstance(message, AssistantMessage):
            asked |= {call.id: call for call in message.calls if call.id.startswith(prefix)}
        elif isinstance(message, ToolMessage):
            for result in message.results:
                if result.call in asked:
                    call = asked[result.call]
                    got[call.id.removeprefix(prefix)] = CallResult(call.input, result.text, result.error)
    tools = frozenset(tool.name for tool in request.tools if request.may_call)
    return SearchTurn(text[:LONGEST_PROMPT], prefix, got, tools)


def _question_in(messages: Sequence[Message]) -> tuple[int, str]:
    """The latest message of the user, or else of anyone."""
    said = [(place, each) for place, each in enumerate(messages) if isinstance(each, UserMessage)]
    by_user = [(place, each) for place, each in said if each.sender == "user"]
    place, message = (by_user or said or [(-1, UserMessage(""))])[-1]
    return place, message.text


def reply_to(turn: SearchTurn) -> Reply:
    """What to do or say next."""
    intent = intent_of(turn.text)
    match intent:
        case GreetingIntent():
            return answer_text.ABLE
        case RefusalIntent():
            return answer_text.REFUSAL
        case ReadIntent():
            return _read(turn, intent)
        case ListIntent():
            return _list(turn, intent)
        case UnsearchableIntent():
            return answer_text.UNSEARCHABLE
        case DefinitionIntent() | CollectIntent():
            return _looked_up(turn, intent) or _searched(turn)
        case SearchIntent(explains):
            return _searched(turn, explains=explains)


def _looked_up(turn: SearchTurn, wanted: DefinitionIntent | CollectIntent) -> Reply | None:
    """What is called so; None when that is to be searched like any other question."""
    if not {"Grep", "Read", "Glob"} <= turn.tools or any(each in turn.got for each in ("task-0", "names")):
        return None
    return look_up(wanted, turn.got) if isinstance(wanted, DefinitionIntent) else collect(wanted, turn.got)


def _searched(turn: SearchTurn, *, explains: bool = False) -> Reply:
    got = {purpose: said for purpose, said in turn.got.items() if not purpose.startswith(LOOKUPS)}
    turn = replace(turn, got=got)
    return _delegate(turn) if _delegates(turn) else _search(turn, explains=explains)


def _delegates(turn: SearchTurn) -> bool:
    """The main agent sends others; it looks itself when every one it sent came back with an error."""
    sent = [said for purpose, said in turn.got.items() if purpose.startswith("task-")]
    if not sent:
        return "Task" in turn.tools and not turn.got
    return not all(said.error for said in sent) or not turn.tools & {"Grep", "Glob"}


def _delegate(turn: SearchTurn) -> Reply:
    parts = split_question(turn.text)
    if not turn.got:
        return [
            PlannedCall(
                f"task-{number}",
                "Task",
                {"subagent_type": "Explore", "description": task_title(part), "prompt": part},
            )
            for number, part in enumerate(parts)
        ]
    results = [turn.got.get(f"task-{number}") for number in range(len(parts))]
    told = [
        (part, _reported(said) if said else "it did not run", said.error if said else True)
        for part, said in zip(parts, results, strict=True)
    ]
    return answer_text.parts_text(told, " | ".join(query_of(part).words for part in parts))


def _reported(said: CallResult) -> str:
    """What an agent that was sent has found: the lines that are quoted from it."""
    return said.text if said.error else unquoted(said.text) or said.text


def _search(turn: SearchTurn, *, explains: bool) -> Reply:
    query = query_of(turn.text)
    if not query.concepts:
        return answer_text.ABLE
    got = {purpose: said for purpose, said in turn.got.items() if not purpose.startswith("task-")}
    step = next_step(query, got, turn.tools)
    if not isinstance(step, SearchResult):
        return step
    return answer_text.found_text(query, step, _trouble(turn, got), explains=explains)


def _trouble(turn: SearchTurn, got: dict[str, CallResult]) -> str:
    """The errors of the tools, or which of them is missing; shown when nothing was found."""
    if not turn.tools:
        return "there are no tools to search with"
    if missing := {"Grep", "Read"} - turn.tools:
        return f"there is no {' and no '.join(sorted(missing))} here to search with"
    # A single file that may not be read (a secret, say) is no reason for finding nothing anywhere.
    everywhere = [said for _, said in sorted(got.items()) if not said.input.keys() & {"path", "file_path"}]
    wrong = [said.text for said in everywhere if said.error]
    return wrong[0].strip().split("\n", 1)[0][:300] if wrong else ""


def _read(turn: SearchTurn, wanted: ReadIntent) -> Reply:
    if "Read" not in turn.tools:
        return f"I cannot read {wanted.path}: there is no tool for it here."
    opened = turn.got.get("open-1") or turn.got.get("open-0")
    if opened is None:
        return [PlannedCall("open-0", "Read", _lines_of(wanted, wanted.path))]
    path = str(opened.input["file_path"])
    if not opened.error:
        lines = read_lines(opened.text)
        cut = wanted.last is None and _GOES_ON.search(opened.text) is not None
        return answer_text.file_text(path, lines, cut=cut) if lines else opened.text
    if _ABSENT not in opened.text:
        return f"I could not read {path}: {opened.text.strip()[:600]}"
    looked = turn.got.get("find-0")
    if looked is None and "Glob" in turn.tools:
        name = wanted.path.rstrip("/").rsplit("/", 1)[-1]
        return [PlannedCall("find-0", "Glob", {"pattern": f"**/{name}*", "head_limit": 20})]
    paths = read_paths(looked.text)[0] if looked and not looked.error else []
    exact = [each for each in paths if each.endswith(wanted.path)] or paths
    if len(exact) == 1 and "open-1" not in turn.got:
        return [PlannedCall("open-1", "Read", _lines_of(wanted, exact[0]))]
    first = opened.text.strip().split("\n", 1)[0]
    return answer_text.list_text(exact, 0, f"files like {wanted.path}") if exact else f"{first[:300]}"


def _lines_of(wanted: ReadIntent, path: str) -> dict[str, object]:
    last = wanted.last or wanted.first + FIRST_READ - 1
    return {"file_path": path, "offset": wanted.first, "limit": max(last - wanted.first + 1, 1)}


def _list(turn: SearchTurn, wanted: ListIntent) -> Reply:
    said = turn.got.get("list-0")
    what = f"{wanted.folder}/{wanted.pattern}" if wanted.folder else wanted.pattern
    if said is None and wanted.shallow and "Read" in turn.tools:
        return [PlannedCall("list-0", "Read", {"file_path": wanted.folder or "."})]
    if said is None and "Glob" in turn.tools:
        return [PlannedCall("list-0", "Glob", {"pattern": what, "head_limit": 300})]
    if said is None:
        return "I cannot list files: there is no tool for it here."
    if said.error:
        return said.text.strip().split("\n", 1)[0][:300]
    if "pattern" not in said.input:
        return f"{said.text.rstrip()}\n\n{answer_text.closing(wanted.folder or 'the working directory')}"
    paths, more = read_paths(said.text)
    return answer_text.list_text(paths, more, what)


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
