"""A word to an agent, through the public door: heard once, at the next boundary; it wakes who has ended."""

import asyncio
from pathlib import Path

import pytest

from gencode.app import components
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.testing import call, says, scripted
from tests.tasks.words import heard, numbered, results, said

LOOK = says("", call("LS", path="."), delay_ms=200)
SEND = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
CHILD = "00000002"


async def test_a_running_agent_hears_a_word_before_its_next_reply_and_only_once(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[LOOK, says("as you say")]) as gen:
        handle = await gen.task("Explore", "look", background=True)
        await handle.send("leave the tests out")
        outcome = await handle.result()
        words = heard(await said(gen, handle.id))
        waiting = await components(gen).store.unread_messages(handle.id)
    assert [(each.text, each.sender, each.mail) for each in words] == [
        ("look", "user", 0),
        ("leave the tests out", "user", 1),
    ]
    assert (outcome.status, outcome.result, waiting) == (Status.COMPLETED, "as you say", [])


async def test_an_agent_steers_the_one_it_sent(tmp_path: Path) -> None:
    word = call("SendMessage", task_id=CHILD, message="only the tests")
    main = [says("", SEND), says("", word), says("sent"), says("told")]
    async with scripted(tmp_path, store=numbered(), main=main, Explore=[LOOK, says("the tests")]) as gen:
        outcome = await gen.ask("go").outcome()
        answer = results(await said(gen, outcome.agent_id))[1]
        words = heard(await said(gen, CHILD))
    assert answer == f"Explore (task {CHILD}) gets the message before its next reply."
    assert [(each.text, each.sender) for each in words] == [
        ("look", "user"),
        ("[main (task 00000001) says]\nonly the tests", "00000001"),
    ]


async def test_a_finished_agent_is_woken_and_its_result_comes_back(tmp_path: Path) -> None:
    word = call("SendMessage", task_id=CHILD, message="and the tests?")
    main = [says("", SEND), says("waiting"), says("", word), says("waiting again"), says("both told")]
    explore = [says("the code"), says("the tests")]
    async with scripted(tmp_path, store=numbered(), main=main, Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
        (child,) = await gen.tasks()
        words = heard(await said(gen, outcome.agent_id))
    assert (outcome.result, child.status, child.result, child.turns) == (
        "both told",
        Status.COMPLETED,
        "the tests",
        2,
    )
    assert [each.delivers for each in words] == [(), (CHILD,), (CHILD,)]


async def test_an_agent_whose_file_names_it_writes_to_its_sibling_and_to_nobody_else(
    tmp_path: Path, home: Path
) -> None:
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    text = "---\nname: Talker\ndescription: Talks.\ntools: SendMessage, LS\n---\nTalk.\n"
    (agents / "Talker.md").write_text(text)
    talk = call("Task", subagent_type="Talker", prompt="talk", run_in_background=True)
    words = [call("SendMessage", task_id=task, message="hello") for task in (CHILD, "00000009")]
    async with scripted(
        tmp_path,
        store=numbered(),
        main=[says("", SEND, talk), *[says("waiting")] * 3],
        Explore=[LOOK, LOOK, says("heard it")],
        Talker=[says("", *words), says("said it")],
    ) as gen:
        await gen.ask("go").outcome()
        answers = results(await said(gen, "00000003"))
        sibling = heard(await said(gen, CHILD))
    assert answers[0] == f"Explore (task {CHILD}) gets the message before its next reply."
    assert "00000009" in answers[1] and "You have none." in answers[1]
    assert sibling[1].text == "[Talker (task 00000003) writes]\nhello"


async def test_an_agent_whose_file_does_not_name_it_writes_to_nobody(tmp_path: Path) -> None:
    word = call("SendMessage", task_id="00000001", message="hello")
    async with scripted(tmp_path, store=numbered(), general_purpose=[says("", word), says("fine")]) as gen:
        outcome = await gen.task("general-purpose", "go")
        answer = results(await said(gen, outcome.agent_id))[0]
    assert answer.startswith("There is no tool 'SendMessage' for general-purpose.")


async def test_a_word_to_a_conversation_at_rest_is_heard_in_its_next_turn(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=[says("one"), says("two")]) as gen:
        first = await gen.ask("go").outcome()
        sent = await gen.send(first.agent_id, "by the way")
        await gen.ask("and now", session=first.agent_id).outcome()
        words = [each.text for each in heard(await said(gen, first.agent_id))]
    assert (sent.outcome.status, sent.resumed, words) == (
        Status.COMPLETED,
        False,
        ["go", "by the way", "and now"],
    )


async def test_nobody_speaks_to_a_task_that_is_not_there(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("never")]) as gen:
        with pytest.raises(UserMistake, match="no task"):
            await gen.send("00000000", "hello")


async def test_a_question_goes_to_the_sender_first(tmp_path: Path) -> None:
    asks = call(
        "AskUserQuestion",
        questions=[{"question": "Which one?", "options": [{"label": "left"}, {"label": "right"}]}],
    )
    main = [
        says("", call("Task", subagent_type="general-purpose", prompt="choose")),
        says("", call("SendMessage", task_id=CHILD, message="right")),
        *[says("it went right")] * 2,
    ]
    async with (
        asyncio.timeout(60),
        scripted(
            tmp_path,
            settings={"permission_mode": "dontAsk"},
            store=numbered(),
            main=main,
            general_purpose=[says("", asks), says("went right")],
        ) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        asked = heard(await said(gen, outcome.agent_id))
        answer = results(await said(gen, CHILD))
        words = heard(await said(gen, CHILD))
    assert outcome.result == "it went right"
    assert asked[1].text.startswith(
        f"[general-purpose (task {CHILD}) asks]\n1. Which one?\n   - left\n   - right\n"
    )
    assert answer == ["The agent main answered; the answer is the message after this one."]
    assert words[-1].text == "[main (task 00000001) says]\nright"


async def test_a_question_that_nobody_answers_has_a_default(tmp_path: Path) -> None:
    which = {"question": "Which one?", "options": [{"label": "left"}], "default": "left"}
    asks = call("AskUserQuestion", questions=[which])
    async with scripted(tmp_path, main=[says("", asks), says("left then")]) as gen:
        outcome = await gen.ask("go").outcome()
        answer = results(await said(gen, outcome.agent_id))[0]
    assert answer == (
        "Nobody is available to answer.\n- Which one? → (no answer; your default: left)\n"
        "Say in your report which defaults you assumed."
    )
