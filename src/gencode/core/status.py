"""The status of a task, why a run ended or was stopped, and what a running task waits for.

Programs decide by these values; the sentences beside them are for people.
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
        """Whether the task has ended, so that only a resume continues it."""
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
    """What a running task waits for; the message beside it says the same to people, in detail."""

    TURN = "turn"
    """Too many agents are at work."""
    MODEL = "model"
    """The rate limit of its model, or a pause after an error."""
    BUDGET = "budget"
    """Other calls spend from the same budget."""
    COMMANDS = "commands"
    """Its background commands."""
    DATABASE = "database"
    """The store cannot be reached."""
    WORKER = "worker"
    """No worker has taken it."""


class EndReason(StrEnum):
    """Why a run of a task ended; its status says how. `error` says the same to people, in detail."""

    FINISHED = "finished"
    """Its agent has answered."""
    NO_ANSWER = "no_answer"
    """The model's reply was empty."""

    TURN_LIMIT = "turn_limit"
    REPLY_LIMIT = "reply_limit"
    """The reply reached the model's limit of output tokens."""
    BUDGET = "budget"
    TIME_LIMIT = "time_limit"
    SILENT = "silent"
    """It, or its process, gave no sign of life for too long."""
    NO_WORKER = "no_worker"
    """No worker took it within the time limit."""

    PROVIDER_ERROR = "provider_error"
    WITHHELD = "withheld"
    """The provider withheld the answer of the model."""
    WRONG_FORM = "wrong_form"
    """Its result does not match the schema."""
    BLOCKED_BY_HOOK = "blocked_by_hook"
    NOT_STARTED = "not_started"
    """It could not start as requested."""
    EXTENSION_ERROR = "extension_error"
    """Code of the embedding program failed."""
    BUG = "bug"
    FAILED = "failed"
    """It failed and no cause was recorded, as in files of other products and of version 0.1."""

    STOPPED = "stopped"
    """Somebody stopped it: a person, a client, or an agent."""
    INTERRUPTED = "interrupted"
    """Somebody interrupted its turn."""
    PARENT_STOPPED = "parent_stopped"
    PARENT_GONE = "parent_gone"
    """The process that waited for it is gone."""
    CALLER_GONE = "caller_gone"
    """The program, client or listener that it worked for stopped waiting for it."""
    CLOSING = "closing"
    """The process that ran it was closed, or received a signal to end."""
    SHUT_DOWN = "shut_down"
    """The server that ran it was shut down; a server that starts again resumes it."""
    BACKGROUNDED = "backgrounded"
    """It was moved to the background, where another process continues it."""
    LEASE_LOST = "lease_lost"
    """Another process has its lease now."""

    STOP_UNANSWERED = "stop_unanswered"
    """It was stopped, and its process did not respond."""
    PROCESS_DIED = "process_died"
    PROCESS_LOST = "process_lost"
    """Its process, on another machine, gave no sign of life."""
    WORKER_LOST = "worker_lost"
    """Its worker gave no sign of life, and another one continues it."""
    UNREADABLE = "unreadable"
    """Its journal cannot be read to the end; no event says this."""


class StopCause(Struct, frozen=True):
    """Why something is stopped: a reason to decide by, and a clause for people."""

    reason: EndReason
    text: str

    def __str__(self) -> str:
        return self.text


def stop_cause(text: str) -> StopCause:
    """The cause for a stop by somebody, whom the clause names."""
    return StopCause(EndReason.STOPPED, text)


CANCELLED = StopCause(EndReason.CLOSING, "it was cancelled")
"""The cause for work that was cancelled by its event loop without being stopped first."""
DIED = StopCause(EndReason.PROCESS_DIED, "the process that ran it died")
STOP_UNANSWERED = StopCause(EndReason.STOP_UNANSWERED, "it was stopped, and its process did not answer")
LOST = StopCause(EndReason.PROCESS_LOST, "the process that ran it died, or could not reach the database")
"""The cause for a process on another machine that gave no sign of life."""
TAKEN_OVER = StopCause(
    EndReason.WORKER_LOST, "the worker that ran it died, was told to end, or could not reach the database"
)
"""The cause for a worker that gave no sign of life and is replaced by another one, perhaps itself."""
PARENT_STOPPED = StopCause(EndReason.PARENT_STOPPED, "its parent was stopped")
TOLD_TO_END = StopCause(EndReason.CLOSING, "the program was told to end")
PARENT_GONE = StopCause(EndReason.PARENT_GONE, "the process that started it is gone")
