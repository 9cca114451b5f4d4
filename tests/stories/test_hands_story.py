"""A person is asked before files change, sees exactly what would, and the answer counts for just that."""

from pathlib import Path

from gencode import GenCode
from gencode.core.messages import ToolMessage
from gencode.core.questions import Answer, Question
from gencode.core.task import transcript_of
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted

READ = says("", call("Read", file_path="src/a.py"))
EDIT = says("", call("Edit", file_path="src/a.py", old_string="1", new_string="2"))


class Person:
    """Says yes or no to everything, keeps the questions, and may do something before the answer."""

    def __init__(self, allow: bool, meanwhile: Path | None = None) -> None:
        self.allow = allow
        self.meanwhile = meanwhile
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.questions.append(question)
        if self.meanwhile is not None:
            (self.meanwhile / "src").rename(self.meanwhile / "aside")
            (self.meanwhile / "src").symlink_to(self.meanwhile.parent / "outside")
        return Answer(self.allow)


def workspace(tmp_path: Path) -> Path:
    for folder in ("ws/src", "outside"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("x = 1\n")
    return tmp_path / "ws"


async def told(folder: Path, person: Person, *turns: dict[str, object]) -> list[tuple[str, bool]]:
    """The results of the calls of a conversation, each with whether it was an error."""
    provider = ScriptedProvider.of({"main": [*turns, says("done")]})
    async with GenCode.open(folder, model=provider, store=MemoryStore(), asker=person) as gen:
        outcome = await gen.ask("change it").outcome()
        transcript = transcript_of(await gen.history.events(outcome.agent_id))
    answers = [message for message in transcript if isinstance(message, ToolMessage)]
    return [(result.text, result.error) for message in answers for result in message.results]


async def test_a_person_sees_the_difference_and_says_yes(tmp_path: Path) -> None:
    folder, person = workspace(tmp_path), Person(True)
    _, changed = await told(folder, person, READ, EDIT)
    assert [question.preview for question in person.questions] == ["@@ -1,1 +1,1 @@\n-x = 1\n+x = 2"]
    assert changed == ("Edited src/a.py: 1 place changed.\n1\tx = 2", False)
    assert (folder / "src/a.py").read_text() == "x = 2\n"


async def test_a_person_says_no_and_nothing_changes(tmp_path: Path) -> None:
    folder, person = workspace(tmp_path), Person(False)
    write = says("", call("Write", file_path="new/b.py", content="y = 1\n"))
    results = await told(folder, person, READ, EDIT, write)
    assert [error for _, error in results] == [False, True, True]
    assert person.questions[1].preview == "A new file:\n@@ -0,0 +1,1 @@\n+y = 1"
    assert ((folder / "src/a.py").read_text(), (folder / "new").exists()) == ("x = 1\n", False)


async def test_what_is_swapped_while_a_person_thinks_was_not_said_yes_to(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    _, (text, error) = await told(folder, Person(True, meanwhile=folder), READ, EDIT)
    assert (error, "has changed since" in text) == (True, True)
    assert [(tmp_path / name / "a.py").read_text() for name in ("outside", "ws/aside")] == ["x = 1\n"] * 2


async def test_a_file_and_its_change_in_one_reply_are_taken_in_order(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    both = says("", *READ["calls"], *EDIT["calls"], *READ["calls"])
    async with scripted(folder, settings={"permission_mode": "acceptEdits"}, main=[both, says("ok")]) as gen:
        outcome = await gen.ask("go").outcome()
    assert [change.path for change in outcome.evidence.files_changed] == ["src/a.py"]
    assert (folder / "src/a.py").read_text() == "x = 2\n"


async def test_what_the_sender_read_its_agent_must_read_itself(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    send = says("", call("Task", subagent_type="general-purpose", prompt="edit it"))
    mode, worker = {"permission_mode": "acceptEdits"}, [EDIT, READ, EDIT, says("edited")]
    async with scripted(folder, settings=mode, main=[READ, send, says("ok")], general_purpose=worker) as gen:
        outcome = await gen.ask("go").outcome()
        (child,) = await gen.tasks(parent=outcome.agent_id)
        transcript = transcript_of(await gen.history.events(child.agent_id))
    answers = [message.results[0] for message in transcript if isinstance(message, ToolMessage)]
    assert [answer.error for answer in answers] == [True, False, False]
    assert "was not read in this task" in answers[0].text
