"""Maps the model names of other products to ours.

Tiers, aliases and `PROVIDER/MODEL` are our names. A bare id gets its vendor as prefix, a display name becomes
the tier of its family. Unknown names are unchanged: when they are resolved, there is a warning and the
parent's model is used.
"""

import re

from gencode.agent.models import ALIASES, TIERS

INHERIT = "inherit"
_SENDERS = frozenset(("", "inherit", "auto", "default", "parent", "none", "null", "main"))
_IDS = (
    (re.compile(r"claude-[a-z0-9.-]+\Z"), "anthropic"),
    (re.compile(r"(gpt-|chatgpt-|codex-|o[134](-|\Z))[a-z0-9.-]*\Z"), "openai"),
    (re.compile(r"gemini-[a-z0-9.-]*[0-9][a-z0-9.-]*\Z"), "gemini"),
    (re.compile(r"deepseek-[a-z0-9.-]+\Z"), "deepseek"),
)
_NAMED = re.compile(r"(?:claude )?(?P<family>haiku|sonnet|opus)(?: [0-9.]+)?\Z")
_SHOWN = re.compile(r"(?P<model>gpt-[0-9][0-9.]*(?: mini| nano)?)\Z")
_SUFFIX = re.compile(r"\s*\((copilot|preview|vscode|azure|[a-z0-9 .-]+)\)\s*\Z")
_FAMILIES = {
    "gemini-flash": "fast",
    "gemini-pro": "powerful",
    "gemini flash": "fast",
    "gemini pro": "powerful",
}


def model_called(written: str) -> str:
    """Our name for a model of any product."""
    name = written.strip()
    plain = _SUFFIX.sub("", name.casefold())
    if plain in _SENDERS:
        return INHERIT
    if plain in TIERS or plain in ALIASES:
        return plain
    if plain in _FAMILIES:
        return _FAMILIES[plain]
    if named := _NAMED.match(plain):
        return named["family"]
    if shown := _SHOWN.match(plain):
        return f"openai/{shown['model'].replace(' ', '-')}"
    maker, colon, model = plain.partition(":")
    if colon and maker in ("openai", "anthropic", "gemini", "ollama") and model:
        return f"{maker}/{name.partition(':')[2]}"
    if "/" in name:
        return re.sub(r"\A(google|vertex|google-vertex)/", "gemini/", name)
    for pattern, provider in _IDS:
        if pattern.match(plain):
            return f"{provider}/{plain}"
    return name


def is_known(written: str) -> bool:
    """Whether a name has a form that could be resolved here."""
    name = model_called(written)
    plain = name.casefold()
    return plain in (INHERIT, "offline", *TIERS, *ALIASES) or "/" in name or plain.startswith("scripted:")
