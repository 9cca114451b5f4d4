"""What an agent has from before when it goes on: outputs that it may read, and files that it knows."""

import asyncio
from collections.abc import Sequence

from gencode.agent.recorder import Recorder
from gencode.agent.run_setup import RunSetup
from gencode.core.messages import Message
from gencode.files.file_versions import last_known, recall


async def restore_known_files(seat: RunSetup, record: Recorder, transcript: Sequence[Message]) -> None:
    """Let an agent read the outputs of its earlier runs, and change the files it knew if they are the same.

    What came from a file may claim to know anything, and knows nothing.
    """
    from gencode.agent.output_files import result_files

    for file in result_files(record.folder) if record.folder else ():
        seat.gate.hand_out(file)
    if not record.task.imported:
        await recall_files(seat, transcript)


async def recall_files(seat: RunSetup, transcript: Sequence[Message]) -> None:
    """Let an agent know the files that calls in its transcript let it know."""
    if known := last_known(transcript):
        await asyncio.to_thread(recall, seat.seen, known, seat.workspace)
