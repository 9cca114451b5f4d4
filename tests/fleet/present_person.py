"""A person who is present."""

from gencode.core.questions import Answer, Question
from tests.fleet.driving import Fleet


def present(fleet: Fleet) -> bool:
    return fleet.rows("SELECT count(*) FROM gen_presence") != [["0"]]


class Saying:
    """A person who always says the same and remembers what they were asked."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[Question] = []
        self._answers = list(answers)

    async def answer(self, question: Question) -> Answer:
        self.asked.append(question)
        return self._answers[min(len(self.asked), len(self._answers)) - 1]
