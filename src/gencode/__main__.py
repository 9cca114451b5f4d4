"""The command `gen`, also `python -m gencode`. The version is told before anything else is imported."""

import sys

from gencode import __version__


def main() -> int:
    """Run the command line and give its exit code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        print(f"gen {__version__}")
        return 0
    try:
        from gencode.surfaces.cli import main as run

        return run(arguments)
    except KeyboardInterrupt:  # before the command line could take over
        return 130


if __name__ == "__main__":
    sys.exit(main())
