"""What holds for every URL and every address, however it is spelled."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from urllib.parse import urlsplit

import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

from gencode.permissions.urls import Target, UrlRefused, judge_addresses, judge_url

HERE = Target("https", "example.net", 443, "/")

NOT_PUBLIC_V4 = [
    *map(IPv4Network, ("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16")),
    *map(IPv4Network, ("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16")),
    *map(IPv4Network, ("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")),
]
# Everything outside 2000::/3, and the holes in it.
NOT_PUBLIC_V6 = [
    *map(
        IPv6Network, ("::/3", "4000::/2", "8000::/1", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
    )
]


def refusal(text: str) -> str:
    with pytest.raises(UrlRefused) as refused:
        judge_url(text)
    return refused.value.why


def in_one_of(networks: list[IPv4Network] | list[IPv6Network], bits: int) -> st.SearchStrategy[int]:
    """A number in one of the networks; their first and last ones often."""
    ranges = [(int(each.network_address), int(each.broadcast_address)) for each in networks]
    assert all(last < 2**bits for _, last in ranges)
    return st.sampled_from(ranges).flatmap(lambda ends: st.sampled_from(ends) | st.integers(*ends))


def odd_spellings(number: int) -> list[str]:
    """Ways in which one lenient parser or another reads an IPv4 address."""
    a, b, c, d = number.to_bytes(4)
    return [
        *(
            str(number),
            hex(number),
            oct(number).replace("o", ""),
            f"{number:#010X}",
            f"{a}.{number & 0xFFFFFF}",
        ),
        *(f"{a}.{b}.{number & 0xFFFF}", f"{a:#x}.{b:#x}.{c:#x}.{d:#x}", f"{a}.{b}.{c}.{d:#x}"),
        *(f"{a:04o}.{b:04o}.{c:04o}.{d:04o}", f"{a:03}.{b:03}.{c:03}.{d:04}", f"0{a}.{b}.{c}.{d}"),
        *(f"{a}.{b}.{c}.{d}.0", f"{a}.{b}.{c}.{d + 256}", f"[{a}.{b}.{c}.{d}]", f"[::{a}.{b}.{c}.{d}]"),
        *(
            f"[::ffff:{a}.{b}.{c}.{d}]",
            f"[64:ff9b::{a}.{b}.{c}.{d}]",
            f"[2002:{number >> 16:x}:{c:02x}{d:02x}::]",
        ),
        "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in f"{a}.{b}.{c}.{d}"),
    ]


@given(in_one_of(NOT_PUBLIC_V4, 32))
def test_no_ipv4_address_outside_the_public_ranges_is_fetched(number: int) -> None:
    plain = str(IPv4Address(number))
    assert refusal(f"http://{plain}/") == refusal(f"http://{plain}./") == f"{plain} is no public address"
    with pytest.raises(UrlRefused):
        judge_addresses(HERE, [plain])


@given(in_one_of(NOT_PUBLIC_V4, 32) | st.integers(0, 2**32 - 1))
def test_no_odd_spelling_of_an_ipv4_address_is_fetched(number: int) -> None:
    accepted: list[str] = []
    for host in odd_spellings(number):
        for url in (f"http://{host}/", f"http://{host}:80/"):
            try:
                accepted.append(judge_url(url).host)
            except UrlRefused:
                continue
    assert accepted == []


@given(in_one_of(NOT_PUBLIC_V6, 128))
def test_no_ipv6_address_outside_the_public_ranges_is_fetched(number: int) -> None:
    address = IPv6Address(number)
    for spelled in (str(address), address.exploded, str(address).upper()):
        assert refusal(f"http://[{spelled}]/") == f"{spelled} is no public address"
        with pytest.raises(UrlRefused):
            judge_addresses(HERE, [spelled])


@given(st.integers(0, 2**32 - 1), st.integers(0x2000 << 112, (0x4000 << 112) - 1))
def test_every_other_address_is_fetched(four: int, six: int) -> None:
    addresses = [IPv4Address(four), IPv6Address(six)]
    public = [
        *(str(each) for each in addresses[:1] if not any(each in network for network in NOT_PUBLIC_V4)),
        *(str(each) for each in addresses[1:] if not any(each in network for network in NOT_PUBLIC_V6)),
    ]
    if public:
        assert judge_addresses(HERE, public) == tuple(public)


HOSTS = st.sampled_from(
    [
        *(
            "example.net",
            "Example.NET.",
            "a-b.xn--bcher-kva.example",
            "1.1.1.1",
            "8.8.8.8.",
            "[2606:4700::1]",
        ),
        *("[2606:4700:0:0::A]", "127.0.0.1.example.net", "xn--a.example", "localhost.example.net", "1x.2a"),
    ]
)
NOISE = st.text("htp:/?#@%[]\\.0179afx-_;,&= \t\n\u3002\uff0e\u200b\u00e9é\ud800$!*'()~|", max_size=4)
PORT = st.sampled_from(["", ":80", ":443", ":8080", ":8443", ":", ":0080", ":22"])
REST = st.sampled_from(["", "/", "?", "#", "/x@y:z/[..]?a#b"])
SCHEME = st.sampled_from(["http://", "https://", "HTTP://", "hTTps://", "http:/", "http:", "//"])


@given(st.tuples(SCHEME, NOISE, HOSTS, NOISE, PORT, NOISE, REST).map("".join))
def test_what_is_accepted_has_the_same_host_for_every_parser(text: str) -> None:
    try:
        target = judge_url(text)
    except UrlRefused:
        return
    for url in (text, target.url):
        plain, built = urlsplit(url), yarl.URL(url)
        assert (same(plain.hostname), same(built.raw_host)) == (target.host, target.host)
        ports = (plain.port or {"http": 80, "https": 443}[plain.scheme], built.port)
        assert ports == (target.port, target.port)
        assert (plain.scheme, built.scheme) == (target.scheme, target.scheme)
        assert (plain.username, plain.password, built.user, built.password) == (None, None, None, None)


def same(host: str | None) -> str:
    host = (host or "").removesuffix(".")
    return str(IPv6Address(host)) if ":" in host else host
