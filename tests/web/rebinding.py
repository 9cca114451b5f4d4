"""DNS rebinding with a name server and web servers of our own; run in a network namespace that has only them.

    python -m tests.web.rebinding COUNT SEED

Prints how many fetches were tried and answered, and which addresses that are not public were connected to.
"""

import asyncio
import json
import os
import random
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, quote, urlsplit

from gencode.core.errors import ToolError
from gencode.permissions.urls import UrlRefused
from gencode.web.http_fetch import WebLimits, WebRequest, fetch

PUBLIC = ("93.184.216.34", "8.8.4.4", "2606:4700::1111")
PRIVATE = ("127.0.0.1", "10.0.0.1", "169.254.169.254", "168.63.129.16", "192.168.7.7", "fd00::1", "::1")
PORTS = (80, 8080)
A = 1


def serve_names() -> None:
    """Answer as a name says: the next of its addresses for every look-up, or all of them."""
    asked: Counter[tuple[str, int]] = Counter()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))
        while True:
            data, client = server.recvfrom(2_000)
            labels, at = list[str](), 12
            while data[at]:
                labels.append(data[at + 1 : at + 1 + data[at]].decode())
                at += 1 + data[at]
            kind = struct.unpack("!H", data[at + 1 : at + 3])[0]
            found = [each for each in _addresses(labels[1]) if each.version == (4 if kind == A else 6)]
            if labels[0].startswith("seq"):
                number = asked[labels[0], kind]
                asked[labels[0], kind] += 1
                found = [found[number % len(found)]] if found else []
            head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(found), 0, 0) + data[12 : at + 5]
            server.sendto(b"".join([head, *(_record(kind, each.packed) for each in found)]), client)


def _record(kind: int, address: bytes) -> bytes:
    return b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(address)) + address


def _addresses(label: str) -> list[IPv4Address | IPv6Address]:
    return [ip_address(bytes.fromhex(each)) for each in label.split("-")]


def host(chance: random.Random, how: str, addresses: Sequence[str]) -> str:
    """A name that leads to these addresses, one after the other (`seq`) or all at once (`all`)."""
    hexes = "-".join(ip_address(each).packed.hex() for each in addresses)
    return f"{how}{chance.getrandbits(40):x}.{hexes}.example.com"


async def serve(connected: Counter[str]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected[writer.get_extra_info("sockname")[0].removeprefix("::ffff:")] += 1
        head = await reader.readuntil(b"\r\n\r\n")
        to = parse_qs(urlsplit(head.split(b" ")[1].decode()).query).get("to", [""])[0]
        line = f"HTTP/1.1 302 Found\r\nLocation: {to}" if to else "HTTP/1.1 200 OK"
        writer.write(f"{line}\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage".encode())
        await writer.drain()
        writer.close()

    for port in PORTS:
        await asyncio.start_server(answer, ["0.0.0.0", "::"], port)  # noqa: S104  (of the namespace)
    Thread(target=serve_names, daemon=True).start()


def url(chance: random.Random, depth: int = 0) -> str:
    """An address that leads to a mix of public and other places, now or at the next look-up."""
    mixed = [chance.choice(PUBLIC), *chance.choices(PUBLIC + PRIVATE, k=chance.randint(0, 2))]
    if chance.random() < 0.4:
        chance.shuffle(mixed)
    name = host(chance, chance.choice(("seq", "seq", "all")), mixed)
    if chance.random() < 0.1:
        literal = chance.choice(PUBLIC + PRIVATE)
        name = f"[{literal}]" if ":" in literal else literal
    found = f"http://{name}{chance.choice(('', ':8080', ':80'))}/"
    if depth < 3 and chance.random() < 0.6:
        again = f"http://{name}:8080/" if chance.random() < 0.4 else url(chance, depth + 1)
        found += f"?to={quote(again)}"
    return found


async def attack(count: int, seed: int) -> dict[str, object]:
    chance = random.Random(seed)
    connected: Counter[str] = Counter()
    await serve(connected)
    answered = 0
    for _ in range(count):
        target = url(chance)
        for _ in range(2):  # the second look-up of the same name
            try:
                await fetch(WebRequest(target), WebLimits(seconds=10))
                answered += 1
            except (ToolError, UrlRefused):
                pass
    private = {each: number for each, number in connected.items() if each in PRIVATE}
    return {"tried": 2 * count, "answered": answered, "private": private}


def in_own_network(folder: Path, count: int, seed: int) -> "subprocess.CompletedProcess[str]":
    """Run the attack in a network namespace of its own, which asks our name server."""
    names = folder / "resolv.conf"
    names.write_text("nameserver 127.0.0.1\noptions timeout:2 attempts:1\n")
    user = [] if os.geteuid() == 0 else ["--unshare-user", "--uid", "0", "--gid", "0"]
    wall = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--cap-add", "CAP_NET_ADMIN", *user]
    wall += ["--cap-add", "CAP_NET_BIND_SERVICE", "--ro-bind", str(names), "/etc/resolv.conf", "--"]
    return subprocess.run(
        [*wall, sys.executable, "-m", __name__, str(count), str(seed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def main() -> None:
    for address in (*PUBLIC, *PRIVATE):
        width = 128 if ":" in address else 32
        subprocess.run(
            ["ip", "addr", "add", f"{address}/{width}", "dev", "lo"], check=False, capture_output=True
        )
    print(json.dumps(asyncio.run(attack(int(sys.argv[1]), int(sys.argv[2])))))


if __name__ == "__main__":
    main()
