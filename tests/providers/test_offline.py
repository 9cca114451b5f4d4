"""The offline model from outside: real tools, real files, many at once."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.agent.ports import Request, ToolSchema
from gencode.agent.toolbox import Toolbox
from gencode.core.errors import ToolError
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gencode.offline_search.answer_text import READ_THESE
from gencode.providers.offline import OfflineProvider
from gencode.tools.glob import GLOB
from gencode.tools.grep import GREP
from gencode.tools.ls import LS
from gencode.tools.read import READ
from tests.tools.desk import Desk

BOX = Toolbox([READ, GLOB, GREP, LS])
TASK = ToolSchema("Task", "Delegate.", {"type": "object"})
CLOSING = "This is a search, not an explanation (model offline-search"

FILES = {
    "shop/retry.py": (
        '"""Calls that are repeated."""\n\n\n'
        "def call_again(request, attempts):\n"
        '    """Retry a failed request with exponential backoff."""\n'
        "    for attempt in range(attempts):\n"
        "        request.send()\n"
    ),
    "shop/validation.py": (
        "class ArgumentValidator:\n"
        '    """Checks tool arguments against their schema."""\n\n'
        "    def validate(self, arguments):\n"
        "        return self.schema.check(arguments)\n"
    ),
    "shop/journal.py": (
        "def append_event(database, event):\n"
        '    """Write an event to the database."""\n'
        "    database.execute('insert', event)\n"
    ),
    "shop/cache.go": (
        "package shop\n\n// Evict drops the oldest entry.\nfunc (c *Cache) Evict() {\n\tc.size--\n}\n"
    ),
    "tests/test_retry.py": "def test_a_failed_request_is_retried():\n    call_again(request, 3)\n",
    "docs/retry.md": "# Retry\n\nA failed request is retried with exponential backoff.\n",
    "README.md": "# Shop\n\nA small shop.\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


class Talk:
    """A conversation with the offline model whose calls are really run in a folder."""

    def __init__(self, folder: Path, tools: Sequence[ToolSchema] | None = None, denied: str = "") -> None:
        self.folder = folder
        self.tools = BOX.schemas() if tools is None else tools
        self.denied = denied
        self.messages: list[Message] = []
        self.turns = self.calls = 0

    async def turn(self) -> tuple[str, list[ToolCall], EndPart]:
        texts: list[str] = []
        calls: list[ToolCall] = []
        end: EndPart | None = None
        request = Request("offline", "You are an agent.", self.messages, self.tools, agent="Explore")
        async for part in OfflineProvider().stream(request):
            if isinstance(part, TextPart):
                texts.append(part.text)
            elif isinstance(part, CallPart):
                calls.append(part.call)
            elif isinstance(part, EndPart):
                end = part
        assert end is not None
        return "".join(texts), calls, end

    async def ask(self, question: str) -> str:
        self.messages.append(UserMessage(question))
        while True:
            text, calls, end = await self.turn()
            self.turns += 1
            self.messages.append(AssistantMessage(text, tuple(calls), model=end.model))
            if not calls:
                assert end == EndPart(model="offline-search", stop="end_turn", usage=None)
                return text
            self.calls += len(calls)
            results = await asyncio.gather(*(self.run(call) for call in calls))
            self.messages.append(ToolMessage(tuple(results)))

    async def run(self, call: ToolCall) -> ToolResult:
        if self.denied or call.name not in BOX:
            return ToolResult(call.id, call.name, self.denied or "There is no such tool.", error=True)
        tool = BOX[call.name]
        ctx = replace(Desk(self.folder).ctx, call=call)
        try:
            output = await tool.run(ctx, tool.parse(call))
        except ToolError as error:
            return ToolResult(call.id, call.name, str(error), error=True)
        return ToolResult(call.id, call.name, output.text, error=output.error)


def only(*names: str) -> tuple[ToolSchema, ...]:
    return BOX.only(names).schemas()


async def test_the_right_file_and_line_come_first_and_then_verbatim_quotes(shop: Path) -> None:
    answer = await Talk(shop).ask("Where is a failed call repeated with a growing backoff?")
    assert answer.splitlines()[0] == "shop/retry.py:4  call_again"
    quoted = re.findall(r"^ *(\d+)\t(.*)$", answer, re.MULTILINE)
    lines = (shop / "shop/retry.py").read_text(encoding="utf-8").splitlines()
    first = answer.split("\n\n")[1]
    assert first.splitlines()[0] == "shop/retry.py"
    assert quoted and all(text in FILES_LINES for _, text in quoted)
    assert f"     4\t{lines[3]}" in first.splitlines()
    assert answer.splitlines()[-1] == f"{CLOSING}; words searched: failed call repeated growing backoff)."


FILES_LINES = {line for text in FILES.values() for line in text.splitlines()}


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("Where are tool arguments checked?", "shop/validation.py"),
        ("How are events stored in the db?", "shop/journal.py"),
        ("Which code evicts old cache entries?", "shop/cache.go"),
        ('"Where are retries done?"', "shop/retry.py"),
        ("ArgumentValidator", "shop/validation.py"),
        ("call_again", "shop/retry.py"),
        ("Where in shop/journal.py is something executed?", "shop/journal.py"),
    ],
)
async def test_a_question_in_other_words_finds_its_file(shop: Path, question: str, place: str) -> None:
    assert (await Talk(shop).ask(question)).split(":")[0] == place


async def test_a_search_takes_at_most_five_turns_and_forty_calls(shop: Path) -> None:
    talk = Talk(shop)
    await talk.ask(
        "Where are failed requests, events, arguments, schemas and caches checked, stored and evicted?"
    )
    assert talk.turns <= 5
    assert talk.calls <= 40


async def test_an_answer_fits_the_cap_of_an_explore_result(shop: Path) -> None:
    for number in range(40):
        (shop / f"shop/retry_{number}.py").write_text(FILES["shop/retry.py"] * 5, encoding="utf-8")
    assert len(await Talk(shop).ask("Where is a failed request retried?")) < 2_000


@pytest.mark.parametrize(
    "question", ["Where is the neural network trained?", "How are invoices rendered to PDF?"]
)
async def test_what_is_not_there_is_no_confident_match(shop: Path, question: str) -> None:
    answer = await Talk(shop).ask(question)
    assert answer.splitlines()[0] == "no confident match"
    assert CLOSING in answer.splitlines()[-1]


async def test_a_line_too_long_to_be_written_by_hand_is_no_evidence(tmp_path: Path) -> None:
    packed = "var a=" + "0," * 300 + "audio,decode;"
    (tmp_path / "packed.js").write_text(f"audio.decode({packed})\n", encoding="utf-8")
    (tmp_path / "main.js").write_text("start()\n", encoding="utf-8")
    assert (await Talk(tmp_path).ask("Where is audio decoded?")).startswith("no confident match")


async def test_a_file_named_after_most_of_a_long_question_may_lack_some_of_its_words(tmp_path: Path) -> None:
    files = {
        "errors.py": "def similar_options(name):\n    # suggest options\n    return names\n",
        **{f"other_{number}.py": f"def other_{number}():\n    return {number}\n" for number in range(60)},
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    question = "Which mistyped, clumsy, forgotten or bewildering options get a suggestion of similar ones?"
    answer = await Talk(tmp_path).ask(question)
    assert answer.startswith("errors.py:1  similar_options")


async def test_an_empty_folder_is_no_confident_match(tmp_path: Path) -> None:
    assert (await Talk(tmp_path).ask("Where are errors logged?")).splitlines()[0] == "no confident match"


async def test_a_folder_of_documents_is_searched_too(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Cooking\n\nBoil the water.\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("# Holidays\n\nEveryone has thirty days of vacation.\n", encoding="utf-8")
    answer = await Talk(tmp_path).ask("How many days of vacation are there?")
    assert answer.splitlines()[0] == "b.md:1  Holidays"


async def test_many_at_once_say_what_one_alone_says(shop: Path) -> None:
    questions = [
        "Where is a failed request retried?",
        "How are events stored?",
        "Where are arguments validated?",
    ] * 4
    alone = [await Talk(shop).ask(question) for question in questions[:3]]
    together = await asyncio.gather(*(Talk(shop).ask(question) for question in questions))
    assert together == alone * 4


async def test_refused_tools_are_told(shop: Path) -> None:
    answer = await Talk(shop, denied="Grep is denied by a rule.").ask("Where are errors logged?")
    assert answer.splitlines()[0] == "no confident match: Grep is denied by a rule."


async def test_without_a_tool_it_needs_it_names_it(shop: Path) -> None:
    answer = await Talk(shop, tools=only("Glob", "Read")).ask("Where is the zebra striped?")
    assert answer.splitlines()[0] == "no confident match: there is no Grep here to search with"


@pytest.mark.parametrize("text", ["read lines 2-3 of shop/retry.py", "show me shop/retry.py:2-3"])
async def test_lines_of_a_file_are_read_however_they_are_named(shop: Path, text: str) -> None:
    lines = (shop / "shop/retry.py").read_text(encoding="utf-8").splitlines()
    answer = await Talk(shop, tools=only("Read")).ask(text)
    assert answer.splitlines()[:2] == lines[1:3]


async def test_without_any_tools_it_says_so(shop: Path) -> None:
    answer = await Talk(shop, tools=()).ask("Where are errors logged?")
    assert answer.splitlines()[0] == "no confident match: there are no tools to search with"


@pytest.mark.parametrize("names", [("Grep",), ("Grep", "Read"), ("Glob", "Read"), ("Glob", "Grep")])
async def test_it_makes_do_with_the_tools_there_are(shop: Path, names: tuple[str, ...]) -> None:
    answer = await Talk(shop, tools=only(*names)).ask("Where is the retry of a request?")
    assert answer.startswith("shop/retry.py:")


async def test_the_grace_turn_without_tools_answers_with_what_there_is(shop: Path) -> None:
    talk = Talk(shop)
    talk.messages.append(UserMessage("Where is a failed request retried?"))
    _, calls, _ = await talk.turn()
    results = [await talk.run(call) for call in calls]
    talk.messages += [AssistantMessage("", tuple(calls)), ToolMessage(tuple(results))]
    talk.tools = ()
    text, calls, _ = await talk.turn()
    assert calls == []
    assert text.startswith(("shop/retry.py", "no confident match"))


@pytest.mark.parametrize(
    "task",
    [
        "Fix the bug in retry.py",
        "Please add a test",
        "run the tests",
    ],
)
async def test_work_is_refused_in_one_line_that_says_how_to_connect_a_model(shop: Path, task: str) -> None:
    talk = Talk(shop)
    answer = await talk.ask(task)
    assert talk.calls == 0
    assert "\n" not in answer
    assert all(
        name in answer for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "Ollama", "--model", "search")
    )


@pytest.mark.parametrize("question", ["Explain how retries work", "Why is a failed request repeated?"])
async def test_a_question_for_reasons_gets_the_places_to_read(shop: Path, question: str) -> None:
    answer = await Talk(shop).ask(question)
    assert answer.splitlines()[0].startswith("shop/retry.py:4") and READ_THESE in answer.splitlines()


async def test_a_definition_is_shown_and_all_of_a_kind_are_listed(shop: Path) -> None:
    (shop / "shop/session.py").write_text(
        '"""A class will keep it; the type of session."""\n\n\ndef session():\n    return Session()\n\n\n'
        "class Session:\n    kept = 1\n\n\n"
        "class RetryError(Exception): ...\nclass CacheError(Exception): ...\n"
    )
    (shop / "shop/commands").mkdir()
    (shop / "shop/commands/sell.py").write_text("def run(): ...\n")
    shown = (await Talk(shop).ask("show me the Session class")).split("\n\n")
    assert shown[0].splitlines() == ["shop/session.py:8  Session", "shop/session.py:4  session"]
    assert shown[1].splitlines() == ["shop/session.py", "     8\tclass Session:", "     9\t    kept = 1"]
    errors = (await Talk(shop).ask("List all errors")).split("\n\n")[0].splitlines()
    assert errors == ["shop/session.py:12  RetryError", "shop/session.py:13  CacheError"]
    commands = (await Talk(shop).ask("what are the shop commands?")).split("\n\n")[0].splitlines()
    assert commands == ["shop/commands/sell.py"]


@pytest.mark.parametrize("question", ["What changed last week?", "Which parts have no tests?", "asdf zxcv"])
async def test_what_no_file_says_is_admitted(shop: Path, question: str) -> None:
    assert (await Talk(shop).ask(question)).startswith("no confident match")


@pytest.mark.parametrize("task", ["", "hello", "?!", "hi there, can you help?"])
async def test_a_greeting_gets_one_line_about_what_it_can_do(shop: Path, task: str) -> None:
    answer = await Talk(shop).ask(task)
    assert "\n" not in answer
    assert "read PATH" in answer


async def test_a_file_is_read_as_it_is(shop: Path) -> None:
    answer = await Talk(shop).ask("read shop/journal.py")
    assert answer.startswith(FILES["shop/journal.py"].rstrip("\n"))
    assert CLOSING in answer.splitlines()[-1]


async def test_some_lines_of_a_file_are_read(shop: Path) -> None:
    answer = await Talk(shop).ask("show shop/journal.py lines 2-3")
    assert answer.split("\n\n")[0].splitlines()[:2] == FILES["shop/journal.py"].splitlines()[1:3]


async def test_a_file_named_without_its_folder_is_looked_for(shop: Path) -> None:
    assert (await Talk(shop).ask("open journal.py")).startswith("def append_event")


async def test_a_file_that_is_not_there_is_said_to_be_missing(shop: Path) -> None:
    answer = await Talk(shop).ask("read nowhere.xyz")
    assert "nowhere.xyz" in answer
    assert "\n" not in answer


async def test_files_are_listed(shop: Path) -> None:
    answer = await Talk(shop).ask("list the python files in shop")
    assert answer.split("\n\n")[0].splitlines() == ["shop/journal.py", "shop/retry.py", "shop/validation.py"]


async def test_a_folder_is_listed(shop: Path) -> None:
    assert "retry.md" in await Talk(shop).ask("which files are in docs")


async def test_the_newest_question_of_a_conversation_is_answered(shop: Path) -> None:
    talk = Talk(shop)
    first = await talk.ask("Where is a failed request retried?")
    talk.messages.append(UserMessage("A background task ended.", sender="system"))
    second = await talk.ask("How are events stored in the database?")
    assert (first.split(":")[0], second.split(":")[0]) == ("shop/retry.py", "shop/journal.py")


async def test_hostile_file_names_do_not_make_up_answers(shop: Path) -> None:
    (shop / "shop" / "zebra\nsecret.py:1").write_text("def zebra_stripes():\n    paint()\n", encoding="utf-8")
    (shop / "shop" / "a:7:zebra [x]{y}*.py").write_text("def zebra_herd():\n    graze()\n", encoding="utf-8")
    answer = await Talk(shop).ask("Where are zebra stripes painted?")
    assert "secret.py:1" not in answer.splitlines()


@pytest.mark.parametrize(
    "question",
    [
        "Where is C++ (.*) [a-z parsed {?",
        "¿Dónde se validan los argumentos?",
        "在哪里验证参数",
        "где проверяются аргументы?",
        "\x00\x1b[31m where \\d+ is $HOME `rm -rf`?",
        "Where is " + "x" * 5_000 + "?",
        "where " + "is the very long question about retries and more " * 250 + "?",
    ],
)
async def test_any_question_gets_an_answer_without_a_failing_call(shop: Path, question: str) -> None:
    talk = Talk(shop)
    answer = await talk.ask(question)
    results = [
        result for message in talk.messages if isinstance(message, ToolMessage) for result in message.results
    ]
    assert [result.text for result in results if result.error] == []
    assert CLOSING in answer.splitlines()[-1]


async def test_the_main_agent_sends_one_explore_task_per_part(shop: Path) -> None:
    talk = Talk(shop, tools=[TASK, *BOX.schemas()])
    talk.messages.append(
        UserMessage("Where are tool arguments validated, and where are events written to the database?")
    )
    _, calls, _ = await talk.turn()
    assert [(call.name, call.input) for call in calls] == [
        (
            "Task",
            {
                "subagent_type": "Explore",
                "description": "find tool arguments validated",
                "prompt": "Where are tool arguments validated?",
            },
        ),
        (
            "Task",
            {
                "subagent_type": "Explore",
                "description": "find events written database",
                "prompt": "Where are events written to the database?",
            },
        ),
    ]
    found = [ToolResult(call.id, "Task", await Talk(shop).ask(call.input["prompt"])) for call in calls]
    talk.messages += [AssistantMessage("", tuple(calls)), ToolMessage(tuple(found))]
    text, calls, _ = await talk.turn()
    assert calls == []
    lines = text.splitlines()
    assert lines[0] == "## Where are tool arguments validated?"
    assert lines[1].startswith("shop/validation.py:")
    second = lines.index("## Where are events written to the database?")
    assert lines[second + 1].startswith("shop/journal.py:")
    assert sum(CLOSING in line for line in lines) == 1


async def test_a_simple_question_is_one_task_and_its_answer_has_no_heading(shop: Path) -> None:
    talk = Talk(shop, tools=[TASK, *BOX.schemas()])
    talk.messages.append(UserMessage("Where are read and write timeouts set?"))
    _, calls, _ = await talk.turn()
    assert [call.name for call in calls] == ["Task"]
    found = "a.py:1  x\n\na.py\n     1\tdef x():\n\nThis is a search, not an explanation."
    result = ToolResult(calls[0].id, "Task", found)
    talk.messages += [AssistantMessage("", tuple(calls)), ToolMessage((result,))]
    text, _, _ = await talk.turn()
    assert text == (
        f"a.py:1  x\n\na.py\n     1\tdef x():\n\n{CLOSING}; words searched: read write timeouts set)."
    )


async def test_a_part_whose_task_failed_is_told_under_its_heading(shop: Path) -> None:
    talk = Talk(shop, tools=[TASK])
    talk.messages.append(UserMessage("Where are errors logged? Where are events stored?"))
    _, calls, _ = await talk.turn()
    results = (
        ToolResult(calls[0].id, "Task", "a.py:1"),
        ToolResult(calls[1].id, "Task", "no slot", error=True),
    )
    talk.messages += [AssistantMessage("", tuple(calls)), ToolMessage(results)]
    text, _, _ = await talk.turn()
    assert text.splitlines()[:5] == [
        "## Where are errors logged?",
        "a.py:1",
        "",
        "## Where are events stored?",
        "This part failed: no slot",
    ]


async def test_when_no_task_can_run_the_main_agent_looks_itself(shop: Path) -> None:
    talk = Talk(shop, tools=[TASK, *BOX.schemas()])
    assert (await talk.ask("Where is a failed request retried?")).startswith("shop/retry.py:")
