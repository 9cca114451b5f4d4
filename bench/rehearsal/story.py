"""A story: a recorded conversation that can be played again against the present prompts.

A folder with `story.json` (files of the project, command lines of `gen`), `replies/` and `requests/`.
"""

import json
import re
import subprocess
import sys
import tempfile
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

from bench.rehearsal.endpoint import JSON, Recorder, Reply, endpoint, environment, message_of

SECONDS = 120
STORIES = Path(__file__).parent / "stories"
_ID = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d(:\d\d)?\b")


class Played(NamedTuple):
    """A played story: the requests by the numbers of their replies, and what each command printed."""

    requests: dict[int, JSON]
    outputs: list[str]
    codes: list[int]


class Story(NamedTuple):
    """A story in its folder."""

    folder: Path

    @property
    def told(self) -> JSON:
        """What `story.json` says."""
        return json.loads((self.folder / "story.json").read_text())

    def replies(self) -> dict[int, JSON]:
        """The replies by their numbers."""
        return _numbered(self.folder / "replies")

    def requests(self) -> dict[int, JSON]:
        """The recorded requests by the numbers of their replies; none where it was not recorded yet."""
        return _numbered(self.folder / "requests")

    def play(self, author: Reply | None = None) -> Played:
        """Play it in an empty project with the present GenCode; `author` writes replies that are missing."""
        cast = _Cast(self)
        recorder = Recorder(author or cast)
        outputs: list[str] = []
        codes: list[int] = []
        with tempfile.TemporaryDirectory() as temporary, endpoint(recorder) as url:
            home, project = Path(temporary, "home"), Path(temporary, "project")
            for name, text in self.told.get("files", {}).items():
                path = project / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            home.mkdir()
            project.mkdir(exist_ok=True)
            for command in self.told["commands"]:
                words = [sys.executable, "-m", "gencode", *command, "--model", "openai/rehearsal"]
                done = subprocess.run(
                    words, env=environment(home, url), cwd=project, capture_output=True, timeout=SECONDS,
                    check=False, text=True, stdin=subprocess.DEVNULL,
                )  # fmt: skip
                outputs.append(done.stdout + done.stderr)
                codes.append(done.returncode)
            real = str(project.resolve())
            numbers = cast.given or [*range(1, 1 + len(recorder.requests))]
            plain = (_plain(each, real) for each in recorder.requests)
            requests = dict(zip(numbers, plain, strict=True))
        return Played(requests, outputs, codes)

    def record(self, played: Played) -> None:
        """Keep the requests of a play as those of the story."""
        folder = self.folder / "requests"
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.json"):
            old.unlink()
        for number, request in played.requests.items():
            text = json.dumps(request, indent=1, ensure_ascii=False, sort_keys=True)
            (folder / f"{number:03}.json").write_text(f"{text}\n")


class _Cast:
    """Finds the recorded reply that belongs to a request, in whatever order agents ask."""

    def __init__(self, story: Story) -> None:
        self._replies = story.replies()
        recorded = story.requests() or {number: JSON() for number in self._replies}
        self._after = {number: self._predecessor(request) for number, request in recorded.items()}
        self._first = {number: _first_words(request) for number, request in recorded.items()}
        self.given: list[int] = []

    def __call__(self, number: int, request: JSON) -> JSON:
        del number
        after = self._predecessor(request)
        free = [each for each in self._replies if each not in self.given]
        fitting = [each for each in free if self._after.get(each) == after] or free
        if not fitting:
            raise SystemExit("GenCode made a request for which the story has no reply")
        words = _first_words(request)
        best = max(fitting, key=lambda each: (_alike(self._first.get(each, ""), words), -each))
        self.given.append(best)
        return {**self._replies[best], "number": best}

    def _predecessor(self, request: JSON) -> int:
        """The number of the reply that a request goes on from; 0 for the first request of an agent."""
        said = [each for each in request.get("messages", ()) if each["role"] == "assistant"]
        if not said:
            return 0
        calls: list[JSON] = said[-1].get("tool_calls") or []
        if calls:
            return int(calls[0]["id"].split("_")[1])
        texts = {number: message_of(number, reply)["content"] for number, reply in self._replies.items()}
        return next((number for number, text in texts.items() if text == said[-1]["content"]), 0)


def _numbered(folder: Path) -> dict[int, JSON]:
    return {int(path.stem): json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def _first_words(request: JSON) -> str:
    asked = [each for each in request.get("messages", ()) if each["role"] == "user"]
    return json.dumps(asked[0]["content"]) if asked else ""


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, one[:2_000], other[:2_000], autojunk=False).ratio()


def _plain(request: JSON, project: str) -> JSON:
    """A request without what differs from run to run: folders, ids of tasks, dates and times."""
    text = json.dumps(request).replace(project, "PROJECT")
    text = _TIME.sub("TIME", text)
    names = {name: f"task{place}" for place, name in enumerate(dict.fromkeys(_ID.findall(text)), 1)}
    return json.loads(_ID.sub(lambda found: names[found[0]], text))
