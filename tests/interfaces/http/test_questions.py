"""Questions over HTTP: seen by everybody who may look, answered only by who may answer."""

from pathlib import Path
from typing import Any

from gencode.testing import call, says
from tests.interfaces.http.serving import Client, Served, served, take

EDIT = call("Write", file_path="notes.txt", content="one\ntwo\n")
INQUIRY = call(
    "AskUserQuestion",
    questions=[{"question": "Which one?", "header": "choice", "options": [{"label": "a"}, {"label": "b"}]}],
)


async def asked(site: Served, *calls: Any) -> tuple[str, Any]:
    answer = await site.client.post("/api/tasks", {"agent": "general-purpose", "prompt": "do it"})
    found = await site.client.until("/api/questions", lambda told: bool(told["questions"]))
    return answer.json["agentId"], found["questions"][0]


async def reply(client: Client, number: int, **body: Any) -> int:
    return (await client.post(f"/api/questions/{number}", body)).status


async def test_a_question_shows_who_wants_exactly_what_and_a_yes_lets_it(tmp_path: Path) -> None:
    async with served(tmp_path, general_purpose=[says("", EDIT), says("written")]) as site:
        task, question = await asked(site)
        assert (question["task"], question["agent"], question["tool"]) == (task, "general-purpose", "Write")
        assert question["input"] == {"file_path": "notes.txt", "content": "one\ntwo\n"}
        assert "+one" in question["preview"] and question["decision"]["action"] == "ask"
        begun = (await site.client.get(f"/api/tasks/{task}")).json["startedAt"]
        assert begun <= question["since"] < question["until"]
        assert await reply(site.client, question["number"], allow=True) == 200
        assert (await site.client.ended(task))["result"] == "written"
        assert (tmp_path / "notes.txt").read_text() == "one\ntwo\n"
        assert await reply(site.client, question["number"], allow=True) == 404


async def test_an_answer_to_a_question_of_an_earlier_server_answers_none(tmp_path: Path) -> None:
    async with served(tmp_path, general_purpose=[says("", EDIT), says("written")]) as site:
        _, before = await asked(site)
    async with served(tmp_path, general_purpose=[says("", EDIT), says("", EDIT), says("written")]) as site:
        found = await site.client.until("/api/questions", lambda told: bool(told["questions"]))
        for number in (before["number"], 1, 0, "x", "9" * 40):
            answer = await site.client.post(f"/api/questions/{number}", {"allow": True})
            assert (answer.status, "no longer pending" in answer.json["error"]) == (404, True)
        assert (await site.client.get("/api/questions")).json == found
        assert not (tmp_path / "notes.txt").exists()


async def test_who_may_only_look_or_act_cannot_approve(tmp_path: Path) -> None:
    async with served(
        tmp_path, share=["view", "act", "answer"], general_purpose=[says("", EDIT), says("not written")]
    ) as site:
        task, question = await asked(site)
        number = question["number"]
        for place in (0, 1):
            assert (await site.shared(place).get("/api/questions")).json["questions"] == [question]
            assert await reply(site.shared(place), number, allow=True) == 403
        assert (await site.client.get("/api/questions")).json["questions"] == [question]
        assert await reply(site.shared(2), number, allow=False, why="not today") == 200
        assert (await site.client.ended(task))["result"] == "not written"
        assert not (tmp_path / "notes.txt").exists()


async def test_a_yes_reaches_no_farther_than_was_offered(tmp_path: Path) -> None:
    async with served(tmp_path, general_purpose=[says("", EDIT), says("done")]) as site:
        _, question = await asked(site)
        number = question["number"]
        assert await reply(site.client, number, allow=True, network=True) == 400
        assert await reply(site.client, number, allow=True, words=["yes"]) == 400
        assert await reply(site.client, number, allow=True, reach="for ever") == 400
        if question["reaches"] == ["call"]:
            assert await reply(site.client, number, allow=True, reach="always") == 400
        assert (await site.client.get("/api/questions")).json["questions"] == [question]


async def test_an_agent_is_told_in_words_what_it_wanted_to_know(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("", INQUIRY), says("thanks")]) as site:
        begun = await site.client.post("/api/conversations/web/ask", {"text": "go"})
        found = await site.client.until("/api/questions", lambda told: bool(told["questions"]))
        question = found["questions"][0]
        assert [each["question"] for each in question["inquiries"]] == ["Which one?"]
        assert await reply(site.client, question["number"], allow=True) == 400
        assert await reply(site.client, question["number"], allow=True, words=["b"]) == 200
        session = begun.json["sessionId"]
        assert (await site.client.ended(session))["result"] == "thanks"
        said = (await site.client.get(f"/api/tasks/{session}/transcript")).json["transcript"]
        assert "b" in said[2]["results"][0]["text"]


async def test_the_stream_tells_that_questions_have_changed(tmp_path: Path) -> None:
    async with (
        served(tmp_path, general_purpose=[says("", EDIT), says("done")]) as site,
        site.client.stream("/api/stream") as stream,
    ):
        _, question = await asked(site)
        rung = await take(stream, lambda frame: frame.type == "QuestionsChanged")
        assert rung[-1].data["waiting"] == [question["number"]]
        assert rung[-1].id is None
        await reply(site.client, question["number"], allow=False)
        rung = await take(stream, lambda frame: frame.type == "QuestionsChanged")
        assert rung[-1].data["waiting"] == []
