"""Keys: where they come from, and that they are seen by nobody but their vendor."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gencode import GenCode
from gencode.core.errors import ProviderError, UserMistake
from gencode.providers.endpoint import api_url
from gencode.providers.openai import OpenAIProvider
from gencode.providers.provider_errors import SHOWN
from gencode.providers.pydantic_ai import PydanticAIProvider
from gencode.providers.vendors import ProviderFactory
from tests.contracts.provider import KEY, Play, parts_of
from tests.providers.dialects import DIALECTS, provider_at
from tests.providers.fake_server import Act, events, fake_server, in_json, reply, streamed

PIECE = KEY[:6]
"""So much of a key is too much."""


@pytest.fixture(params=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


async def trouble(dialect: str, act: Act) -> str:
    async with fake_server(act) as server:
        with pytest.raises(ProviderError) as raised:
            await parts_of(provider_at(dialect, server.url))
    return str(raised.value)


@pytest.mark.parametrize("before", [SHOWN - len(KEY), *range(SHOWN - 8, SHOWN + 1, 2)])
async def test_a_key_where_the_words_of_a_server_are_cut_does_not_show_in_part(before: int) -> None:
    words = "x" * before + KEY + " is wrong"
    for body in (json.dumps({"error": {"message": words}}).encode(), words.encode()):
        error = await trouble("chat", reply(body, "400 Bad Request"))
        assert "(HTTP 400: xxx" in error
        assert PIECE not in error


async def test_a_key_is_left_out_of_every_kind_of_trouble(dialect: str) -> None:
    echoes = [
        in_json({"error": {"message": "no", "type": KEY, "code": KEY}}, "400 Bad Request"),
        in_json([{"error": KEY}], "401 Unauthorized"),
        in_json({"error": {"message": KEY}}, "404 Not Found"),
        in_json({"detail": KEY}, "429 Too Many"),
        reply(b"x" * 64 * 1024 + KEY.encode(), "500 Oops"),
        reply(b" " * (64 * 1024 - 10) + KEY.encode(), "500 Oops"),
        reply(b"", "308 Moved", location=f"https://else.example/{KEY}?key={KEY}"),
        reply(f"hello {KEY}".encode()),
        reply(json.dumps({"hello": KEY}).encode()),
        streamed(*events({"type": "error", "error": {"code": KEY, "message": f"{'x' * 296}{KEY}"}})),
        streamed(b"data: " + KEY.encode() + b"\n\n"),
    ]
    for echo in echoes:
        assert PIECE not in await trouble(dialect, echo)


async def test_a_key_in_the_query_of_a_base_url_is_sent_and_not_shown() -> None:
    words = "no: key=hunter2-secret&api-version=2024-10-21, hunter2 secret=, hunter2%20secret%3D!"
    async with fake_server(in_json({"error": {"message": words}}, "400 Bad Request")) as server:
        query = "key=hunter2-secret&token=hunter2%20secret%3D&api-version=2024-10-21"
        provider = OpenAIProvider("m", key=KEY, base_url=f"{server.url}/v1?{query}")
        with pytest.raises(ProviderError) as raised:
            await parts_of(provider)
        assert server.last.path == f"/v1/chat/completions?{query}"
    assert str(raised.value) == (
        "openai/m refused the request (HTTP 400: no: key=[key]&api-version=2024-10-21, [key], [key]!)."
    )


@pytest.mark.parametrize("base", ["localhost:1/v1?key=hunter2", "me:hunter2@localhost:1", "ftp://x/?hunter2"])
def test_an_address_that_is_none_is_told_without_its_secrets(base: str) -> None:
    with pytest.raises(UserMistake, match="is not an address like") as raised:
        api_url(base, "/messages")
    assert "hunter2" not in str(raised.value)


def test_a_list_of_models_shows_addresses_without_their_secrets() -> None:
    board = ProviderFactory({}, {"OPENAI_BASE_URL": "https://me:hunter2@h.example/v1?key=hunter2"})
    assert board.about("openai") == "at h.example/v1; OPENAI_API_KEY is not set"


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_server_that_repeats_a_key_in_parts_leaves_none_of_it_in_the_journal(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with fake_server(in_json({"error": {"message": "x" * 290 + KEY}}, "400 Bad Request")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}?key=hunter2-secret")
        async with GenCode.open(tmp_path, model="openai/some-model") as gen:
            outcome = await gen.ask("Go.").outcome()
        assert server.last.path.endswith("?key=hunter2-secret")
    written = everything_in(home)
    assert (outcome.error or "").startswith("openai/some-model refused the request (HTTP 400: xxx")
    assert b"refused the request" in written
    assert PIECE.encode() not in written
    assert b"hunter2" not in written


@pytest.mark.needs("pydantic-ai")
async def test_a_key_that_pydantic_ai_hears_of_does_not_show_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_server(in_json({"error": {"message": "x" * 290 + KEY}}, "401 Unauthorized")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        with pytest.raises(ProviderError) as raised:
            await parts_of(PydanticAIProvider("openai-chat:some-model"))
    assert PIECE not in str(raised.value)


KEYRING = """
from types import SimpleNamespace

class KeyringError(Exception): ...
class NoKeyringError(KeyringError, RuntimeError): ...
class KeyringLocked(KeyringError): ...

errors = SimpleNamespace(
    KeyringError=KeyringError, NoKeyringError=NoKeyringError, KeyringLocked=KeyringLocked
)

def get_password(service, name):
    {does}
"""
ASK = """
import asyncio, sys
from gencode.core.errors import UserMistake
from gencode.core.messages import UserMessage
from gencode.providers.vendors import ProviderFactory
from gencode.agent.ports import Request

async def ask(vendor):
    request = Request("m", "", [UserMessage("Go.")], ())
    async for part in ProviderFactory({}).makers()[vendor]("some-model").stream(request):
        print(getattr(part, "text", ""), end="")

try:
    asyncio.run(ask(sys.argv[1]))
except UserMistake as mistake:
    print(mistake)
"""


def with_keyring(folder: Path, does: str, vendor: str, **environ: str) -> str:
    """What a process says that has a package `keyring`, whose keyring does this."""
    (folder / "keyring.py").write_text(KEYRING.replace("{does}", does))
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    path = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", ASK, vendor],
        env={**kept, **environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


GIVES = f"return '{KEY}\\n' if (service, name) == ('gencode', 'openai') else None"


async def test_a_key_in_the_keyring_is_used(tmp_path: Path) -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        said = await asyncio.to_thread(with_keyring, tmp_path, GIVES, "openai", OPENAI_BASE_URL=server.url)
        assert (said, server.last.headers["authorization"]) == ("hi", f"Bearer {KEY}")


async def test_a_key_in_the_environment_comes_before_the_keyring(tmp_path: Path) -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        environ = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-of-the-environment"}
        said = await asyncio.to_thread(with_keyring, tmp_path, "raise KeyringLocked()", "openai", **environ)
        assert (said, server.last.headers["authorization"]) == ("hi", "Bearer sk-of-the-environment")


async def test_a_server_that_needs_no_key_is_asked_whatever_the_keyring_does(tmp_path: Path) -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        for does in ("return None", "raise NoKeyringError('none')", "raise KeyringLocked('locked')"):
            said = await asyncio.to_thread(with_keyring, tmp_path, does, "vllm", VLLM_BASE_URL=server.url)
            assert (said, server.last.headers.get("authorization")) == ("hi", None)


@pytest.mark.parametrize(
    ("does", "way_out"),
    [
        ("return None", "set ANTHROPIC_API_KEY, or choose another model."),
        ("raise NoKeyringError('none')", "set ANTHROPIC_API_KEY, or choose another model."),
        (
            "raise KeyringLocked('locked')",
            "set ANTHROPIC_API_KEY, unlock the keyring (KeyringLocked), or choose another model.",
        ),
    ],
)
def test_a_keyring_that_has_no_key_leads_to_a_way_out(tmp_path: Path, does: str, way_out: str) -> None:
    assert with_keyring(tmp_path, does, "anthropic") == f"anthropic needs a key: {way_out}"
