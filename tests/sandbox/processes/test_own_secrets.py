"""Keys of our own process are not where commands could read them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interfaces.cli.running import GEN, gen, script

KEY = "not-a-real-key-but-long-enough"
SHOW = """
import os, subprocess, sys
from gencode.sandbox.processes.own_secrets import hide_own_secrets
hide_own_secrets()
child = "import os; print(os.environ['ANTHROPIC_API_KEY'], os.environ['PLAIN'])"
print(os.environ["ANTHROPIC_API_KEY"])
told = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
print(told.stdout, end="", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_a_key_is_gone_from_proc_and_still_there_for_us_and_our_children() -> None:
    environ = {**os.environ, "ANTHROPIC_API_KEY": KEY, "PLAIN": "plain"}
    process = subprocess.Popen(
        [sys.executable, "-c", SHOW], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        environ_file = Path(f"/proc/{process.pid}/environ")
        shown = environ_file.read_bytes() if os.geteuid() == 0 else b"PLAIN=plain"
        process.communicate("")
    assert said == [f"{KEY}\n", f"{KEY} plain\n"]
    assert (KEY.encode() in shown, b"PLAIN=plain" in shown) == (False, True)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_no_command_finds_a_key_of_gen_where_there_is_no_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_SANDBOX", "off")
    text = f"grep -salF -e {KEY[:-3]} /proc/[0-9]*/environ; echo looked at $(ls -d /proc/[0-9]* | wc -l)"
    calls = [{"name": "Bash", "input": {"command": text}}]
    model = script(tmp_path, main=[{"calls": calls}, {"text": "done"}])
    words = ("-p", "go", "--model", model, "--permission-mode", "dontAsk", "--output-format", "json")
    # A process that is started with the key in its environment, as by a shell.
    begun = ["/usr/bin/env", f"ANTHROPIC_API_KEY={KEY}", *GEN, *words]
    ended = subprocess.run(begun, cwd=tmp_path, capture_output=True, text=True, check=True)
    session = json.loads(ended.stdout)["sessionId"]
    shown = gen("sessions", "show", session, "--json", cwd=tmp_path).json
    (result,) = [each for message in shown["transcript"] for each in message.get("results", ())]
    assert ("looked at" in result["text"], "/environ" in result["text"]) == (True, False), result
