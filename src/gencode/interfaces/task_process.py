"""A process that runs one task, started by another GenCode: `python -m gencode.interfaces.task_process`.

Its order comes on stdin and its answer goes to stdout, one line each; after that it has no terminal, no
caller and no descriptor of theirs. Only a bound worker goes on listening: it ends when its caller is gone.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from gencode.app import GenCode, WorkOrder
from gencode.core.errors import GenCodeError
from gencode.core.outcome import as_json
from gencode.core.status import PARENT_GONE, TOLD_TO_END
from gencode.interfaces.event_loop_runner import leave, run_to_end
from gencode.interfaces.log_file import start_log
from gencode.questions.question_desk import QuestionDesk

FIRST_TO_GO = "800"


class CallerPipe:
    """The line to whoever started this process, away from stdin and stdout.

    Whatever else is printed goes to the log, and whoever reads stdin, a tool of a plugin say, finds it empty.
    """

    def __init__(self) -> None:
        self.line = os.dup(0)
        self._pipe: int | None = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def order(self) -> bytes:
        """What is to be done."""
        with os.fdopen(self.line, "rb", closefd=False) as line:
            return line.readline()

    def answer(self, begun: object) -> None:
        """Tell the caller, if it is still there, and let go of it."""
        if self._pipe is not None:
            with suppress(OSError):
                os.write(self._pipe, as_json(begun).encode() + b"\n")
            os.close(self._pipe)
            self._pipe = None


def main() -> int:
    """Run the task of the order; 0 when it ended and that is written down."""
    pipe = CallerPipe()
    start_log(verbose=False)
    _volunteer()
    try:
        order = msgspec.json.decode(pipe.order(), type=WorkOrder)
        return run_to_end(_run(order, pipe))
    except msgspec.MsgspecError as error:
        pipe.answer({"mistake": f"The order for a task cannot be read: {error}."})
    except GenCodeError as trouble:
        pipe.answer({"mistake": str(trouble)})
    return 1


async def _run(order: WorkOrder, pipe: CallerPipe) -> int:
    # Whoever is there says whether they want to be asked by agents in the background.
    settings = {**order.flags, "background_questions": True}
    async with GenCode.open(order.cwd, settings=settings, asker=QuestionDesk(here=False)) as gen:
        job = await gen.take_on(order.handover)
        if order.handover.bound and not order.handover.background:
            job.background_signal()
        _listen(gen, pipe.line, bound=order.handover.bound)
        pipe.answer({"task": job.id})
        try:
            await job.ended()
        finally:
            if not order.handover.bound:
                await _let_end(gen)
    return 0


async def _let_end(gen: GenCode) -> None:
    """Wait for what the task has sent to the background, which nobody meant who stopped only that."""
    while working := [live.work for live in gen.running if live.work is not None]:
        await asyncio.wait(working)


def _listen(gen: GenCode, line: int, *, bound: bool) -> None:
    """Stop softly when told to, and when the caller of a bound task is gone."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, gen.running.stop, TOLD_TO_END)
    for number in (signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, _no_terminal_has_a_say)
    if not bound:
        os.close(line)
        return

    def heard() -> None:
        if not os.read(line, 1024):
            loop.remove_reader(line)
            gen.running.stop(PARENT_GONE)

    loop.add_reader(line, heard)


def _no_terminal_has_a_say() -> None:
    """What would end a program in a terminal means nothing here, also when it is sent by hand."""


def _volunteer() -> None:
    """Where memory runs out, this process goes first, and not the one that started it or any other."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)


if __name__ == "__main__":
    sys.exit(leave(main()))
