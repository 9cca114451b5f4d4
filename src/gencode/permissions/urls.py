"""Decides about URLs: which addresses may be fetched, and from which machines.

Everything here is pure. The text is taken apart by strict rules of our own, because every lenient parser is
lenient in its own way, and what is fetched later is put together from the judged pieces, never read again.
`judge_url`, `judge_addresses` and `judge_redirect` are the three questions of one fetch; `walk` asks them all
for a fetch whose answers are known.
"""

import re
from collections.abc import Callable, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.permissions.paths import shown

MOST_CHARACTERS = 2_048
MOST_REDIRECTS = 5
PORTS = (80, 443, 8080, 8443)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MOST_NAME = 253

# White space, control characters, the backslash, and halves of characters that no encoding has.
_UNREADABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_START = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<slashes>/*)")
_AUTHORITY_END = re.compile(r"[/?#]")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# A label `0x…` stands for a number to some parsers even where no digits follow.
_NUMBER = re.compile(r"[0-9]+|0x.*")
_BYTE = re.compile(r"0|[1-9][0-9]{0,2}")

_HOME_NAMES = (
    ".localhost",
    ".local",
    ".localdomain",
    ".internal",
    ".home.arpa",
    ".lan",
    ".intranet",
    ".corp",
    ".home",
)
_NOT_PUBLIC_V4 = tuple(
    IPv4Network(each)
    for each in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_UNICAST_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC_V6 = tuple(IPv6Network(each) for each in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))

Lookup = Callable[[str], Sequence[str]]
"""Every address a name has; none for a name that is not known."""


class UrlRefused(ToolError):
    """A URL that is never fetched; `why` says it without repeating the URL, `advice` what to do then."""

    def __init__(self, url: str, why: str, advice: str = "") -> None:
        self.why = why
        super().__init__(f"{shown(url)} is not fetched: {why}{f'; {advice}' if advice else ''}.")


class Target(Struct, frozen=True):
    """A judged URL in pieces. `address` is set when the host is no name; `rest` is path and query."""

    scheme: str
    host: str
    port: int
    rest: str
    address: str | None = None

    @property
    def origin(self) -> str:
        """Scheme, host and port, the port only where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == _DEFAULT_PORTS[self.scheme]
        return f"{self.scheme}://{host}" if usual else f"{self.scheme}://{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL that is fetched, without its fragment."""
        return self.origin + self.rest


class Hop(Struct, frozen=True):
    """One step of a fetch: the URL requested, and the only addresses a connection may go to."""

    target: Target
    addresses: tuple[str, ...]


class RedirectChain(Struct, frozen=True):
    """A fetch from its URL to its last redirect. `refusal` is empty when every step was allowed."""

    hops: tuple[Hop, ...]
    refusal: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the last page may be read."""
        return not self.refusal

    @property
    def why(self) -> str:
        """One sentence for whoever reads the decision."""
        if self.refusal:
            return self.refusal
        last = self.hops[-1]
        return f"{shown(last.target.url)} is on the public internet, at {', '.join(last.addresses)}."


def walk(url: str, redirects: Sequence[str], lookup: Lookup) -> RedirectChain:
    """Judge a whole fetch: the URL, then every `Location` in its order. A name is looked up only once."""
    hops: list[Hop] = []
    known: dict[str, tuple[str, ...]] = {}
    try:
        target = judge_url(url)
        for number, location in enumerate((None, *redirects)):
            if location is not None:
                target = judge_redirect(target, location, number)
            if target.host not in known:
                found = (target.address,) if target.address else lookup(target.host)
                known[target.host] = judge_addresses(target, found)
            hops.append(Hop(target, known[target.host]))
    except UrlRefused as refused:
        return RedirectChain(tuple(hops), str(refused))
    return RedirectChain(tuple(hops))


def judge_url(text: str) -> Target:
    """The pieces of a URL that may be fetched, as far as its text tells; otherwise UrlRefused."""
    if why := _unreadable(text):
        raise UrlRefused(text, why)
    start = _START.match(text)
    scheme = start["scheme"].lower() if start else ""
    if start is None or scheme not in _DEFAULT_PORTS:
        raise UrlRefused(text, "only http:// and https:// addresses are")
    if start["slashes"][:2] != "//":
        raise UrlRefused(text, f"after {scheme}: come two slashes and a host")
    authority_at = start.start("slashes") + 2
    end = _AUTHORITY_END.search(text, authority_at)
    authority = text[authority_at : end.start() if end else len(text)]
    rest = text[authority_at + len(authority) :].partition("#")[0]
    try:
        host, port, address = _authority(authority)
    except ValueError as error:
        raise UrlRefused(text, str(error)) from None
    return Target(scheme, host, port or _DEFAULT_PORTS[scheme], f"/{rest.removeprefix('/')}", address)


def judge_addresses(target: Target, addresses: Sequence[str]) -> tuple[str, ...]:
    """The addresses in one spelling, if there is at least one and all are public; otherwise UrlRefused."""
    if not addresses:
        raise UrlRefused(target.url, f"{target.host} has no address", "check how it is spelled")
    checked: list[str] = []
    for text in addresses:
        address = _parsed(text)
        if address is None or not is_public(address):
            raise UrlRefused(target.url, f"{target.host} leads to {text}, which is no public address")
        checked.append(str(address))
    return tuple(dict.fromkeys(checked))


def judge_redirect(from_: Target, location: str, hop_number: int) -> Target:
    """Where a redirect leads, if it may be followed; `hop_number` is 1 for the first. Else UrlRefused."""
    if hop_number > MOST_REDIRECTS:
        raise UrlRefused(from_.url, f"it was redirected more than {MOST_REDIRECTS} times")
    if not location:
        raise UrlRefused(from_.url, "it redirects without saying where to")
    if why := _unreadable(location):
        raise UrlRefused(from_.url, f"it redirects to something else: {why}")
    target = judge_url(_joined(from_, location))
    if from_.scheme == "https" and target.scheme == "http":
        raise UrlRefused(target.url, "a redirect from https to http gives up the encryption")
    return target


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is public unicast, by the tables of the specification."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    if address.scope_id is not None or address not in _UNICAST_V6:
        return False
    return not any(address in network for network in _NOT_PUBLIC_V6)


def _unreadable(text: str) -> str:
    """What is wrong with the characters of a URL, wherever they stand."""
    if len(text) > MOST_CHARACTERS:
        return f"it has more than {MOST_CHARACTERS:,} characters"
    if bad := _UNREADABLE.search(text):
        return f"it has the character U+{ord(bad[0]):04X}, which must be percent-encoded"
    return ""


def _authority(text: str) -> tuple[str, int | None, str | None]:
    """Host, port and literal address; ValueError says what is wrong."""
    if not text:
        raise ValueError("it names no host")
    if not text.isascii():
        raise ValueError("its host must be written in ASCII (xn--…)")
    if "@" in text or "%" in text:
        raise ValueError("no user, password or percent sign may stand before its path")
    if text.startswith("["):
        inside, bracket, after = text[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise ValueError("its IPv6 address is not closed by a bracket")
        address = _ipv6(inside)
        return address, _port(after[1:] if after else None), address
    host, colon, port = text.partition(":")
    host, address = _host(host.lower().removesuffix("."))
    return host, _port(port if colon else None), address


def _ipv6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise ValueError("its IPv6 address is none") from None
    if not is_public(address):
        raise ValueError(f"{text} is no public address")
    return str(address)


def _port(text: str | None) -> int | None:
    if text is None:
        return None
    if text not in {str(port) for port in PORTS}:
        raise ValueError(f"its port is not one of {', '.join(map(str, PORTS))}")
    return int(text)


def _host(host: str) -> tuple[str, str | None]:
    """A host without its trailing dot, and the address when it is one; ValueError says what is wrong."""
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        if len(labels) != 4 or not all(_BYTE.fullmatch(each) and int(each) <= 255 for each in labels):
            raise ValueError("a host that ends in a number must be four numbers from 0 to 255")
        if not is_public(IPv4Address(host)):
            raise ValueError(f"{host} is no public address")
        return host, host
    if len(host) > _MOST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("its host is no name made of letters, digits and inner hyphens")
    if len(labels) < 2:
        raise ValueError("a host of one word is on the local network")
    if f".{host}".endswith(_HOME_NAMES):
        raise ValueError(f"{host} is on the local network")
    return host, None


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return None


def _joined(base: Target, location: str) -> str:
    """A `Location` as a whole URL. What starts with a scheme is taken as it stands, never as relative."""
    if _START.match(location):
        return location
    if location.startswith("//"):
        return f"{base.scheme}:{location}"
    path, mark, query = base.rest.partition("?")
    if location.startswith("#"):
        return f"{base.origin}{path}{mark}{query}"
    if location.startswith("?"):
        return f"{base.origin}{path}{location}"
    if location.startswith("/"):
        return base.origin + location
    relative, mark, query = location.partition("#")[0].partition("?")
    return base.origin + _without_dots(f"{path.rpartition('/')[0]}/{relative}") + mark + query


def _without_dots(path: str) -> str:
    kept: list[str] = []
    parts = path.split("/")[1:]
    for part in parts:
        if part == "..":
            kept = kept[:-1]
        elif part != ".":
            kept.append(part)
    folder = parts[-1] in (".", "..")
    return "/" + "/".join([*kept, ""] if folder and kept else kept)
