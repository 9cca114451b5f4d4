"""The vendors of models: their APIs, addresses, keys and default models; creates their providers.

A key comes from the environment, else from the keyring if that package is installed. Only the provider gets
it.
"""

import importlib
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gencode.agent.models import OFFLINE, OWN, MakeProvider, Model
from gencode.agent.ports import Provider
from gencode.core.budget import Price
from gencode.core.errors import UserMistake
from gencode.core.ids import new_id
from gencode.core.structs import replace
from gencode.providers.model_catalog import PricedProvider, longest_reply, price_of
from gencode.providers.ollama import tool_model
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider
from gencode.providers.shared_limit_file import LimitStorage, SharedLimitFile

if TYPE_CHECKING:
    from pathlib import Path

    from gencode.journal.store import SharedRateLimit

KEYRING = "gencode"
ENDLESS = 1_000_000_000


class Vendor(Struct, frozen=True):
    """One vendor: its API, address, key, and a model for each tier."""

    name: str
    speaks: Literal["anthropic", "openai"]
    base_url: str
    key: str = ""
    base_url_variable: str = ""
    tiers: Mapping[str, str] = {}
    has_responses: bool = False
    """Whether its models that think are asked through the Responses API; with tools chat refuses some."""
    wants_thoughts: bool = False
    """Whether it refuses calls in the history that come without the thinking before them."""

    def address(self, environ: Mapping[str, str]) -> str:
        """Where it is reached."""
        return environ.get(self.base_url_variable, "").strip() or self.base_url

    def api(self, address: str, *, thinks: bool) -> Literal["chat", "responses"]:
        """Which of OpenAI's APIs a model uses; an address that ends in one of them decides."""
        named = address.partition("?")[0].rstrip("/").endswith("/responses")
        own = self.has_responses and thinks and address == self.base_url
        return "responses" if named or own else "chat"

    def model(self, tier: str) -> str:
        """Its model for a tier, as `PROVIDER/MODEL`."""
        return f"{self.name}/{self.tiers[tier]}"


VENDORS = (
    Vendor(
        "anthropic",
        "anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        {"fast": "claude-haiku-4-5", "balanced": "claude-sonnet-5", "powerful": "claude-opus-5"},
    ),
    Vendor(
        "openai",
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        {"fast": "gpt-5.4-nano", "balanced": "gpt-5.4-mini", "powerful": "gpt-5.4"},
        has_responses=True,
    ),
    Vendor("gemini", "openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    Vendor("openrouter", "openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    Vendor(
        "deepseek",
        "openai",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        "DEEPSEEK_BASE_URL",
        wants_thoughts=True,
    ),
    Vendor("ollama", "openai", "http://127.0.0.1:11434/v1", base_url_variable="OLLAMA_BASE_URL"),
    Vendor("lmstudio", "openai", "http://127.0.0.1:1234/v1", base_url_variable="LMSTUDIO_BASE_URL"),
    Vendor("vllm", "openai", "http://127.0.0.1:8000/v1", base_url_variable="VLLM_BASE_URL"),
)


EXTRAS = {
    "pydantic-ai": "PROVIDER:MODEL of any vendor that pydantic-ai supports; needs the extra `providers`",
    "local": "a GGUF file (experimental); needs the extra `local`",
}
"""Models that need an optional package, and how they are named."""


class ProviderFactory:
    """Makes the providers of all vendors; agents with the same model share one, with its request queue.

    A `store` that many machines share may have one pause for all of them, and `rates` says how many requests
    a minute each model gets from all together; one that processes of a machine share has a folder for that.
    """

    def __init__(
        self,
        prices: Mapping[str, Price],
        environ: Mapping[str, str] | None = None,
        *,
        store: object = None,
        rates: Mapping[str, float] | None = None,
    ) -> None:
        self._prices = prices
        self._environ = os.environ if environ is None else environ
        self._pace: SharedRateLimit | None = getattr(store, "pace", None)
        self._states: Path | None = getattr(store, "storms", None)
        self._rates = rates or {}

    def makers(self) -> dict[str, MakeProvider]:
        """The provider constructors, by the word before the model's name."""
        plain: dict[str, MakeProvider] = {vendor.name: partial(self._plain, vendor) for vendor in VENDORS}
        plain |= {"pydantic-ai": _pydantic_ai, "local": _local}
        wrapped = {name: partial(self._connect, name, maker) for name, maker in plain.items()}
        return {"offline": _offline, "scripted": _scripted, **wrapped}

    def tiers(self, own: Mapping[str, str]) -> dict[str, str]:
        """A model for each tier: the user's, else those of the vendor that has a key."""
        vendor = self.configured()
        usual = {tier: vendor.model(tier) for tier in vendor.tiers} if vendor else {}
        return {**usual, **own}

    def _connect(self, name: str, maker: MakeProvider, model: str) -> Provider:
        """A provider that asks again where waiting helps, and knows what it costs."""
        full = f"{name}/{model}"
        queue = RequestQueue(self._storage(name, model))
        addresses = {vendor.name: vendor.address(self._environ) for vendor in VENDORS}
        asking = RetryingProvider(self._paced(maker(model), full), queue)
        return PricedProvider(asking, self.price(full), addresses.get(name, ""))

    def _storage(self, name: str, model: str) -> LimitStorage | None:
        """Where it is written down that a model refuses, for all who ask it there with the same key."""
        vendor = next((each for each in VENDORS if each.name == name), None)
        if self._states is None or vendor is None:
            return None
        asked = (name, vendor.address(self._environ), self._key(vendor), model)
        return SharedLimitFile(self._states, asked)

    def own(self, provider: Provider | None) -> Model | None:
        """The model of a provider that a program brought along, if it did, under the name of its class.

        It is asked again like all others where its errors say that this helps; a script plays its errors.
        """
        if provider is None:
            return None
        from gencode.providers.custom_provider import CustomProvider
        from gencode.providers.scripted import ScriptedProvider

        name = type(provider).__name__
        if not isinstance(provider, ScriptedProvider | RetryingProvider):
            provider = PricedProvider(
                RetryingProvider(CustomProvider(provider), RequestQueue()), self.price(name)
            )
        return Model(OWN, name, provider, binding=True, mark=new_id())

    def _paced(self, plain: Provider, model: str) -> Provider:
        """The same among those of all machines, where there are others."""
        if self._pace is None:
            return plain
        from gencode.providers.database_pacing import PacedProvider

        rate = self._rates.get(model)
        return PacedProvider(plain, self._pace, model, None if rate is None else rate / 60)

    def configured(self) -> Vendor | None:
        """The first vendor that has a key in the environment."""
        return next((each for each in VENDORS if each.key and self._environ.get(each.key, "").strip()), None)

    def price(self, model: str) -> Price:
        """What is known of the price and the size of a model; what is answered on this machine is free."""
        if model == OFFLINE:  # a search would start anew if its transcript were shortened
            return Price(0.0, 0.0, context=ENDLESS)
        if model.startswith("scripted:"):
            return Price(0.0, 0.0)
        known = price_of(model, self._prices)
        return known if known.reply is not None else replace(known, reply=longest_reply(model))

    def about(self, name: str) -> str:
        """How a vendor is reached, for a person: its address, and whether its key is there."""
        if name in EXTRAS:
            return EXTRAS[name]
        if name in ("offline", "scripted"):
            return "on this machine, without a key"
        vendor = next(each for each in VENDORS if each.name == name)
        # A query may hold a key, and a name before the host a password.
        place = f"at {vendor.address(self._environ).partition('?')[0].rpartition('@')[2]}"
        if not vendor.key:
            return f"{place}, without a key"
        there = "is set" if self._environ.get(vendor.key, "").strip() else "is not set"
        return f"{place}; {vendor.key} {there}"

    async def usual(self) -> tuple[str, str]:
        """The default model and why it is the default.

        A key in the environment, else an Ollama on this machine with a model that can call tools, else the
        offline search model.
        """
        vendor = self.configured()
        if vendor is not None and vendor.tiers:
            return vendor.model("balanced"), f"{vendor.key} is set"
        if vendor is None and (local := await tool_model()):
            return f"ollama/{local}", "an Ollama on this machine has it"
        return "offline", f"{vendor.key} is set, but no model is named" if vendor else ""

    def _plain(self, vendor: Vendor, model: str) -> Provider:
        key, address = self._key(vendor), vendor.address(self._environ)
        if vendor.speaks == "anthropic":
            from gencode.providers.anthropic import AnthropicProvider

            return AnthropicProvider(model, key=key, base_url=address)
        from gencode.providers.openai import OpenAIProvider, reasons

        return OpenAIProvider(
            model,
            key=key,
            base_url=address,
            name=vendor.name,
            api=vendor.api(address, thinks=reasons(model)),
            wants_thoughts=vendor.wants_thoughts,
        )

    def _key(self, vendor: Vendor) -> str:
        if vendor.key and (found := self._environ.get(vendor.key, "").strip()):
            return found
        found, why = _from_keyring(vendor.name)
        if vendor.key and not found and vendor.address(self._environ) == vendor.base_url:
            raise UserMistake(f"{vendor.name} needs a key: set {vendor.key}{why}, or choose another model.")
        return found


def _offline(_: str) -> Provider:
    from gencode.providers.offline import OfflineProvider

    return OfflineProvider()


def _scripted(file: str) -> Provider:
    from gencode.providers.scripted import ScriptedProvider

    return ScriptedProvider.load(file)


def _pydantic_ai(model: str) -> Provider:
    from gencode.providers.pydantic_ai import PydanticAIProvider

    return PydanticAIProvider(model)


def _local(path: str) -> Provider:
    from gencode.providers.local import LocalProvider

    return LocalProvider(path)


def _from_keyring(vendor: str) -> tuple[str, str]:
    """The key in the keyring, and why it cannot be read."""
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        return "", ""
    try:
        return str(keyring.get_password(KEYRING, vendor) or "").strip(), ""
    except keyring.errors.NoKeyringError:
        return "", ""
    except keyring.errors.KeyringError as error:
        return "", f", unlock the keyring ({type(error).__name__})"
