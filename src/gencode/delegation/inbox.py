"""What comes to an agent while it works: letters and the results of its background tasks, each exactly once.

Nothing is queued here that could be lost: a result waits for its sender as long as the journal of its task
has the end of that run and the sender's own does not say that it was handed over, a letter as long as its
number is above that of the last one taken. The message that hands it over says so in the same fact, so that a
crash at any moment leaves it either waiting or delivered, never both and never neither.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from gencode.core.messages import ToolCall, ToolResult, Trace, UserMessage
from gencode.core.outcome import how_ended, outcome_of, output_file, report_lines
from gencode.core.quoting import disarmed_line
from gencode.core.status import Status
from gencode.core.task import Task, comes_later, receipt
from gencode.delegation.live import Live
from gencode.delegation.spawning import LONGEST_LABEL, TELL_THE_USER, posted
from gencode.delegation.unheard import ends_untold
from gencode.runtime.ports import Letter
from gencode.runtime.recorder import Recorder
from gencode.runtime.seen import changed_under

MOST_TOGETHER = 24_000
"""So many characters of results come in one message; each gets its share, the rest is paged."""
LEAST_EACH = 500
STOPPED_WITH = (
    "\nTask {task} of {agent} was stopped with it. To go on with that: "
    'Task(subagent_type="{agent}", prompt=…, resume="{task}").'
)
JUST_THEN = "Interrupted. Task {task} of {agent} ended as {status} just then: its result follows by itself."


class Arrivals:
    """What comes to one agent. `earlier` are its children from before this run, `letters` those that wait.

    `stale` names the files that the agent had read and others have changed since.
    """

    def __init__(
        self,
        record: Recorder,
        cap: Callable[[str], int],
        earlier: Sequence[Task] = (),
        outputs: Path | None = None,
        stale: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._record = record
        self._outputs = outputs
        self._cap = cap
        self._stale = stale
        self._letters: dict[int, Letter] = {}
        self._news: asyncio.Event | None = None
        self._jobs: dict[str, Live] = {}
        self._read: tuple[str, ...] = ()
        self._given: set[str] = set()
        """The receipts in the journal, as far as it was read."""
        self._earlier = {task.id: task for task in earlier if task.background}
        """Those that nobody runs here, as far as something of them was not taken yet."""
        self.has_sent = bool(earlier)
        """Whether the agent has ever sent one, which somebody may wake elsewhere."""

    @property
    def expecting(self) -> bool:
        """Whether anything is out, or has come and was not taken."""
        self._forget()
        return bool(self._letters or self._jobs or self._earlier)

    def put(self, letter: Letter) -> None:
        """Something was said to the agent; it hears it before its next reply, and only once."""
        if letter.number > self._record.task.mailed:
            self._letters[letter.number] = letter
            if self._news is not None:
                self._news.set()

    def expect(self, job: Live) -> None:
        """A task went to the background; its result will come here, and what it came to before as well."""
        self._earlier.pop(job.id, None)
        self._jobs[job.id] = job
        if self._news is not None:
            self._news.set()  # somebody else may have woken it while the agent waits for others

    def cut_off(self, call: ToolCall, job: Live) -> None:
        """A task that was waited for was to end with its sender; one that came to its own end is heard of.

        Of one that was stopped the sender reads what it said until then, and by which id it goes on.
        """
        task = job.task
        if not task.status.ended:
            return
        if task.status in (Status.CANCELLED, Status.INTERRUPTED):
            said = f"\n{report_lines(outcome_of(task), self._cap(task.agent))}" if task.result.strip() else ""
            self._record.remarks[call.id] = STOPPED_WITH.format(task=task.id, agent=task.agent) + said
            return
        text = JUST_THEN.format(task=task.id, agent=task.agent, status=task.status)
        left = Trace(left=(task.id,))
        self._record.answers[call.id] = ToolResult(call.id, call.name, text, error=True, trace=left)
        self.expect(job)

    def is_later(self, task: str) -> bool:
        """Whether the agent was cut off from a task that it waited for, so that it comes by itself."""
        return comes_later(self._record.task, task, background=False)

    def arrived(self, task: Task) -> None:
        """A task that somebody else let go on has ended; one that goes on from here comes by itself."""
        job = self._jobs.get(task.id)
        if job is not None and not job.over:
            return
        self._jobs.pop(task.id, None)
        self._earlier[task.id] = task
        if self._news is not None:
            self._news.set()

    def next_from(self, sender: str, after: int) -> int | None:
        """The number of the first letter of one sender with a higher one; it stays here to be taken."""
        numbers = (number for number, letter in self._letters.items() if letter.sender == sender)
        return min((number for number in numbers if number > after), default=None)

    async def letter_from(self, sender: str, after: int) -> None:
        """Wait until there is such a letter."""
        while self.next_from(sender, after) is None:
            self._news = self._news or asyncio.Event()
            self._news.clear()
            await self._news.wait()

    def take(self) -> list[UserMessage]:
        """Everything that has come since; it counts as taken once it is in the journal."""
        if not (self._letters or self._jobs or self._earlier):
            return []  # asked before every turn of every agent
        come = self._come()
        letters = [self._letters[number] for number in sorted(self._letters)]
        said = [UserMessage(letter.text, letter.sender, mail=letter.number) for letter in letters]
        if not come:
            return said
        share = max(MOST_TOGETHER // len(come), LEAST_EACH)
        texts = [self._text(task, min(self._cap(task.agent), share)) for task in come]
        if any(task.spawned for task in come):
            texts.append(TELL_THE_USER)
        delivers, ends = tuple(task.id for task in come), tuple(task.ended_at or "" for task in come)
        text = "\n\n".join(texts) + changed_under(self._stale())
        return [*said, UserMessage(text, "system", delivers, ends=ends)]

    def _text(self, task: Task, cap: int) -> str:
        file = str(output_file(self._outputs, task.id)) if self._outputs else f"gen task output {task.id}"
        if task.spawned:
            return posted(task, cap, file)
        job = self._jobs.get(task.id)
        newest = job.task if job else self._earlier[task.id]
        last = newest.ended_at == task.ended_at
        return announced(task, cap, "" if last else file)

    async def more(self) -> bool:
        """Wait until there is something to take; False when nothing is out any more."""
        while not self._come() and not self._letters:
            out = [job.work for job in self._jobs.values() if job.work is not None]
            if not out:
                return False
            self._news = self._news or asyncio.Event()
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            try:
                await asyncio.wait([*out, news], return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
            if not self._letters and not self._come() and all(work.done() for work in out):
                return False  # they could not even be written down
        return True

    def _come(self) -> list[Task]:
        self._forget()
        earlier = [end for task in self._earlier.values() for end in self._untold(task)]
        return [*earlier, *(end for job in self._jobs.values() for end in self._untold_of(job))]

    def _untold_of(self, job: Live) -> list[Task]:
        """What a task that is expected has come to so far: it is told, whoever waited for it before."""
        if not job.over and not job.task.past:
            return []
        return self._untold(replace(job.task, background=True), over=job.over)

    def _untold(self, task: Task, *, over: bool = True) -> list[Task]:
        return ends_untold(self._record.task, task, self._was_given, over=over)

    def _forget(self) -> None:
        """Let go of what was handed over; the journal remembers it."""
        if self._letters:
            taken = self._record.task.mailed
            self._letters = {each: letter for each, letter in self._letters.items() if each > taken}
        done, known = self._record.task.delivered, len(self._read)
        if done is not self._read:
            grown = known and len(done) >= known and done[known - 1] == self._read[-1]
            self._given = self._given if grown else set()
            self._given.update(done[known if grown else 0 :])
            self._read = done
        self._earlier = {each: task for each, task in self._earlier.items() if self._untold(task)}
        for job in [each for each in self._jobs.values() if each.over and not self._untold_of(each)]:
            del self._jobs[job.id]

    def _was_given(self, task: str, ended_at: str | None) -> bool:
        return task in self._given or receipt(task, ended_at) in self._given


def announced(task: Task, cap: int, rest: str = "") -> str:
    """One result as the parent's model reads it; `rest` says where a long one is, if not in TaskOutput."""
    outcome = outcome_of(task)
    title = f" ({disarmed_line(task.description, LONGEST_LABEL)})" if task.description else ""
    how = "has finished" if outcome.success else how_ended(outcome)
    head = f"[The background task {task.id} of {task.agent}{title} {how}]"
    return f"{head}\n{report_lines(outcome, cap, rest=rest)}"
