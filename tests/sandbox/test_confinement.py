"""What agents are told of the sandbox is what a real command meets."""

import shlex
import tempfile
from pathlib import Path

from gencode.sandbox.choose_sandbox import Sandbox
from gencode.sandbox.confinement import Confinement, Localhost, NetworkAccess, confinement
from gencode.sandbox.profile import SandboxProfile
from tests.sandbox.conftest import seen
from tests.sandbox.network_pair import SERVER_AND_CLIENT
from tests.sandbox.yard import Yard


def told(yard: Yard, *, network: bool = False) -> Confinement:
    wall = yard.wall
    name = {"Landlock with namespaces": "namespaces", "Landlock": "landlock"}.get(wall.name, "bubblewrap")
    return confinement(Sandbox(wall.name, seen(name), wall.enclose), yard.plan(network=network))


def test_the_network_is_as_it_is_told(yard: Yard) -> None:
    said = told(yard)
    assert said.network is not NetworkAccess.ALL and said.network_on_request
    assert told(yard, network=True).network is NetworkAccess.ALL
    own = yard.bash(f"python3 -c {shlex.quote(SERVER_AND_CLIENT)}").code == 0
    assert own is (said.localhost is not Localhost.NONE)


def test_what_is_told_to_be_writable_is_and_nothing_else(yard: Yard) -> None:
    said = told(yard)
    assert said.writable == (str(yard.workspace),)
    tried = [*said.writable, said.temp, str(yard.outside), "/var"]
    codes = [yard.bash(f"touch '{folder}/new'").code == 0 for folder in tried]
    assert codes == [True, True, False, False]
    assert yard.bash("echo x >> .git/config").code != 0 or not said.guarded
    assert yard.bash('echo "$TMPDIR"').out.strip() == said.temp
    (yard.base / "temp" / "mark").touch()
    assert (yard.bash("ls /tmp/mark").code == 0) is said.private_tmp


def test_commands_of_a_task_see_no_other_temporary_files(yard: Yard) -> None:
    outside = Path(tempfile.mkdtemp(prefix="gen-other-"))
    try:
        seen = yard.bash(f"ls -d {outside}").code == 0
        assert seen is not told(yard).private_tmp
        assert yard.bash(f"touch {outside}/new").code != 0
    finally:
        outside.rmdir()


def test_without_a_sandbox_nothing_is_promised(tmp_path: Path) -> None:
    assert confinement(None, SandboxProfile((tmp_path,), tmp_path)) == Confinement(
        "", NetworkAccess.ALL, Localhost.MACHINE, network_on_request=False
    )
