"""Sockets in the home folder behind which somebody runs commands are not there for enclosed commands."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from gencode.sandbox.profile import workspace_profile
from tests.sandbox.yard import Yard

NAMES = (".docker/desktop/docker.sock", ".gnupg/S.gpg-agent", ".ssh/master")


def test_a_command_finds_none_of_them(strong: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:  # its names must be short
        monkeypatch.setenv("HOME", home)
        listening = [socket.socket(socket.AF_UNIX) for _ in NAMES]
        for each, name in zip(listening, NAMES, strict=True):
            Path(home, name).parent.mkdir(parents=True)
            each.bind(f"{home}/{name}")
            each.listen()
        ended = strong.bash(
            " ".join(["for each in", *NAMES, f"; do test -S {home}/$each && echo $each; done; true"])
        )
        there = [os.path.exists(f"{home}/{name}") for name in NAMES]  # noqa: PTH110
        for each in listening:
            each.close()
    assert (ended.code, ended.out, there) == (0, "", [True] * len(NAMES))


def test_sockets_in_tmp_are_found_by_how_their_names_begin() -> None:
    with tempfile.TemporaryDirectory(prefix="emacs-test-", dir="/tmp") as folder:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(f"{folder}/server")
        plan = workspace_profile(Path("/var/tmp"), Path("/var/tmp"), Path("/var/tmp/.gen"), environ={})
        listening.close()
        assert Path(folder, "server").resolve() in plan.hidden
