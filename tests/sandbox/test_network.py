"""Whom an enclosed command can talk to."""

import os
import shlex
import socket
import subprocess

import pytest

from gencode.sandbox.profile import workspace_profile
from tests.sandbox.network_pair import SERVER_AND_CLIENT
from tests.sandbox.yard import Ended, Yard, listening


def connecting(port: int) -> str:
    return f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"


def test_without_the_network_a_command_reaches_no_server(yard: Yard) -> None:
    with listening() as port:
        ended = yard.bash(connecting(port))
        nested = yard.bash(f"setsid --wait bash -c {shlex.quote(connecting(port))}")
    assert (ended.code, ended.out, nested.code, nested.out) == (1, "", 1, "")


def test_with_the_network_it_does(yard: Yard) -> None:
    with listening() as port:
        assert yard.bash(connecting(port), network=True) == Ended(0, "connected\n", "")


def test_the_network_opens_nothing_else(yard: Yard) -> None:
    before = yard.everything()
    assert yard.bash("echo new > ../outside/new", network=True).code != 0
    assert yard.everything() == before


def test_without_the_network_no_datagram_arrives(strong: Yard) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.bind(("127.0.0.1", 0))
        receiving.setblocking(False)
        port = receiving.getsockname()[1]
        strong.bash(f"echo x > /dev/udp/127.0.0.1/{port}")
        missed = arrived(receiving)
        strong.bash(f"echo x > /dev/udp/127.0.0.1/{port}", network=True)
        assert (missed, arrived(receiving)) == (b"", b"x\n")


def test_a_command_can_talk_to_its_own_servers(strong: Yard) -> None:
    assert strong.bash(f"python3 -c {shlex.quote(SERVER_AND_CLIENT)}") == Ended(0, "heard\n", "")


def test_a_socket_that_the_environment_names_is_reached_only_with_the_network(
    strong: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(strong.outside)  # the name of a socket must be short
    text = "import socket; socket.socket(socket.AF_UNIX).connect('../outside/agent')"
    codes: list[int] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("agent")
        server.listen()
        environ = {"SSH_AUTH_SOCK": str(strong.outside / "agent")}
        for network in (False, True):
            plan = workspace_profile(
                strong.workspace, strong.base / "temp", strong.base / "home", network=network, environ=environ
            )
            argv = strong.wall.enclose(["python3", "-c", text], plan)
            ended = subprocess.run(argv, cwd=strong.workspace, capture_output=True, check=False)
            codes.append(ended.returncode)
    assert codes == [1, 0]


def test_sockets_behind_which_somebody_runs_commands_are_hidden(strong: Yard) -> None:
    seen = strong.bash("ls -A /run | grep -vx 'current-system\\|booted-system\\|opengl-driver'")
    assert (seen.code, seen.out) == (1, "")


def test_a_command_cannot_signal_processes_outside(strong: Yard) -> None:
    assert strong.bash(f"kill -0 {os.getpid()}").code != 0


def arrived(receiving: socket.socket) -> bytes:
    try:
        return receiving.recv(16)
    except BlockingIOError:
        return b""
