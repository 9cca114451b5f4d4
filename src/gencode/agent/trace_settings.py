"""Whether traces are enabled and can be sent, for commands that report it."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from msgspec import Struct

from gencode.core.extras import installing

ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
NEEDED = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")


class TraceStatus(Struct, frozen=True):
    """Whether traces are sent, where to, and what prevents it."""

    on: bool
    where: str = ""
    trouble: str = ""
    fix: str = ""


def is_wanted(wanted: bool, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the setting or the environment asks for traces."""
    environ = os.environ if environ is None else environ
    disabled = environ.get("OTEL_SDK_DISABLED", "").casefold() == "true"
    return not disabled and (wanted or any(environ.get(name) for name in ENDPOINTS))


def standing(wanted: bool, environ: Mapping[str, str] | None = None) -> TraceStatus:
    """The status of telemetry, for a person; of an address only the parts that are no secret."""
    environ = os.environ if environ is None else environ
    if not is_wanted(wanted, environ):
        return TraceStatus(on=False)
    named = {name: environ[name] for name in ENDPOINTS if environ.get(name)}
    for name, said in named.items():
        if not _is_address(said):
            why = f"{name} is no address that begins with http:// or https:// and names a host"
            return TraceStatus(on=False, trouble=f"No traces arrive anywhere: {why}.", fix=f"correct {name}")
    if not installed():
        asked = next(iter(named), "the setting telemetry")
        why = f"{asked} asks for traces, and the packages for them are missing"
        return TraceStatus(on=False, trouble=f"No traces are sent: {why}.", fix=installing("otel"))
    addresses = [urlsplit(said) for said in named.values()]
    places = {f"{each.scheme}://{each.netloc.rpartition('@')[2]}" for each in addresses}
    return TraceStatus(on=True, where=", ".join(sorted(places)) or "http://localhost:4318")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme.casefold() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:
        return False
