"""Runs a local GGUF model with xllamacpp (experimental, the extra `local`).

The model runs in a process of its own. Loading it holds Python's lock for as long as that takes, so that no
thread could keep the agents going; and a file that crashes the library takes only that process with it. The
process answers on a port of this machine, in OpenAI's dialect, to a key that nobody else knows. It gets none
of our environment's keys, and ends when we end, however we end.
"""

import asyncio
import importlib
import os
import re
import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec
from msgspec import Struct

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError, UserMistake
from gencode.core.extras import installing
from gencode.core.messages import Part
from gencode.providers.endpoint import HttpTimeouts
from gencode.providers.openai import OpenAIProvider
from gencode.providers.provider_errors import excerpt

NAME = "local"
CONTEXT = 32768
"""How many tokens the conversations that run side by side may hold together."""
REMEMBERED_MIB = 1024
"""How much of the conversations that wait is kept in memory, so that they need not be read again."""
TIMEOUTS = HttpTimeouts(first_byte=1800.0, between_bytes=600.0)
"""A processor may read a long conversation for minutes before its first word."""
TRIES = 3
"""Its server closes a connection after every reply, without a word, and we may find out only by asking."""
LAST_WAIT = 2.0
BREAKDOWN_WAIT = 0.1
PASSED_ON = frozenset(
    {
        "PATH",
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TMPDIR",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "PYTHONHOME",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
    }
)
"""What the process gets of our environment: no key is among it."""

_REASON = re.compile(rb"error loading model: (?P<why>.+)")


class _ServerConfig(Struct):
    """The configuration of the model's process, sent on its input, where no other process can read it."""

    file: str
    name: str
    key: str
    at_once: int


@dataclass(frozen=True, slots=True)
class _RunningModel:
    process: asyncio.subprocess.Process
    voice: OpenAIProvider


class LocalProvider:
    """Runs one GGUF file; up to `at_once` conversations run side by side, the others wait."""

    def __init__(self, path: str, *, at_once: int = 4) -> None:
        if find_spec("xllamacpp") is None:
            raise UserMistake(f"A local model needs a package that is not installed: {installing('local')}")
        self._order = _ServerConfig(str(_checked(path)), path, secrets.token_urlsafe(24), at_once)
        self._name = f"{NAME}/{path}"
        self._running: _RunningModel | None = None
        self._starting: asyncio.Task[_RunningModel] | None = None

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Ask, and give the parts of the reply as they come; the first request loads the file."""
        running = await self._up()
        said = False
        for tries_left in reversed(range(TRIES)):
            try:
                async with aclosing(running.voice.stream(request)) as parts:
                    async for part in parts:
                        said = True
                        yield part
                return
            except ProviderError as error:
                if not error.retryable:
                    raise
                if await _has_ended(running.process):
                    raise self._trouble("crashed during its answer: its process has ended.") from None
                if said or not tries_left:
                    raise

    async def _up(self) -> _RunningModel:
        """The running model; callers that come while it is being loaded wait for it."""
        running = self._running
        if running is None or running.process.returncode is not None:
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self._start())
            running = await asyncio.shield(self._starting)
            self._running = running
        return running

    async def _start(self) -> _RunningModel:
        key = object()
        _open[key] = self._held(key)
        return await anext(_open[key])

    async def _held(self, key: object) -> AsyncGenerator[_RunningModel, None]:
        """Keeps the process until the loop ends: asyncio closes every generator before it closes the loop."""
        with TemporaryFile() as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                __name__,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name in PASSED_ON},
                start_new_session=True,
            )
            try:
                address = await _address(process, self._order)
                if not address:
                    raise self._trouble(f"cannot be loaded: {_reason(log)}")
                yield _RunningModel(process, self._voice(address))
            finally:
                _open.pop(key, None)
                await _end(process)

    def _voice(self, address: str) -> OpenAIProvider:
        order = self._order
        return OpenAIProvider(order.name, key=order.key, base_url=address, name=NAME, timeouts=TIMEOUTS)

    def _trouble(self, text: str) -> ProviderError:
        return ProviderError(f"{self._name} {text}")


_open: dict[object, AsyncGenerator[_RunningModel, None]] = {}


def _checked(path: str) -> Path:
    """The file, if it looks like one that can be run."""
    file = Path(path).expanduser().absolute()
    try:
        with file.open("rb") as opened:
            start = opened.read(4)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UserMistake(f"The model file {path} cannot be read: {why}.") from None
    if start != b"GGUF":
        raise UserMistake(f"{path} is not a GGUF file; a local model is named local/PATH.gguf.")
    return file


async def _address(process: asyncio.subprocess.Process, order: _ServerConfig) -> str:
    """Where the process answers, as soon as it does; nothing if it ended instead."""
    assert process.stdin is not None and process.stdout is not None  # noqa: S101 (both are pipes)
    with suppress(ConnectionError):
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        await process.stdin.drain()
    while line := await process.stdout.readline():
        if line.startswith(b"http://"):
            return line.decode().strip()
    return ""


def _reason(log: IO[bytes]) -> str:
    log.seek(0)
    found = _REASON.search(log.read(65536))
    return f"{excerpt(found['why'])}." if found else "xllamacpp gave no reason."


async def _has_ended(process: asyncio.subprocess.Process, within: float = BREAKDOWN_WAIT) -> bool:
    """Whether a process is gone; its connections break a moment before it ends."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            await process.wait()
    return process.returncode is not None


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if not await _has_ended(process, LAST_WAIT):
        process.kill()
        await process.wait()


def main() -> None:
    """The process of a model: load it, tell where it answers, and serve until our input ends."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=_ServerConfig)
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = order.file
    params.model_alias = {order.name}
    params.api_keys = [order.key]
    params.hostnames = ["127.0.0.1"]
    params.cors_origins = ""
    params.n_ctx = CONTEXT
    params.n_parallel = order.at_once
    params.kv_unified = True
    params.cache_ram_mib = REMEMBERED_MIB
    params.verbosity = 1
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    threads = max(1, (os.cpu_count() or 2) - 1)
    for cores in (params.cpuparams, params.cpuparams_batch):
        cores.n_threads = threads
        cores.poll = 0
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
