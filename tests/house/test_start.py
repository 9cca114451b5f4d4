"""The shortest command stays short: telling the version loads nothing."""

import subprocess
import sys

import gencode

NOT_FOR_A_VERSION = {
    *("argparse", "click", "typer", "optparse", "importlib.metadata", "asyncio", "msgspec", "rich", "yaml"),
    *(
        "sqlite3",
        "logging",
        "subprocess",
        "gencode.app",
        "gencode.core",
        "gencode.settings",
        "gencode.interfaces",
    ),
}


def loaded_by(*arguments: str) -> tuple[str, set[str]]:
    """What `python ARGUMENTS` prints, and every module it imports."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True
    )
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return ended.stdout, {line.rpartition("|")[2].strip() for line in lines}


def test_the_version_is_told_without_loading_anything() -> None:
    run_main = (
        "import sys; sys.argv = ['gen', '--version']; from gencode.__main__ import main; sys.exit(main())"
    )
    said, loaded = loaded_by("-I", "-c", run_main)
    assert said == f"gen {gencode.__version__}\n"
    assert sorted(loaded & NOT_FOR_A_VERSION) == []


def test_the_module_and_the_command_tell_the_same_version() -> None:
    said, loaded = loaded_by("-I", "-m", "gencode", "--version")
    assert said == f"gen {gencode.__version__}\n"
    assert "argparse" not in loaded


def test_the_first_request_loads_no_shell_parser_and_no_worktrees() -> None:
    """Whoever only asks a question waits for neither."""
    _, loaded = loaded_by("-c", "import gencode.wiring, gencode.interfaces.cli.ask, gencode.sandbox.shells")
    late = (
        "gencode.permissions.bash.parser",
        "gencode.workspaces.worktrees.",
        "gencode.workspaces.transfer.",
    )
    assert sorted(name for name in loaded if name.startswith(late)) == []
