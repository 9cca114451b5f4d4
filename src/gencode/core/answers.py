"""What an agent has answered in one run, whatever came to it after that: part of its task's fold."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.messages import AssistantMessage, Message, ToolMessage, UserMessage


class Answers(Struct, frozen=True, gc=False, omit_defaults=True):
    """What it said `before` something else came, and whether its last message is a `whole` reply.

    A reply is whole when it calls no tool and was not cut.
    """

    before: str = ""
    whole: bool = False

    def with_these(self, text: str) -> str:
        """All that counts as said when this was said last; who only says the same again is heard once."""
        words = text.strip()
        if not self.before:
            return text
        again = self.before == words or self.before.endswith(f"\n\n{words}")
        return self.before if again else f"{self.before}\n\n{words}"

    def after_reply(self, message: AssistantMessage) -> "Answers":
        """The same after one more reply."""
        whole = bool(message.text.strip()) and not message.calls and not message.partial
        return self if whole is self.whole else replace(self, whole=whole)

    def after_hearing(self, message: UserMessage, said: str, *, results: bool = False) -> "Answers":
        """The same after something came to the agent that has `said` this.

        A letter takes nothing of an answer back, and with `results` a result does not either: who waits for
        some hands back what it says after the last of them, but a person reads all of it. What else is told
        to an agent asks it to say the same better.
        """
        if not self.whole:
            return self
        stays = message.mail or (results and message.delivers)
        return Answers(said.strip() if stays else self.before)


def said_to_the_person(messages: Iterable[Message]) -> str:
    """Everything that an agent says to the person in one turn, whatever comes to it meanwhile."""
    answers, said = Answers(), ""
    for message in messages:
        match message:
            case AssistantMessage():
                said = answers.with_these(message.text) if message.text.strip() else said
                answers = answers.after_reply(message)
            case UserMessage():
                answers = answers.after_hearing(message, said, results=True)
            case ToolMessage():
                pass
    return said
