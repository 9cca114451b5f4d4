"""Checks the arguments that a program passes to the Python API: a wrong type is one clear sentence.

A type checker finds them earlier; without one the error would come from deep inside, or be a journal that
cannot be read.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any, cast

from gencode.agent.toolbox import Tool
from gencode.budgets.limits import check_budget
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.messages import UserMessage

KINDS = ", ".join(Budget.__struct_fields__)
TASK = "id of a task"
MESSAGE = "message to a task"
LONGEST = 200


def checked_text(what: str, said: object) -> str:
    """A text argument."""
    if not isinstance(said, str):
        raise UserMistake(f"The {what} must be a string, not {shown(said)}.")
    return said


def checked_bool(name: str, said: object) -> bool:
    """A truth value."""
    if not isinstance(said, bool):
        raise UserMistake(f"{name} must be True or False, not {shown(said)}.")
    return said


def checked_message(said: object) -> UserMessage:
    """A message of a person, perhaps with images."""
    return said if isinstance(said, UserMessage) else UserMessage(checked_text("prompt", said))


def checked_arguments(said: object) -> dict[str, Any]:
    """The arguments of a tool call."""
    if not isinstance(said, dict):
        raise UserMistake(f"The arguments of a call must be a dictionary, not {shown(said)}.")
    return cast("dict[str, Any]", said)


def checked_event_number(said: object) -> int:
    """The number of an event, or 0 for before the first."""
    if not isinstance(said, int) or isinstance(said, bool) or said < 0:
        raise UserMistake(f"An event number must be a whole number, 0 or more, not {shown(said)}.")
    return said


def checked_budget(said: object) -> Budget:
    """A budget, from a record or a dictionary."""
    if isinstance(said, Mapping):
        named = cast("Mapping[Any, Any]", said)
        if unknown := ", ".join(str(name) for name in named if name not in Budget.__struct_fields__):
            raise UserMistake(f"A budget has no {unknown[:LONGEST]}; its fields are: {KINDS}.")
        said = Budget(**named)
    if not isinstance(said, Budget):
        raise UserMistake(
            f"A budget must be Budget(…) or a dictionary with some of {KINDS}, not {shown(said)}."
        )
    check_budget(said)
    return said


def check_open_arguments(cwd: object, model: object, settings: object, store: object, asker: object) -> None:
    """UserMistake for arguments with which no GenCode can be opened."""
    named = model is None or isinstance(model, str)
    _refuse_unless("cwd must be the path of a folder", cwd, isinstance(cwd, str | os.PathLike))
    provider = "model must be the name of a model, or a provider with stream(request)"
    _refuse_unless(provider, model, named or _can(model, "stream"))
    table = settings is None or _is_table(settings)
    _refuse_unless("settings must be a dictionary of names and values", settings, table)
    _refuse_unless(
        "store must be a journal, such as MemoryStore()", store, store is None or _can(store, "owned")
    )
    _refuse_unless("asker must be an object with ask(question)", asker, asker is None or _can(asker, "ask"))


def checked_tools(said: object) -> tuple[Tool, ...]:
    """The tools of the embedding program."""
    given = tuple(cast("Iterable[object]", said)) if isinstance(said, Iterable) else (said,)
    for each in given:
        if not isinstance(each, Tool):
            raise UserMistake(f"tools must be a list of functions made with @tool, not {shown(each)}.")
    return cast("tuple[Tool, ...]", given)


def shown(said: object) -> str:
    """A wrong value, shortened for a message."""
    told = repr(said)
    return told if len(told) <= LONGEST else f"{told[:LONGEST]}…"


def _refuse_unless(what: str, said: object, fits: object) -> None:
    if not fits:
        raise UserMistake(f"{what}, not {shown(said)}.")


def _is_table(said: object) -> bool:
    return isinstance(said, Mapping)


def _can(said: object, name: str) -> bool:
    """Whether an object, not its class, has such a method."""
    return not isinstance(said, type) and callable(getattr(said, name, None))
