"""Whatever fits the served document, and whatever does not, is answered as it says and never with a fault."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gencode.testing import says
from tests.interfaces.http.serving import SECONDS, gen_serve

CHECKS = (
    *("not_a_server_error", "response_schema_conformance", "content_type_conformance"),
    *("status_code_conformance", "negative_data_rejection", "unsupported_method"),
)
EXAMPLES = os.environ.get("GEN_EXAMPLES", "3")


@pytest.mark.needs("schemathesis")
async def test_no_question_ends_in_a_fault_or_in_another_answer_than_the_document_says(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with gen_serve(work, main=[says("done")] * 50, Explore=[says("done")] * 50) as server:
        begun = await server.client.post("/api/tasks", {"agent": "Explore", "prompt": "look"})
        told = {"path.id": begun.json["agentId"], "path.name": "Explore", "path.channel": "web"}
        lines = "\n".join(f'"{name}" = "{value}"' for name, value in told.items())
        (tmp_path / "told.toml").write_text(f"[parameters]\n{lines}\n")
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "told.toml", "run"]
        command += [
            f"{server.client.base}/openapi.json",
            "-H",
            f"Authorization: Bearer {server.client.token}",
        ]
        command += ["--checks", ",".join(CHECKS), "--phases", "fuzzing", "--max-examples", EXAMPLES]
        # A stream has no end; what it says is looked at in test_streams.
        command += ["--exclude-path-regex", "stream$", "--warnings", "off"]
        command += ["--generation-deterministic", "--request-timeout", str(SECONDS)]
        ended = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr
        assert (await server.client.get("/api/health")).json["status"] == "ok"
