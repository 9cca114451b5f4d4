"""The locked packages of a release are those that the tests ran with, each with its hashes."""

import re

from tests.house.source import ROOT

PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def pins(file: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / "requirements" / file).read_text("utf-8")))


def test_a_release_is_locked_to_the_tested_versions() -> None:
    locked = pins("locked.txt")
    wanted = pins("runtime.txt")
    assert {name: locked.get(name) for name in wanted} == wanted


def test_every_locked_package_has_a_hash() -> None:
    blocks = re.split(
        r"^(?=[a-z0-9-]+==)", (ROOT / "requirements" / "locked.txt").read_text("utf-8"), flags=re.M
    )
    assert [block.split()[0] for block in blocks[1:] if "--hash=sha256:" not in block] == []
