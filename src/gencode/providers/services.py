"""Who can be asked: the services there are, their addresses, their keys and their usual models.

A key comes from the environment, else from the keyring if that package is installed. It is handed to the
provider and to nobody else.
"""

import importlib
import os
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.prices import Price
from gencode.providers.cooldown import Cooldown
from gencode.providers.ollama import tool_model
from gencode.providers.prices import Priced, price_of
from gencode.providers.retry import Retrying
from gencode.runtime.ports import Provider

KEYRING = "gencode"


class Service(Struct, frozen=True):
    """One service: how it is spoken to, where, with which key, and a model for each tier."""

    name: str
    speaks: Literal["anthropic", "openai"]
    base_url: str
    key: str = ""
    base_url_variable: str = ""
    tiers: Mapping[str, str] = {}

    def address(self, environ: Mapping[str, str]) -> str:
        """Where it is reached."""
        return environ.get(self.base_url_variable, "").strip() or self.base_url

    def model(self, tier: str) -> str:
        """Its model for a tier, as `PROVIDER/MODEL`."""
        return f"{self.name}/{self.tiers[tier]}"


SERVICES = (
    Service(
        "anthropic",
        "anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        {"fast": "claude-haiku-4-5", "balanced": "claude-sonnet-5", "powerful": "claude-opus-5"},
    ),
    Service(
        "openai",
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        {"fast": "gpt-5.4-nano", "balanced": "gpt-5.4-mini", "powerful": "gpt-5.4"},
    ),
    Service("gemini", "openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    Service("openrouter", "openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    Service("ollama", "openai", "http://127.0.0.1:11434/v1", base_url_variable="OLLAMA_BASE_URL"),
    Service("lmstudio", "openai", "http://127.0.0.1:1234/v1", base_url_variable="LMSTUDIO_BASE_URL"),
    Service("vllm", "openai", "http://127.0.0.1:8000/v1", base_url_variable="VLLM_BASE_URL"),
)


class Switchboard:
    """Makes the providers of all services; agents that ask the same model share one and its pause."""

    def __init__(self, prices: Mapping[str, Price], environ: Mapping[str, str] | None = None) -> None:
        self._prices = prices
        self._environ = os.environ if environ is None else environ

    def connect(self, service: Service, model: str) -> Provider:
        """A provider for one model of a service; UserMistake says which key is missing."""
        plain = self._plain(service, model)
        return Priced(Retrying(plain, Cooldown()), price_of(f"{service.name}/{model}", self._prices))

    def configured(self) -> Service | None:
        """The first service that has a key in the environment."""
        return next((each for each in SERVICES if each.key and self._environ.get(each.key, "").strip()), None)

    async def usual(self) -> tuple[str, str]:
        """The model that answers when nobody named one, and why it is that one.

        A key in the environment, else an Ollama on this machine with a model that can call tools, else the
        offline search model.
        """
        service = self.configured()
        if service is not None and service.tiers:
            return service.model("balanced"), f"{service.key} is set"
        if service is None and (local := await tool_model()):
            return f"ollama/{local}", "an Ollama on this machine has it"
        return "offline", f"{service.key} is set, but no model is named" if service else ""

    def _plain(self, service: Service, model: str) -> Provider:
        key, address = self._key(service), service.address(self._environ)
        if service.speaks == "anthropic":
            from gencode.providers.anthropic import AnthropicProvider

            return AnthropicProvider(model, key=key, base_url=address)
        from gencode.providers.openai import OpenAIProvider

        return OpenAIProvider(model, key=key, base_url=address, name=service.name)

    def _key(self, service: Service) -> str:
        found = self._environ.get(service.key, "").strip() if service.key else ""
        found = found or _from_keyring(service.name)
        if service.key and not found and service.address(self._environ) == service.base_url:
            raise UserMistake(f"{service.name} needs a key: set {service.key}, or choose another model.")
        return found


def _from_keyring(service: str) -> str:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        return ""
    return str(keyring.get_password(KEYRING, service) or "")
