"""What the front desk of delegation has at hand."""

from pathlib import Path

from msgspec import Struct

from gencode.runtime.ports import Engine


class Means(Struct, frozen=True):
    """What a launcher has at hand.

    `home` is the folder in which background tasks have files and agents have worktrees, `engine` makes
    processes for single tasks, `seconds` is how long an agent works at most where nothing else is said,
    `patience` how long an agent, and then a person, has to answer a question of an agent. With `remembers`, a
    result may be given again for the same work when nothing it rests on has changed. For `command_seconds` an
    agent that has answered waits for its background commands.
    """

    home: Path | None = None
    engine: Engine | None = None
    seconds: float | None = None
    patience: tuple[float, float] = (120.0, 600.0)
    remembers: bool = False
    command_seconds: float = 600.0
