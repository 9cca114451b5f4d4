"""The processes of a measurement: the fake server, a driver, and how the server's counts are read."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
SECONDS = 180.0
"""No single process of the benchmark runs longer than this."""


class Work(NamedTuple):
    """One workload: its arguments for the driver, how slow the server is, and whether it streams."""

    arguments: tuple[str, ...]
    latency_ms: int = 0
    streamed: bool = True


class Server(NamedTuple):
    """A fake server that runs."""

    url: str

    def told(self) -> dict[str, Any]:
        """What it was asked so far."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"{self.url}/_stats", timeout=20) as answer:
            return json.load(answer)


@contextmanager
def fake_server(latency_ms: int = 0, *, streamed: bool = True) -> Generator[Server]:
    """A fake server of its own process, for as long as the block runs."""
    command = [sys.executable, str(HERE / "fake_llm.py"), "--latency-ms", str(latency_ms)]
    command += [] if streamed else ["--whole"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.terminate()


def clean_environment(home: Path) -> dict[str, str]:
    """An environment without proxies, keys and settings, whose every home is `home`."""
    dropped = ("OPENAI", "ANTHROPIC", "GEN_", "PYTHON")
    kept = {
        name: value
        for name, value in os.environ.items()
        if "proxy" not in name.lower() and not name.startswith(dropped)
    }
    homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), str(home))
    quiet = {"DO_NOT_TRACK": "1", "OTEL_SDK_DISABLED": "true", "NO_PROXY": "*", "OPENAI_API_KEY": "x"}
    return {**kept, **homes, **quiet, "GEN_HOME": str(home / "gen"), "PYTHONPATH": str(HERE.parent)}


def driven(
    driver: str, work: Work, *, python: str = sys.executable, extra: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The figures of one driver on one workload, with what the server saw of it under `server`."""
    with (
        tempfile.TemporaryDirectory() as folder,
        fake_server(work.latency_ms, streamed=work.streamed) as server,
    ):
        command: Sequence[str] = [
            python,
            "-m",
            f"bench.drivers.{driver}",
            "--url",
            server.url,
            *work.arguments,
        ]
        ended = subprocess.run(
            [*command, *(["--stream"] if work.streamed else [])],
            env={**clean_environment(Path(folder)), **(extra or {})},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if ended.returncode or not ended.stdout.strip():
            raise SystemExit(f"{driver} failed: {(ended.stderr or ended.stdout).strip()[-1500:]}")
        return {**json.loads(ended.stdout.splitlines()[-1]), "server": server.told()}
