"""What can be typed about a shared database: `gen worker` and `gen migrate`."""

from gencode.interfaces.cli.option_types import Commands, add, count, port, seconds


def add_worker(commands: Commands) -> None:
    """`gen worker`."""
    says = "execute queued tasks for a shared database"
    parser = add(commands, "worker", "worker:run", says)
    parser.add_argument("--concurrency", type=count, metavar="N", help="so many tasks at once (default 8)")
    parser.add_argument(
        "--agents", metavar="NAMES", help="only tasks of these agents, with commas between; all by default"
    )
    parser.add_argument(
        "--workspace", metavar="DIR", help="only tasks of folders in this one; the current one by default"
    )
    parser.add_argument(
        "--folders",
        choices=("auto", "shared", "away"),
        help="use folders as they are that are really shared (auto), all at the same place, or none; of "
        "others a copy is made with git",
    )
    parser.add_argument(
        "--lease-seconds",
        type=seconds,
        metavar="S",
        help="others take over after so long without a sign of life (default 15); the same for all workers",
    )
    parser.add_argument(
        "--drain-seconds",
        type=seconds,
        metavar="S",
        help="when told to end, let tasks run for so long before others go on with them (default 60)",
    )
    parser.add_argument(
        "--health-port", type=port, metavar="N", help="answer /health there; a free port when it is not said"
    )


def add_migrate(commands: Commands) -> None:
    """`gen migrate`."""
    parser = add(commands, "migrate", "migrate:run", "bring the database up to date, or copy it to Postgres")
    parser.add_argument(
        "--to",
        metavar="URL",
        help="copy the database of this machine to a Postgres database; - reads the address from stdin",
    )
