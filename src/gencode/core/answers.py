"""What an agent has answered in one run, whatever came to it after that: part of its task's fold."""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.messages import AssistantMessage, Message, ToolMessage, UserMessage

BETWEEN = "\n\n"


class RunAnswers(Struct, frozen=True, gc=False, omit_defaults=True):
    """What it said `before` something else came, and whether its last message is a `whole` reply.

    A reply is whole when it calls no tool and was not cut. `begins` is where each reply but the first begins
    in what it said before.
    """

    before: str = ""
    whole: bool = False
    begins: tuple[int, ...] = ()

    def with_these(self, text: str) -> str:
        """All that counts as said when this was said last; who only says the same again is heard once."""
        words = text.strip()
        if not self.before:
            return text
        again = not words or self.before == words or self.before.endswith(f"{BETWEEN}{words}")
        return self.before if again else f"{self.before}{BETWEEN}{words}"

    def backwards(self) -> Iterator[tuple[str, str]]:
        """Each reply that was said before, the last one first, and all that was said from it on."""
        end = len(self.before)
        for begin in reversed((0, *self.begins)) if self.before else ():
            yield self.before[begin:end], self.before[begin:]
            end = begin - len(BETWEEN)

    def after_reply(self, message: AssistantMessage) -> "RunAnswers":
        """The same after one more reply."""
        whole = bool(message.text.strip()) and not message.calls and not message.partial
        return self if whole is self.whole else replace(self, whole=whole)

    def after_hearing(self, message: UserMessage, said: str, *, results: bool = False) -> "RunAnswers":
        """The same after something came to the agent that has `said` this.

        A letter takes nothing of an answer back, and with `results` a result does not either: who waits for
        some hands back what it says after the last of them, but a person reads all of it. What else is told
        to an agent asks it to say the same better.
        """
        if not self.whole:
            return self
        if not (message.mail or (results and message.delivers)):
            return replace(self, whole=False)
        said, old = said.strip(), len(self.before)
        more = (old + len(BETWEEN),) if 0 < old < len(said) else ()
        return RunAnswers(said, begins=(*self.begins, *more))


def said_to_the_person(messages: Iterable[Message]) -> str:
    """Everything that an agent says to the person in one turn, whatever comes to it meanwhile."""
    answers, said = RunAnswers(), ""
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
