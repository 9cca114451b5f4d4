"""The command of the rehearsal kit; `python -m bench.rehearsal --help` lists what it does."""

import argparse
import json
import os
import time
from pathlib import Path

from bench.rehearsal.endpoint import RealModel, Recorder, WrittenReplies, endpoint
from bench.rehearsal.sizes import changes, of_kind, table
from bench.rehearsal.story import STORIES, Story

COMPLETED = (0, 3)
"""The exit codes of `gen` for a run that completed; 3: calls were refused."""


def serve(folder: Path, port: int, model: RealModel | None) -> None:
    """Serve a folder until interrupted."""
    recorder = Recorder(WrittenReplies(folder, model), folder)
    with endpoint(recorder, port) as url:
        print(f"OPENAI_BASE_URL={url} OPENAI_API_KEY=none gen --model openai/rehearsal", flush=True)
        while True:
            time.sleep(3_600)


def replay(story: Story, *, record: bool) -> int:
    """Play a story and print what changed since it was recorded; the exit code of the worst command."""
    before = story.requests()
    played = story.play()
    for number, request in played.requests.items():
        sizes = " ".join(f"{name} {size:,}" for name, size in of_kind(request).items())
        print(f"request {number:03}: {sizes}")
        if number in before and (said := changes(before[number], request)):
            print(said)
    for missing in sorted({*before} - {*played.requests}):
        print(f"request {missing:03} was not made any more")
    failed = [code for code in played.codes if code not in COMPLETED]
    for code, output in zip(played.codes, played.outputs, strict=True):
        if code in failed:
            print(f"gen ended with exit code {code}:\n{output}")
    if record and not failed:
        story.record(played)
    return max(failed, default=0)


def main() -> int:
    """Read the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m bench.rehearsal", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    served = kinds.add_parser("serve", help="an endpoint that records requests and replies from files")
    served.add_argument("folder", type=Path)
    served.add_argument("--port", type=int, default=0)
    served.add_argument("--forward", metavar="URL", help="let a real model write missing replies")
    served.add_argument("--model", default="", help="its name (key: REHEARSAL_API_KEY)")
    shown = kinds.add_parser("sizes", help="tokens of recorded requests by section")
    shown.add_argument("files", type=Path, nargs="+")
    for name, said in (("replay", "what changed since a story was recorded"), ("record", "record it anew")):
        each = kinds.add_parser(name, help=said)
        each.add_argument("stories", nargs="*", help="names of stories, or folders (all)")
    chosen = parser.parse_args()
    if chosen.kind == "serve":
        key = os.environ.get("REHEARSAL_API_KEY", "")
        serve(
            chosen.folder,
            chosen.port,
            RealModel(chosen.forward, chosen.model, key) if chosen.forward else None,
        )
    if chosen.kind == "sizes":
        for path in chosen.files:
            print(f"{path}\n{table(json.loads(path.read_text()))}")
        return 0
    named = chosen.stories or sorted(path.name for path in STORIES.iterdir())
    folders = [STORIES / name if (STORIES / name).is_dir() else Path(name) for name in named]
    codes: list[int] = []
    for folder in folders:
        print(f"# {folder.name}")
        codes.append(replay(Story(folder), record=chosen.kind == "record"))
    return max(codes)


if __name__ == "__main__":
    raise SystemExit(main())
