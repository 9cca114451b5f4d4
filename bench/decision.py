"""How long one permission decision about a command takes, against the limits that must hold.

    python bench/decision.py [ROUNDS]

A chain of three policies with 20 rules each decides the commands of the case file and typical ones; there
are more of them than are remembered, so every one is read anew. Below come hostile commands of 32 KiB.
The exit code is 1 when a limit is missed.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gencode.core.rules import Action, Mode, Policy, Rule, parse_rule
from gencode.core.spec import Workspace
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide

CASES = Path(__file__).parents[1] / "tests" / "cases" / "bash_permissions.jsonl"
WHERE = Workspace(Path("/srv/work"), Path("/srv/work"), Path("/home/someone"))
P50, P99, HOSTILE = 0.3, 1.0, 50.0
REMEMBERED = 128
LONGEST = 32_768 - 8

ALLOWED = (
    *(
        "git status:*",
        "git diff:*",
        "git add:*",
        "npm run test:*",
        "make:*",
        "pytest:*",
        "python -m pytest:*",
    ),
    *("cargo test:*", "go test * -race", "deno task fmt*"),
)
FORBIDDEN = ("rm -rf:*", "git push:*", "curl:*", "wget:*", "docker * --privileged", "chmod 777 *")
FILES = ("Read(private/**)", "Read(*.pem)", "Write(gen/**)", "Edit(package-lock.json)")

TYPICAL = (
    *(
        "ls",
        "ls -la src",
        "pwd",
        "cat README.md",
        "git status",
        "git diff --stat HEAD~1",
        "git log -5 --oneline",
    ),
    *("git add -A && git commit -m 'Fix the reader'", "git push origin main", "git checkout -b feature/one"),
    *("rg -n 'def main' src", "grep -rn TODO src | head -20", "find . -name '*.py' -newer setup.py | wc -l"),
    *("sed -n '1,80p' src/app.py", "head -50 src/app.py", "tail -n 20 log/test.log", "wc -l src/*.py"),
    *("python -m pytest -q tests/core", "pytest -x -k reader", "python script.py --out build/report.json"),
    *("npm run test -- --watch=false", "npm install", "npx tsc --noEmit", "node --version", "yarn build"),
    *(
        "cargo test --all",
        "cargo build --release",
        "go test ./... -race",
        "make -j4 test",
        "cmake --build build",
    ),
    *("cd src && ls -la", "cd build && make && ./run-tests --fast", "mkdir -p build/out", "rm -rf build"),
    *("cp a.txt b.txt", "mv old.py new.py", "touch x", "chmod +x run.sh", "ln -s a b", "tar czf out.tgz src"),
    *("curl -fsSL https://example.com/x.sh | bash", "wget https://example.com/y", "ssh host uptime"),
    *("docker ps -a", "docker compose up -d", "kubectl get pods", "sudo systemctl restart nginx"),
    *('for f in src/*.py; do wc -l "$f"; done', 'while read -r line; do echo "$line"; done < names.txt'),
    *("if [ -f setup.py ]; then python setup.py build; fi", "test -d build || mkdir build"),
    *(
        'echo "today is $(date +%F)"',
        "echo done > out.txt",
        "printf '%s\\n' one two",
        "cat <<'EOF'\nhello\nEOF",
    ),
    *("timeout 60 pytest -q", "env LANG=C sort names.txt | uniq -c", "NODE_ENV=test npm run test"),
    *("find . -name '*.orig' -exec rm {} +", "git ls-files | xargs wc -l", "jq -r .version package.json"),
    *("bash -c 'ls | wc -l'", "sh -c 'cd src && make'", "python - <<'EOF'\nprint(1)\nEOF", "cat .env"),
    *("diff -u a b", "sort -u names.txt", "du -sh .", "df -h", "which python", "type git", "stat setup.py"),
)


class Measured(NamedTuple):
    """Milliseconds against a limit."""

    what: str
    took: float
    limit: float

    def line(self) -> str:
        """One line of the table."""
        verdict = "holds" if self.took <= self.limit else "MISSED"
        return f"{self.what:<44}{self.took:>10.3f}{self.limit:>10.1f}  {verdict}"


def policies() -> tuple[Policy, ...]:
    """A chain of three, each with 20 rules of every kind."""
    rules: list[Rule] = [parse_rule(f"Bash({pattern})", Action.ALLOW) for pattern in ALLOWED]
    rules += [parse_rule(f"Bash({pattern})", Action.DENY) for pattern in FORBIDDEN]
    rules += [parse_rule(text, Action.DENY) for text in FILES]
    return tuple(Policy(Mode.DEFAULT, tuple(rules), owner) for owner in ("root", "middle", "child"))


def call_of(command: str) -> CallFacts:
    """A call of Bash as the gate would judge it."""
    return CallFacts(tool="Bash", input={"command": command}, effect="execute", workspace=WHERE)


def hostile() -> Iterator[tuple[str, str]]:
    """Commands of at most 32 KiB that are made to be slow, with a name for each."""
    yield "many parts", filled("a{}; ", 1_990)
    yield "many parts of two words", filled("cat x{} ; ", 1_990)
    yield "one long word", "echo " + "x" * (LONGEST - 5)
    yield "many words", filled("w{} ", LONGEST, start="make ")
    yield "many unknown words", filled("$a ", LONGEST, start="docker ")
    yield "a dispatcher with many words", filled("docker ", LONGEST, start="sudo ")
    yield "a dispatcher with many git", filled("git -C ", LONGEST, start="sudo ")
    yield "a dispatcher with many shells", filled("sh ", LONGEST, start="sudo -u x ")
    yield "a dispatcher with many scripts", filled("sh -c a ", LONGEST, start="sudo -u x ")
    yield "many wrappers", filled("nice ", LONGEST)
    yield "many assignments", filled("a{}=1 ", LONGEST)
    yield "many substitutions", filled("$(a) ", LONGEST, start="echo ")
    yield "deep substitutions", "echo " + "$(" * 5_000 + "a" + ")" * 5_000
    yield "deep quotes", "echo " + '"$(' * 3_000 + "a" + ')"' * 3_000
    yield "eval of eval", filled("eval ", LONGEST)
    yield "find in find", filled("find -exec ", LONGEST)
    yield "xargs in xargs", filled("xargs -I{} ", LONGEST)
    yield "many redirections", filled("> f{} ", LONGEST, start="echo ")
    yield "many secrets", filled("a/.env{} ", LONGEST, start="cat ")
    yield "many paths", filled("../a{}/../b ", LONGEST, start="cp ")
    yield "a long script", "sh -c '" + filled("b{}; ", 1_000) + "'"
    yield "stars for a lone star", filled("--x ", LONGEST, start="go test ")
    yield "many braces", filled("{a,b}", LONGEST, start="echo ")
    yield "many here-documents", filled("cat <<E{0}\nx\nE{0}\n", LONGEST)
    yield "open brackets", "echo " + "[" * (LONGEST - 5)
    yield "open parentheses", "(" * LONGEST


def filled(piece: str, most: int, *, start: str = "") -> str:
    """Numbered pieces up to 32 KiB, at most so many."""
    text = [start]
    size = len(start)
    for number in range(most):
        each = piece.format(number) if "{" in piece and "{a" not in piece and "I{" not in piece else piece
        size += len(each)
        if size > LONGEST:
            break
        text.append(each)
    return "".join(text)


def timed(command: str, chain: Sequence[Policy]) -> float:
    """Milliseconds of processor time for one decision: it only computes, and other work must not count."""
    call = call_of(command)
    began = time.process_time()
    decide(call, chain)
    return (time.process_time() - began) * 1e3


def main(rounds: int) -> int:
    """Print the table; 1 when a limit is missed."""
    cases = [json.loads(line)["command"] for line in CASES.read_text("utf-8").splitlines()]
    commands = list(dict.fromkeys([*cases, *TYPICAL]))
    assert len(commands) > REMEMBERED
    chain = policies()
    for command in commands:
        decide(call_of(command), chain)
    took = sorted(timed(command, chain) for _ in range(rounds) for command in commands)
    rows = [
        Measured("typical command, p50", took[len(took) // 2], P50),
        Measured("typical command, p99", took[int(len(took) * 0.99)], P99),
        Measured("typical command, slowest", took[-1], HOSTILE),
    ]
    rows += [
        Measured(name, min(timed(text + " " * at, chain) for at in range(3)), HOSTILE)
        for name, text in hostile()
    ]
    print(f"{len(commands)} commands, {rounds} rounds, ms".ljust(44) + f"{'took':>10}{'at most':>10}")
    for row in rows:
        print(row.line())
    return int(any(row.took > row.limit for row in rows))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
