"""The command `gen`, also `python -m gencode`. The version is told before anything else is imported."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # Python put the folder we are in there, and what lies in it is not ours to run

from gencode import __version__


def main() -> int:
    """Run the command line and give its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"], ["version"]):
        print(f"gen {__version__}")
        return 0
    try:
        from gencode.interfaces.cli.main import main as run

        code = run(arguments)
    except KeyboardInterrupt:  # before the command line could take over
        return 130
    if "asyncio" not in sys.modules:  # so nothing was begun that could be left
        return code
    from gencode.interfaces.event_loop_runner import leave

    return leave(code)


if __name__ == "__main__":
    sys.exit(main())
