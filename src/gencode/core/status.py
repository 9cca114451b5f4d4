"""The status of a task, why a run ended or was stopped, and what a running task waits for.

Programs decide by these; the sentences beside them are for people.
"""

from enum import StrEnum

from msgspec import Struct


class Status(StrEnum):
    """Where a task is; only `completed` is a success."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    EMPTY = "empty"
    LIMIT_REACHED = "limit_reached"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        """Whether only a resume leads on from here."""
        return self not in (Status.PENDING, Status.RUNNING)


_ENDINGS: dict[str, str] = {
    Status.COMPLETED: "has finished",
    Status.EMPTY: "finished without an answer",
    Status.LIMIT_REACHED: "reached a limit",
    Status.TIMED_OUT: "timed out",
    Status.FAILED: "failed",
    Status.CANCELLED: "was cancelled",
    Status.INTERRUPTED: "was interrupted",
}


def as_verb(status: str) -> str:
    """The status of an ended task as the verb of a sentence."""
    return _ENDINGS.get(status, f"ended ({status})")


class WaitFor(StrEnum):
    """What a running task waits for; the line beside it tells the same to people, with particulars."""

    TURN = "turn"
    """Too many agents are at work."""
    MODEL = "model"
    """Its rate limit, or a pause after an error."""
    BUDGET = "budget"
    """Other calls spend from the same budget."""
    COMMANDS = "commands"
    """Its background commands."""
    DATABASE = "database"
    """The store cannot be reached."""
    WORKER = "worker"
    """No worker has taken it."""


class EndReason(StrEnum):
    """Why a run of a task ended; its status says how. `error` tells the same to people, with particulars."""

    FINISHED = "finished"
    """Its agent has answered."""
    NO_ANSWER = "no_answer"
    """The model said nothing."""

    TURN_LIMIT = "turn_limit"
    REPLY_LIMIT = "reply_limit"
    """The reply was longer than the model may write at once."""
    BUDGET = "budget"
    TIME_LIMIT = "time_limit"
    SILENT = "silent"
    """It, or its process, gave no sign of life for too long."""
    NO_WORKER = "no_worker"
    """No worker could take it for as long as it was waited for."""

    PROVIDER_ERROR = "provider_error"
    WITHHELD = "withheld"
    """The vendor of the model did not give its answer out."""
    WRONG_FORM = "wrong_form"
    """Its result does not fit the schema."""
    BLOCKED_BY_HOOK = "blocked_by_hook"
    NOT_STARTED = "not_started"
    """It could not begin as it was asked for."""
    EXTENSION_ERROR = "extension_error"
    """Code that the embedding program brought along failed."""
    BUG = "bug"
    FAILED = "failed"
    """It failed, and nobody wrote down by what: so in files of other products and of version 0.1."""

    STOPPED = "stopped"
    """Somebody stopped it: a person, a client, or an agent."""
    INTERRUPTED = "interrupted"
    """Somebody interrupted its turn."""
    PARENT_STOPPED = "parent_stopped"
    PARENT_GONE = "parent_gone"
    """The process that waited for it is gone."""
    CALLER_GONE = "caller_gone"
    """The program, client or listener that it worked for does not wait for it any more."""
    CLOSING = "closing"
    """The process that ran it was closed, or told to end."""
    SHUT_DOWN = "shut_down"
    """The server that ran it was shut down; it goes on when one runs again."""
    BACKGROUNDED = "backgrounded"
    """It was sent to the background, where another process goes on with it."""
    LEASE_LOST = "lease_lost"
    """Another process has it now."""

    STOP_UNANSWERED = "stop_unanswered"
    """It was stopped, and its process did not answer."""
    PROCESS_DIED = "process_died"
    PROCESS_LOST = "process_lost"
    """Nothing was heard any more of its process, which is on another machine."""
    WORKER_LOST = "worker_lost"
    """The same of a worker, in whose place another one goes on."""
    UNREADABLE = "unreadable"
    """Its journal cannot be read to the end; no fact says so."""


class StopCause(Struct, frozen=True):
    """Why something is stopped: a reason to decide by, and a clause that tells it to people."""

    reason: EndReason
    text: str

    def __str__(self) -> str:
        return self.text


def stop_cause(text: str) -> StopCause:
    """Somebody stopped it; the clause says who."""
    return StopCause(EndReason.STOPPED, text)


CANCELLED = StopCause(EndReason.CLOSING, "it was cancelled")
"""What is said of work that its event loop cut, where nobody had stopped it before."""
DIED = StopCause(EndReason.PROCESS_DIED, "the process that ran it died")
STOP_UNANSWERED = StopCause(EndReason.STOP_UNANSWERED, "it was stopped, and its process did not answer")
LOST = StopCause(EndReason.PROCESS_LOST, "the process that ran it died, or could not reach the database")
"""What can be said of a process of another machine of which nothing was heard for too long."""
TAKEN_OVER = StopCause(
    EndReason.WORKER_LOST, "the worker that ran it died, was told to end, or could not reach the database"
)
"""The same of a worker in whose place another one goes on, perhaps itself."""
PARENT_STOPPED = StopCause(EndReason.PARENT_STOPPED, "the agent that sent it was stopped")
TOLD_TO_END = StopCause(EndReason.CLOSING, "the program was told to end")
PARENT_GONE = StopCause(EndReason.PARENT_GONE, "the process that sent it is gone")
