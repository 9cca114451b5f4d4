"""Which URLs may be fetched: every way to spell one that is refused, and what every accepted one keeps."""

import pytest

from gencode.permissions.urls import Target, UrlRefused, judge_addresses, judge_redirect, judge_url

HERE = Target("https", "example.net", 443, "/a/b?c")


def refusal(text: str) -> str:
    with pytest.raises(UrlRefused) as refused:
        judge_url(text)
    return refused.value.why


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://example.net", Target("http", "example.net", 80, "/")),
        ("HTTPS://Example.NET/Path", Target("https", "example.net", 443, "/Path")),
        ("http://example.net./", Target("http", "example.net", 80, "/")),
        ("http://example.net?q=1", Target("http", "example.net", 80, "/?q=1")),
        ("http://example.net#part", Target("http", "example.net", 80, "/")),
        ("http://example.net/a@b%20c:d//e", Target("http", "example.net", 80, "/a@b%20c:d//e")),
        ("http://example.net//10.0.0.1/", Target("http", "example.net", 80, "//10.0.0.1/")),
        ("http://example.net/#@10.0.0.1/", Target("http", "example.net", 80, "/")),
        ("http://example.net/é?ü", Target("http", "example.net", 80, "/é?ü")),
        ("http://example.net:443/", Target("http", "example.net", 443, "/")),
        ("https://example.net:8443", Target("https", "example.net", 8443, "/")),
        ("http://xn--bcher-kva.example/", Target("http", "xn--bcher-kva.example", 80, "/")),
        ("http://a-b.1x.2a/", Target("http", "a-b.1x.2a", 80, "/")),
        ("http://127.0.0.1.example.net/", Target("http", "127.0.0.1.example.net", 80, "/")),
        ("http://localhost.example.net/", Target("http", "localhost.example.net", 80, "/")),
        ("http://notlocal.mylan/", Target("http", "notlocal.mylan", 80, "/")),
        ("http://1.1.1.1/", Target("http", "1.1.1.1", 80, "/", "1.1.1.1")),
        ("http://1.1.1.1.:8080/", Target("http", "1.1.1.1", 8080, "/", "1.1.1.1")),
        ("http://[2606:4700:0::1]/", Target("http", "2606:4700::1", 80, "/", "2606:4700::1")),
        ("http://[2606:4700::A]:80", Target("http", "2606:4700::a", 80, "/", "2606:4700::a")),
    ],
)
def test_a_plain_url_is_taken_apart(text: str, target: Target) -> None:
    assert judge_url(text) == target
    assert judge_url(target.url) == target


@pytest.mark.parametrize(
    "place", ["http://ex{}ample.net/", "http://example.net/a{}b", "{}http://example.net/"]
)
@pytest.mark.parametrize("code", [0x00, 0x09, 0x0A, 0x0D, 0x1B, 0x20, 0x5C, 0x7F, 0x85, 0xA0, 0x2028, 0x3000])
def test_white_space_control_characters_and_backslashes_are_refused_anywhere(place: str, code: int) -> None:
    why = refusal(place.format(chr(code)))
    assert why == f"it has the character U+{code:04X}, which must be percent-encoded"


def test_half_a_character_is_refused_because_it_cannot_be_sent() -> None:
    assert refusal("http://example.net/\udcff").startswith("it has the character U+DCFF")


def test_a_url_has_at_most_2048_characters() -> None:
    start = "http://example.net/"
    longest = start + "a" * (2_048 - len(start))
    assert judge_url(longest).url == longest
    assert refusal(longest + "a") == "it has more than 2,048 characters"


@pytest.mark.parametrize(
    "text",
    [
        *("", "example.net", "//example.net/", "/x", "ftp://example.net/", "file:///etc/passwd"),
        *("data:text/html,x", "javascript:alert(1)", "gopher://example.net/", "httpx://example.net/"),
        *("ht+tp://example.net", "1http://example.net/", "h\u0442tp://example.net/", "://example.net"),
    ],
)
def test_only_http_and_https_are_fetched(text: str) -> None:
    assert refusal(text) == "only http:// and https:// addresses are"


@pytest.mark.parametrize("text", ["http:example.net", "http:/example.net/", "https:", "HTTP:/x"])
def test_two_slashes_stand_before_the_host(text: str) -> None:
    assert refusal(text) == f"after {text.partition(':')[0].lower()}: come two slashes and a host"


@pytest.mark.parametrize(
    "text", ["http://", "HTTP://", "http:///x", "http://?x", "http://#x", "http:////a.b/"]
)
def test_a_url_names_a_host(text: str) -> None:
    assert refusal(text) == "it names no host"


@pytest.mark.parametrize(
    "authority",
    [
        *("user@example.net", "user:word@example.net", "example.net@10.0.0.1", "@example.net"),
        *("example.net:80@10.0.0.1", "example%2enet", "127.0.0.1%2f.example.net", "[2606:4700::1%25eth0]"),
        "[2606:4700::1%eth0]",
    ],
)
def test_no_user_and_no_percent_sign_stands_before_the_path(authority: str) -> None:
    why = "no user, password or percent sign may stand before its path"
    assert refusal(f"http://{authority}/") == why


@pytest.mark.parametrize(
    "host",
    ["ex\u00e4mple.net", "\uff11\uff10.0.0.1", "example\u3002net", "\u2460.1.1.1", "e\u200bxample.net"],
)
def test_a_host_is_ascii(host: str) -> None:
    assert refusal(f"http://{host}/") == "its host must be written in ASCII (xn--…)"


@pytest.mark.parametrize(
    "port",
    [
        *("", "0", "22", "81", "5432", "65536", "99999999999999999999", "-80", "+80", "080", "0080", "8_0"),
        *("80x", "0x50", "80:80", "443:"),
    ],
)
@pytest.mark.parametrize("host", ["example.net", "1.1.1.1", "[2606:4700::1]"])
def test_the_port_is_absent_or_one_of_four_in_plain_digits(host: str, port: str) -> None:
    assert refusal(f"http://{host}:{port}/") == "its port is not one of 80, 443, 8080, 8443"


@pytest.mark.parametrize(
    "host",
    [
        *(
            "example.net..",
            "1.1.1.1..",
            ".example.net",
            "a..b",
            ".",
            "..",
            "exa_mple.net",
            "-a.net",
            "a-.net",
            "a.-b",
        ),
        *("a" * 64 + ".net", ".".join(["abcdefghi"] * 25 + ["abcd"]), "a,b.net", "a;b.net", "a!b.net"),
        *("a'b.net", "a*.net", "a~b.net", "a$b.net", "a(b).net", "a&b.net", "a=b.net", "a+b.net"),
        *("ex[ample.net", "ex]ample.net", "{a}.net", "a|b.net", "a^b.net", "a`b.net", 'a"b.net', "<a>.net"),
    ],
)
def test_a_name_is_made_of_letters_digits_and_inner_hyphens(host: str) -> None:
    assert refusal(f"http://{host}/") == "its host is no name made of letters, digits and inner hyphens"


def test_the_longest_label_and_the_longest_name_are_fetched() -> None:
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    assert (len(longest), judge_url(f"http://{longest}./").host) == (253, longest)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "server", "xn--bcher-kva", "net."])
def test_a_host_of_one_word_is_refused(host: str) -> None:
    assert refusal(f"http://{host}/") == "a host of one word is on the local network"


@pytest.mark.parametrize(
    "host",
    [
        *("a.localhost", "a.b.local", "a.localdomain", "db.internal", "a.home.arpa", "home.arpa", "a.lan"),
        *("a.intranet", "a.corp", "a.home", "A.LOCAL", "a.local."),
    ],
)
def test_a_host_under_a_name_for_machines_nearby_is_refused(host: str) -> None:
    assert refusal(f"http://{host}/").endswith(" is on the local network")


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7f000001", "0X7F000001", "017700000001", "127.1", "127.0.1", "1.1.1.1.1"),
        *("0177.0.0.1", "127.0.0.01", "00.0.0.1", "1.1.1.256", "1.1.1.1111", "0x7f.0.0.1", "1.1.1.0x1"),
        *("example.0x", "example.0xg", "example.7", "example.08", ".1", "a.b.c.1", "1..1.1"),
        *("99999999999999999999", "1.1.1.-1.1"),
    ],
)
def test_a_host_that_ends_in_a_number_is_a_strict_dotted_quad(host: str) -> None:
    assert refusal(f"http://{host}/") == "a host that ends in a number must be four numbers from 0 to 255"


@pytest.mark.parametrize(
    ("authority", "why"),
    [
        ("[::1]", "::1 is no public address"),
        ("[::1]:80", "::1 is no public address"),
        ("[::]", ":: is no public address"),
        ("[::ffff:1.2.3.4]", "::ffff:1.2.3.4 is no public address"),
        ("[::ffff:102:304]", "::ffff:102:304 is no public address"),
        ("[64:ff9b::1.1.1.1]", "64:ff9b::1.1.1.1 is no public address"),
        ("[2002:7f00:1::]", "2002:7f00:1:: is no public address"),
        ("[fe80::1]", "fe80::1 is no public address"),
        ("[fc00::1]", "fc00::1 is no public address"),
        ("[ff02::1]", "ff02::1 is no public address"),
        ("[v1.a]", "its IPv6 address is none"),
        ("[1.1.1.1]", "its IPv6 address is none"),
        ("[]", "its IPv6 address is none"),
        ("[example.net]", "its IPv6 address is none"),
        ("[[2606:4700::1]]", "its IPv6 address is not closed by a bracket"),
        ("[2606:4700::1", "its IPv6 address is not closed by a bracket"),
        ("[2606:4700::1].", "its IPv6 address is not closed by a bracket"),
        ("[2606:4700::1]80", "its IPv6 address is not closed by a bracket"),
        ("[2606:4700::1].example.net", "its IPv6 address is not closed by a bracket"),
        ("2606:4700::1", "a host that ends in a number must be four numbers from 0 to 255"),
        ("::1", "its host is no name made of letters, digits and inner hyphens"),
    ],
)
def test_an_ipv6_address_stands_in_brackets_and_is_public(authority: str, why: str) -> None:
    found = refusal(f"http://{authority}/")
    assert found == why


def test_all_addresses_of_a_name_are_judged() -> None:
    assert judge_addresses(HERE, ["1.1.1.1", "2606:4700:0::1", "1.1.1.1"]) == ("1.1.1.1", "2606:4700::1")
    for bad in (
        "127.0.0.1",
        "::1",
        "::ffff:1.1.1.1",
        "fe80::1%eth0",
        "2606:4700::1%1",
        "localhost",
        "1.1",
        "",
    ):
        with pytest.raises(UrlRefused, match="example.net leads to .*, which is no public address"):
            judge_addresses(HERE, ["1.1.1.1", bad])


def test_a_name_without_an_address_is_refused() -> None:
    with pytest.raises(UrlRefused, match="example.net has no address; check how it is spelled"):
        judge_addresses(HERE, [])


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("https://other.example/x#y", "https://other.example/x"),
        ("//other.example:8443", "https://other.example:8443/"),
        ("/x?y", "https://example.net/x?y"),
        ("//other.example/..//x", "https://other.example/..//x"),
        ("x", "https://example.net/a/x"),
        ("./x/../y?../z#w", "https://example.net/a/y?../z"),
        ("../../..", "https://example.net/"),
        ("..", "https://example.net/"),
        (".", "https://example.net/a/"),
        ("x/..", "https://example.net/a/"),
        ("?d", "https://example.net/a/b?d"),
        ("#d", "https://example.net/a/b?c"),
        ("..//other.example", "https://example.net//other.example"),
        ("@10.0.0.1", "https://example.net/a/@10.0.0.1"),
    ],
)
def test_a_location_is_joined_with_where_it_came_from(location: str, url: str) -> None:
    assert judge_redirect(HERE, location, 1).url == url


@pytest.mark.parametrize(
    "location",
    [
        *("", " /x", "/\t/x", "/\\example.org", "\\\\10.0.0.1", "http://example.net/", "https:/x", "https:x"),
        *(
            "//10.0.0.1/",
            "//localhost",
            "///x",
            "ftp://example.net/",
            "javascript:1",
            "a:b",
            "/" + "a" * 2_048,
        ),
        *("https://a@example.net", "//example.net:22", "https://[::1]/", "a" * 2_040),
    ],
)
def test_a_redirect_that_cannot_be_trusted_is_refused(location: str) -> None:
    with pytest.raises(UrlRefused):
        judge_redirect(HERE, location, 1)


def test_a_redirect_may_start_to_encrypt_but_not_stop() -> None:
    plain = judge_url("http://example.net/")
    assert judge_redirect(plain, HERE.url, 1) == HERE
    with pytest.raises(UrlRefused, match="a redirect from https to http gives up the encryption"):
        judge_redirect(HERE, plain.url, 1)


def test_the_sixth_redirect_is_refused() -> None:
    assert judge_redirect(HERE, "/", 5).url == "https://example.net/"
    with pytest.raises(UrlRefused, match="it was redirected more than 5 times"):
        judge_redirect(HERE, "/", 6)
