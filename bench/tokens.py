"""What delegation saves: the same questions about GenCode's own source, answered with and without subagents.

    python bench/tokens.py

The model is scripted and reads the same files either way: a search, the files side by side, an answer.
Without delegation the main conversation holds everything that was read; with it only questions and answers.
Tokens are the bytes of what is sent, divided by four. Cached is what repeats the beginning of the request
before in the same conversation; it costs what the price table says for cached tokens.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

import gencode
from gencode import GenCode
from gencode.agent.ports import Request
from gencode.app import forgetful
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Part,
    TextPart,
    ToolCall,
    Usage,
    UserMessage,
)
from gencode.providers.model_catalog import PRICES

SOURCE = Path(gencode.__file__).parent
PRICE = PRICES["anthropic/claude-sonnet-5"]
QUESTIONS = (
    (
        "How is it decided whether a call may run?",
        "decide",
        "agent/gate.py permissions/decision.py agent/tool_calls.py",
    ),
    (
        "What happens when a task is stopped?",
        "Stopped",
        "agent/stop.py tasks/supervisor.py agent/loop.py",
    ),
    (
        "How is a task written to disk?",
        "INSERT",
        "stores/sqlite.py stores/sqlite_schema.py stores/journal_rules.py",
    ),
    ("Where does the system prompt come from?", "system_prompt", "agent/prompt.py tasks/setup_builder.py"),
    (
        "How are agents read from files?",
        "front matter",
        "agents/registry.py agents/dialects/table.py agents/frontmatter.py",
    ),
    (
        "How does a reply become messages?",
        "AssistantMessage",
        "agent/loop.py core/messages.py core/task.py",
    ),
    ("Which settings are there and who wins?", "GEN_", "settings.py core/rules.py"),
    (
        "How is a failed request asked again?",
        "retryable",
        "providers/retry.py providers/request_queue.py providers/provider_errors.py",
    ),
)
ANSWER = (
    "The answer in short, with the places that matter:\n"
    + "- `some/file.py:42` decides it, `another/file.py:7` calls it, and a test says what must hold.\n" * 6
)


def question(number: int) -> str:
    """What the user asks."""
    return f"[{number}] {QUESTIONS[number][0]}"


class Counted(msgspec.Struct):
    """What was sent and said so far, in bytes."""

    main: int = 0
    sent: int = 0
    cached: int = 0
    said: int = 0
    before: dict[str, bytes] = {}

    def take(self, request: Request) -> None:
        """Count one request."""
        told = msgspec.json.encode([request.system, request.tools, list(request.messages)])
        self.sent += len(told)
        self.main += len(told) if request.agent == "main" else 0
        self.cached += shared(self.before.get(request.task, b""), told)
        self.before[request.task] = told

    @property
    def usd(self) -> float:
        """What it costs."""
        cost = PRICE.of(Usage(self.sent // 4, self.said // 4, self.cached // 4))
        return 0.0 if cost is None else cost


class Scripted:
    """Plays an agent that explores, or one that sends another to explore."""

    def __init__(self, *, delegates: bool) -> None:
        self._delegates = delegates
        self.counted = Counted()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The next step of the script."""
        self.counted.take(request)
        calls = self._calls(request)
        text = "" if calls else ANSWER
        self.counted.said += len(msgspec.json.encode([text, calls]))
        for call in calls:
            yield CallPart(call)
        if text:
            yield TextPart(text)
        yield EndPart("scripted")

    def _calls(self, request: Request) -> list[ToolCall]:
        at = max(place for place, each in enumerate(request.messages) if isinstance(each, UserMessage))
        asked = request.messages[at]
        assert isinstance(asked, UserMessage)
        number = int(asked.text[1])
        step = sum(isinstance(each, AssistantMessage) for each in request.messages[at:])
        _, word, files = QUESTIONS[number]
        if self._delegates and request.agent == "main":
            sent = {"subagent_type": "Explore", "prompt": question(number)}
            return [ToolCall(f"task{number}", "Task", sent)] if step == 0 else []
        if step == 0:
            return [
                ToolCall(f"grep{number}", "Grep", {"pattern": word, "output_mode": "content", "-n": True})
            ]
        reads = [ToolCall(f"read{number}_{file}", "Read", {"file_path": file}) for file in files.split()]
        return reads if step == 1 else []


def shared(earlier: bytes, later: bytes) -> int:
    """How many bytes both begin with."""
    low, high = 0, min(len(earlier), len(later))
    while low < high:
        middle = (low + high + 1) // 2
        if earlier[low:middle] == later[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


async def asked(*, delegates: bool) -> Counted:
    """Ask all questions in one conversation, and count."""
    model = Scripted(delegates=delegates)
    session: str | None = None
    async with GenCode.open(SOURCE, model=model, store=forgetful()) as gen:
        for number in range(len(QUESTIONS)):
            outcome = await gen.ask(question(number), session=session).outcome()
            if not outcome.success or outcome.result != ANSWER:
                raise SystemExit(
                    f"question {number} was not answered: {outcome.error or outcome.result[:300]}"
                )
            session = outcome.agent_id
    return model.counted


def line(name: str, counted: Counted) -> str:
    """One line of the table."""
    tokens = (counted.main // 4, counted.sent // 4, counted.cached // 4)
    return f"| {name} | " + " | ".join(f"{each:,}" for each in tokens) + f" | {counted.usd:.4f} |"


def saved(without: float, with_it: float) -> str:
    """How much less it is, in per cent."""
    return f"{100 * (1 - with_it / without):.0f} %"


async def main() -> None:
    """Print the table."""
    without, with_it = await asked(delegates=False), await asked(delegates=True)
    print(f"{len(QUESTIONS)} questions in one conversation, price of claude-sonnet-5\n")
    print("| | main conversation, input tokens | all input tokens | of these cached | USD |")
    print("|---|---|---|---|---|")
    print(line("without delegation", without))
    print(line("with delegation (Task, Explore)", with_it))
    pairs = ((without.main, with_it.main), (without.sent, with_it.sent))
    cells = [saved(*pair) for pair in pairs]
    print(f"| saved | {' | '.join(cells)} | | {saved(without.usd, with_it.usd)} |")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GEN_HOME"] = folder
        asyncio.run(main())
