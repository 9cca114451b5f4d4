"""Attacks by the thousand, with the counts printed; the exit code is 1 when one went through.

    python bench/security.py [SECTION ...] [--count N] [--seed N]

Sections: bash (mutated command lines that are allowed are really run, in a tree in which every change is
seen), rules (commands of a deny rule behind wrappers and odd builtins), options (read-only programs with
hostile options and file names), sandbox (every wall, as root and as a user), addresses (URLs with answers of
DNS), rebinding (a name server of our own in a network namespace), editor (hostile messages to `gen acp`),
parsers (files that are built to take long). What runs commands does so inside bubblewrap, so that what goes
through hurts nobody.
"""

import argparse
import asyncio
import ipaddress
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

from tests.interfaces.acp.hostile_editor import attack as attack_as_editor  # noqa: E402
from tests.permissions.bash.reading_corpus import corpus  # noqa: E402
from tests.permissions.bash.tricky_commands import TRICKY  # noqa: E402
from tests.permissions.bash.watched import ScratchTree  # noqa: E402
from tests.web.rebinding import in_own_network  # noqa: E402

from gencode.core.errors import ToolError  # noqa: E402
from gencode.core.rules import Action, Decision, Mode, Policy, Rule  # noqa: E402
from gencode.core.spec import Workspace  # noqa: E402
from gencode.permissions.calls import CallFacts  # noqa: E402
from gencode.permissions.decision import decide  # noqa: E402
from gencode.permissions.urls import walk  # noqa: E402
from gencode.sandbox.shells import CommandRequest, Shells  # noqa: E402

INSIDE = "GENCODE_BENCH_INSIDE"
TMP = "/tmp"  # noqa: S108  (a new one is mounted there)
CANARY = "canary"


def each_of(block: str) -> list[str]:
    """The attacks of a table, which stands in raw text so that it can be read."""
    return [each for line in block.strip().splitlines() for each in line.split(" ¦ ")]


PAYLOADS = (
    *each_of(r"""
touch canary ¦ ; touch canary ¦ $(touch canary) ¦ `touch canary` ¦ && touch canary ¦ | tee canary
> canary ¦ >| canary ¦ <(touch canary) ¦ & touch canary ¦ ${x:-$(touch canary)}
$((a[$(touch canary)])) ¦ a[$(touch canary)] ¦ {touch,canary} ¦ -exec touch canary ; ¦ --output=canary
-o canary ¦ 'canary' ¦ system("touch canary") ¦ w canary ¦ --pre=thief ¦ -O thief
--open-files-in-pager=thief ¦ xargs touch canary ¦ env thief ¦ thief ¦ ./thief ¦ sh -c thief
print > "canary" ¦ eval touch canary ¦ --to-command=thief ¦ -i ¦ -d
"""),
    *("\ntouch canary\n",),
)
GLUE = (
    *each_of(r"""
' ¦ " ¦ $ ¦ ` ¦ ( ¦ ) ¦ { ¦ } ¦ ; ¦ | ¦ & ¦ < ¦ > ¦ # ¦ ! ¦ * ¦ = ¦ , ¦ - ¦ -- ¦ [ ¦ ] ¦ ~ ¦ % ¦ @
/dev/stdin ¦ $'\n' ¦ <<<
"""),
    *(" ", "", "\\", "\n", "\t", "<<E\n", "\nE\n"),
)
RULED = "touch"


class Section(NamedTuple):
    """What came of a section: the counts in words, and what went through."""

    counts: str
    through: list[str]


def judged(text: str, policy: Policy, where: Workspace) -> Decision:
    """The decision about a command line."""
    return decide(
        CallFacts(tool="Bash", input={"command": text}, effect="execute", workspace=where), [policy]
    )


def mutated(chance: random.Random, texts: Sequence[str]) -> str:
    """A command line with something hostile in it."""
    text = chance.choice(texts)
    if chance.random() < 0.3:
        text += chance.choice((" | ", " && ", "; ", "\n", " ")) + chance.choice(texts)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(text))
        how = chance.random()
        if how < 0.45:
            blank = chance.choice((" ", "", " "))
            text = f"{text[:at]}{blank}{chance.choice(PAYLOADS)}{blank}{text[at:]}"
        elif how < 0.75:
            text = f"{text[:at]}{chance.choice(GLUE)}{text[at:]}"
        elif how < 0.9:
            text = text[:at] + text[at + chance.randint(1, 4) :]
        else:
            words = text.split(" ")
            chance.shuffle(words)
            text = " ".join(words)
    return text


class Watched:
    """Runs what is allowed as the product does, and says what it changed."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._number = 0
        self._shells = Shells(base / "gen", "off")
        self._fresh()

    def _fresh(self) -> None:
        self._number += 1
        folder = self._base / f"tree{self._number}"
        folder.mkdir()
        self.tree = ScratchTree(folder)
        self.where = Workspace(self.tree.workspace, self.tree.workspace, folder / "home")
        os.environ["HOME"] = str(folder / "home")

    async def changed(self, allowed: Sequence[tuple[str, bool]]) -> list[str]:
        """Those of the commands that change something."""
        if not await self._changes(allowed):
            return []
        if len(allowed) == 1:
            return [allowed[0][0]]
        half = len(allowed) // 2
        return [*await self.changed(allowed[:half]), *await self.changed(allowed[half:])]

    async def _changes(self, allowed: Sequence[tuple[str, bool]]) -> bool:
        before = self.tree.seen()
        for text, neutral in allowed:
            with suppress(ToolError):  # it is refused after all, as git is in a folder that is not there
                await self._shells.run(CommandRequest(text, self.where, "bench", 1.0, neutral=neutral))
        after = self.tree.seen()
        if changed := before != after:
            self._fresh()
        return changed

    async def close(self) -> None:
        """End everything."""
        await self._shells.close()


async def run_allowed(
    base: Path, texts: Iterator[str], policy: Callable[[random.Random], Policy], chance: random.Random
) -> Section:
    """Decide about command lines, and run those that are allowed."""
    watched = Watched(base)
    decided = ran = 0
    slowest = 0.0
    through: list[str] = []
    waiting: list[tuple[str, bool]] = []
    try:
        for text in texts:
            began = time.perf_counter()
            decision = judged(text, policy(chance), watched.where)
            slowest = max(slowest, time.perf_counter() - began)
            decided += 1
            if decision.action is Action.ALLOW:
                ran += 1
                waiting.append((text, decision.neutral))
            if len(waiting) >= 60:
                through += await watched.changed(waiting)
                waiting.clear()
        through += await watched.changed(waiting) if waiting else []
    finally:
        await watched.close()
    return Section(f"{decided:,} decided, {ran:,} run, slowest {slowest * 1000:.0f} ms", through)


def bash(chance: random.Random, count: int, base: Path) -> Section:
    """Mutated command lines without rules, in default and plan mode."""
    daily = (REPOSITORY / "bench" / "daily_commands.txt").read_text("utf-8").splitlines()
    texts = [*daily, *TRICKY, *(each for group in corpus().values() for each in group[:40])]
    return asyncio.run(
        run_allowed(
            base,
            (mutated(chance, texts) for _ in range(count)),
            lambda chance: Policy(chance.choice((Mode.DEFAULT, Mode.PLAN, Mode.ACCEPT_EDITS)), ()),
            chance,
        )
    )


SPELLED = (
    *each_of(r"""
{} ¦ '{}' ¦ sh -c '{}' ¦ bash -c "{}" ¦ eval '{}' ¦ trap '{}' EXIT; exit ¦ x=1 {} ¦ ( {} ) ¦ {{ {}; }}
timeout 5 {} ¦ nice {} ¦ nohup {} ¦ env {} ¦ env A=b {} ¦ command {} ¦ builtin eval '{}' ¦ exec {}
time {} ¦ stdbuf -o0 {} ¦ setsid {} ¦ env -S '{}' ¦ xargs {} </dev/null ¦ echo x | xargs {} ¦ ! {}
find . -maxdepth 0 -exec {} \; ¦ if true; then {}; fi ¦ for i in 1; do {}; done ¦ f() {{ {}; }}; f
$(echo {}) ¦ echo $({}) ¦ cat <({}) ¦ echo '{}' | sh ¦ sh <<< '{}' ¦ source <(echo '{}')
bash <(echo '{}') ¦ setarch $(uname -m) {} ¦ prlimit --nofile=99 {} ¦ setpriv --nnp {} ¦ taskset 1 {}
chrt -o 0 {} ¦ ionice {} ¦ compgen -C '{}' ¦ mapfile -C '{} #' -c 1 <<< a
readarray -tC '{} #' -c1 <<< a ¦ PS4='$({})'; set -x; : ¦ RANDOM='a[$({})]' ¦ OPTIND='a[$({})]'
HISTCMD='a[$({})]' ¦ for RANDOM in 'a[$({})]'; do :; done ¦ declare -i x; x='a[$({})]'
declare -i x='a[$({})]' ¦ read RANDOM <<< 'a[$({})]' ¦ let 'a[$({})]' ¦ (( a[$({})] ))
[[ -v a[$({})] ]] ¦ test -v 'a[$({})]' ¦ printf -v 'a[$({})]' x ¦ unset 'a[$({})]' ¦ echo ${{x:-$({})}}
coproc {} ¦ alias q='{}' ¦ hash -p /bin/touch e; e canary ¦ enable -f x y; {}
declare -n r='a[$({})]'; r=1 ¦ x='{}'; $x ¦ x='{}'; eval "$x" ¦ echo a | while read -r l; do {}; done
case x in x) {};; esac ¦ /usr/bin/{} ¦ \{} ¦ to''{0[0]} ¦ BASH_ENV=<(echo '{}') bash -c :
env BASH_ENV=/dev/stdin bash -c : <<< '{}'
"""),
)


def rules(chance: random.Random, count: int, base: Path) -> Section:
    """A denied command in other spellings, where a rule allows everything else."""
    policy = Policy(Mode.DONT_ASK, (Rule("Bash", "*", Action.ALLOW), Rule("Bash", f"{RULED}:*", Action.DENY)))

    def forms() -> Iterator[str]:
        inner = f"{RULED} {CANARY}"
        for form in SPELLED:
            yield spelled(form, inner)
        for _ in range(count):
            text = inner
            for _ in range(chance.randint(1, 3)):
                text = spelled(chance.choice(SPELLED), text)
            yield text

    return asyncio.run(run_allowed(base, forms(), lambda _: policy, chance))


def spelled(form: str, inner: str) -> str:
    return form.replace("{}", inner).replace("{{", "{").replace("}}", "}").replace("{0[0]}", inner[2:])


HOSTILE = (
    *each_of(r"""
-o ¦ -ocanary ¦ -O ¦ --output ¦ --output=canary ¦ -- ¦ - ¦ -i ¦ -w ¦ -e ¦ -f ¦ -r ¦ -R ¦ -d ¦ -D
-delete ¦ -exec ¦ thief ¦ ; ¦ + ¦ -fprint ¦ -fls ¦ -ok ¦ --files0-from=a.py ¦ --in-place ¦ --pre=thief
--ext-diff ¦ --textconv ¦ --compress-program=thief ¦ -S ¦ -L ¦ -T ¦ --dirty ¦ -m ¦ -c ¦ core.pager=thief
--no-index ¦ --filters ¦ --batch ¦ --contents ¦ a.py ¦ w canary ¦ 1,2w canary ¦ %n ¦ * ¦ ./* ¦ -*
--to-command=thief ¦ -I ¦ thief ¦ --checkpoint=1 ¦ --checkpoint-action=exec=thief ¦ --rsh-command=thief
h:x ¦ BEGIN{system("thief")} ¦ {print > "canary"} ¦ "thief"|getline ¦ @load ¦ -v ¦ x=1 ¦ {} ¦ -execdir
src ¦ HEAD ¦ b.txt ¦ sizes.txt ¦ data.json ¦ . ¦ main ¦ v1 ¦ 1 ¦ 3p ¦ /x/p ¦ -n ¦ -a ¦ -p ¦ -s ¦ -t ¦ tf
xf ¦ -l
"""),
    *("",),
)
PROGRAMS = (
    *each_of(r"""
cat ¦ head ¦ tail ¦ wc ¦ grep ¦ diff ¦ find ¦ rg ¦ sort ¦ uniq ¦ sed ¦ date ¦ printf ¦ file ¦ jq
base64 ¦ awk ¦ ps ¦ tree ¦ tar ¦ unzip ¦ zcat ¦ xxd ¦ tee ¦ hostname ¦ stat ¦ ls ¦ du ¦ od ¦ comm ¦ join
column ¦ git status ¦ git log ¦ git diff ¦ git show ¦ git grep ¦ git branch ¦ git tag ¦ git remote
git config ¦ git for-each-ref ¦ git check-ignore ¦ git blame ¦ git cat-file ¦ git ls-files
git rev-parse ¦ git describe ¦ git stash ¦ git show-ref ¦ git -C src log ¦ git -C . diff
cd src && git show ¦ node ¦ python3 ¦ make ¦ go ¦ find . -exec cat ¦ echo x | xargs cat
"""),
)


def options(chance: random.Random, count: int, base: Path) -> Section:
    """Programs that only read, with options and names that would have them do more."""

    def made() -> Iterator[str]:
        for _ in range(count):
            words = [chance.choice(HOSTILE) for _ in range(chance.randint(0, 4))]
            quoted = [f"'{word}'" if set(word) & set(' ;{}"|>()$') or not word else word for word in words]
            yield " ".join([chance.choice(PROGRAMS), *quoted])

    return asyncio.run(run_allowed(base, made(), lambda _: Policy(Mode.PLAN, ()), chance))


def sandbox(chance: random.Random, count: int, base: Path) -> Section:
    """What the trial of `gen doctor` tries, behind each wall, as root and as a user."""
    through: list[str] = []
    lines: list[str] = []
    users: list[tuple[str, list[str]]] = [("this user", [])]
    if os.geteuid() == 0:
        users = [("root", []), ("a user", ["setpriv", "--reuid=1500", "--regid=1500", "--clear-groups"])]
    program = "from bench.security import battery; battery()"
    # A user may not be let into the folder in which the Python of this program lies.
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    for user, prefix in users:
        paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "src"), *filter(None, sys.path)])
        env = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(base)}
        said = subprocess.run(
            [*prefix, python if prefix else sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env=env,
            check=False,
        )
        if said.returncode:
            lines.append(f"{user}: not tried ({said.stderr.strip().splitlines()[-1:]})")
            continue
        for wall, possible in json.loads(said.stdout).items():
            if "work" not in possible:
                lines.append(f"{wall} as {user}: not tried, it cannot be built here")
                continue
            bad = sorted(set(possible) & NEVER | (set(possible) & NEVER_BEHIND.get(wall, set())))
            through += [f"{wall} as {user}: {each}" for each in bad]
            lines.append(f"{wall} as {user}: {', '.join(possible)}")
    return Section("\n    ".join(["", *lines]), through)


NEVER = {"create", "overwrite", "truncate", "kernel", "tcp", "abstract", "signal", "limits", "calls"}
NEVER_BEHIND = {
    name: {"guarded", "hidden", "udp", "change"} for name in ("bubblewrap", "Landlock with namespaces")
}


def battery() -> None:
    """Print what is possible behind each wall of this machine."""
    from gencode.sandbox.choose_sandbox import candidates
    from gencode.sandbox.trial import try_sandbox

    found = {way.name: sorted(try_sandbox(way.enclose).possible) for way in candidates()}
    print(json.dumps(found))


NAMES = (
    "example.com",
    "a.example.net",
    "x--y.example.org",
    "localhost",
    "h.internal",
    "1.2.3.4.example.com",
    "0x7f.1",
    "127.1",
)
SPECIAL = (
    "10.0.0.1",
    "127.0.0.1",
    "169.254.169.254",
    "168.63.129.16",
    "::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
)


def addresses(chance: random.Random, count: int, base: Path) -> Section:
    """URLs whose names lead anywhere: none that is let through may lead to an address that is not public."""
    through: list[str] = []
    allowed = 0
    for _ in range(count):
        host = _host(chance)
        port = chance.choice(("", "", "", ":80", ":8080", ":22", ":", ":0080"))
        scheme, user = (
            chance.choice(("http", "https", "HTTP", "ftp")),
            chance.choice(("", "", "", "u@", "a:b@")),
        )
        url = f"{scheme}://{user}{host}{port}/{chance.choice(('', 'x', '..', '%2e', '@'))}"
        answers = [_address(chance) for _ in range(chance.randint(0, 3))]
        found = walk(url, (), lambda name, answers=answers: answers)
        if not found.allowed:
            continue
        allowed += 1
        reached = [each for hop in found.hops for each in hop.addresses]
        if not reached or any(not _is_public(each) for each in reached):
            through.append(f"{url} → {answers}")
    return Section(f"{count:,} decided, {allowed:,} allowed", through)


def _host(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(NAMES) + chance.choice(("", "", "."))
    address = _address(chance)
    if ":" in address:
        return f"[{address}]"
    number = int(ipaddress.IPv4Address(address))
    parts = address.split(".")
    spelled = (
        address,
        str(number),
        hex(number),
        oct(number),
        ".".join(map(hex, map(int, parts))),
        f"{parts[0]}.{number & 0xFFFFFF}",
    )
    return chance.choice(spelled)


def _address(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return chance.choice(SPECIAL)
    if chance.random() < 0.7:
        return str(ipaddress.IPv4Address(chance.getrandbits(32)))
    return str(ipaddress.IPv6Address(chance.getrandbits(128) >> chance.choice((0, 0, 64, 96))))


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text)
    special = address in ipaddress.ip_network("168.63.129.16/32") if address.version == 4 else False
    return address.is_global and not address.is_multicast and not special


def rebinding(chance: random.Random, count: int, base: Path) -> Section:
    """Names that lead to another address at their next look-up, with a name server of our own."""
    ended = in_own_network(base, min(count, 10_000), chance.getrandbits(30))
    if ended.returncode:
        return Section(f"not tried ({ended.stderr.strip().splitlines()[-1:]})", [])
    found = json.loads(ended.stdout)
    through = [f"{address}: {number} connections" for address, number in found["private"].items()]
    return Section(f"{found['tried']:,} fetches, {found['answered']:,} answered", through)


def editor(chance: random.Random, count: int, base: Path) -> Section:
    """An editor that sends hostile messages to `gen acp`, and such answers."""
    folder = base / "workspace"
    folder.mkdir()
    os.environ |= {"HOME": str(base), "GEN_HOME": str(base / ".gen")}
    found = asyncio.run(attack_as_editor(folder, min(count, 3_000), chance.getrandbits(30)))
    through = [*found.faults, *([] if found.alive else ["it did not answer any more"])]
    return Section(f"{found.sent:,} messages, {found.answered:,} answered", through)


MOST_SECONDS = 2.0
"""Of processor time, for one file."""


def parsers(chance: random.Random, count: int, base: Path) -> Section:
    """Files that are built to take long or to end a process."""
    through: list[str] = []
    tried = 0
    slowest = ("", 0.0)
    for name, attempt in bombs(base):
        began = time.thread_time()
        try:
            attempt()
        except (MemoryError, RecursionError) as error:
            through.append(f"{name}: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001  (which errors a reader may raise is what is tried)
            if type(error).__module__ == "builtins":
                through.append(f"{name}: {type(error).__name__}: {error}"[:200])
        seconds = time.thread_time() - began
        tried += 1
        slowest = max(slowest, (name, seconds), key=lambda each: each[1])
        if seconds > MOST_SECONDS:
            through.append(f"{name}: {seconds:.1f} s")
    return Section(f"{tried} read, slowest {slowest[0]} in {slowest[1]:.2f} s", through)


def bombs(base: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Hostile files by name, with what reads each."""
    from gencode.agents.agent_file import read_agent_file
    from gencode.tools.web_page import markdown_of

    for name, unit in HTML.items():
        page = unit * (5_000_000 // len(unit))
        yield f"HTML {name}", lambda page=page: markdown_of(page, "https://example.com/", lambda: False)
    for name, (path, text) in AGENTS.items():
        yield f"agent {name}", lambda path=path, text=text: read_agent_file(text.encode(), path)
    yield from files(base)


def files(base: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Pictures and exported journals."""
    from gencode.files.images import image_of
    from gencode.stores.jsonl import import_task

    for name, content in PICTURES.items():
        yield f"picture {name}", lambda content=content: image_of(content)
    for name, text in JOURNALS.items():
        yield f"journal {name}", lambda text=text: import_task(text)


HTML = {
    "open tags": "<div>",
    "attributes": "<a " + "x=y " * 50 + ">",
    "tables": "<table><tr><td>",
    "lists": "<ul><li>",
    "comments": "<!-- x ",
    "entities": "&amp;&#x41;&notanentity",
    "scripts": "<script>x",
    "quotes": "<a href='",
    "less than": "<",
    "formatting": "<b><i></b></i>",
    "cells": "<td>x</td>",
    "links": "<a href=x>y</a>",
    "blockquotes": "<blockquote>x",
    "pre": "<pre>`",
}
_ALIASES = "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9))
_MARKDOWN, _TOML, _JSON = ".claude/agents/x.md", ".codex/agents/x.toml", ".kiro/agents/x.json"
AGENTS = {
    "digits": (_MARKDOWN, "---\nname: x\nmax_turns: " + "9" * 100_000 + "\n---\n"),
    "aliases": (_MARKDOWN, f"---\na: &a [{','.join('x' * 9)}]\n{_ALIASES}---\n"),
    "depth": (_MARKDOWN, "---\nx: " + "[" * 100_000 + "\n---\n"),
    "tag": (_MARKDOWN, "---\nx: !!python/object/apply:os.system ['touch canary']\n---\n"),
    "keys": (_MARKDOWN, "---\n" + "".join(f"k{n}: {n}\n" for n in range(20_000)) + "---\n"),
    "blanks": (_MARKDOWN, "---\nname:" + " " * 200_000 + "x\n---\n"),
    "quotes": (_MARKDOWN, "---\nname: " + "'" * 100_001 + "\n---\n"),
    "TOML digits": (_TOML, "x = " + "9" * 5_000),
    "TOML float": (_TOML, "x = 1e" + "9" * 5_000),
    "TOML dots": (_TOML, ".".join("a" * 20_000) + " = 1"),
    "TOML tables": (_TOML, "".join(f"[{'.'.join('a' * 90)}.b{n}]\n" for n in range(1_000))),
    "TOML depth": (_TOML, "x = " + "[" * 100_000),
    "JSON digits": (_JSON, '{"x": ' + "9" * 100_000 + "}"),
    "JSON depth": (_JSON, '{"x":' * 50_000),
    "JSON float": (_JSON, '{"x": 1e99999999999}'),
    "JSON surrogates": (_JSON, '{"name": "\\ud800"}'),
}
_PNG = b"\x89PNG\r\n\x1a\n"
PICTURES = {
    "huge": _PNG + b"\0\0\0\rIHDR" + b"\xff" * 8 + b"\x08\x06\0\0\0" + b"\0" * 100,
    "cut": _PNG + b"\0\0\0\rIH",
    "empty segments": b"\xff\xd8" + b"\xff\xe0\0\0" * 1_000_000,
    "endless segments": b"\xff\xd8" + b"\xff\xe0\0\2" * 1_000_000,
    "fill bytes": b"\xff\xd8" + b"\xff" * 5_000_000,
    "GIF": b"GIF89a" + b"\0" * 4,
    "WebP": b"RIFF\xff\xff\xff\xffWEBPVP8X" + b"\xff" * 20,
}
_HEAD = '{"gencode": "task", "version": 1}\n'
JOURNALS = {
    "nothing": "",
    "no lines": "\n" * 1_000_000,
    "depth": _HEAD + "[" * 200_000,
    "digits": _HEAD + '{"id": ' + "9" * 1_000_000 + "}",
    "keys": _HEAD + "{" + ",".join(f'"k{n}":{n}' for n in range(100_000)) + "}",
    "many": _HEAD + '{"type": "x"}\n' * 200_000,
    "surrogates": _HEAD + '{"type": "\\ud800"}',
}

SECTIONS: dict[str, Callable[[random.Random, int, Path], Section]] = {
    "bash": bash,
    "rules": rules,
    "options": options,
    "sandbox": sandbox,
    "addresses": addresses,
    "rebinding": rebinding,
    "editor": editor,
    "parsers": parsers,
}
RUNS_COMMANDS = ("bash", "rules", "options")


def enclosed(words: Sequence[str]) -> int:
    """Run this program again where nothing but a folder of its own can be written."""
    program = shutil.which("bwrap")
    if program is None:
        print("bubblewrap is needed to run commands that are made to do harm.")
        return 2
    wall = [
        program,
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--tmpfs",
        TMP,
        "--unshare-pid",
    ]
    for folder in sorted({str(Path(__file__).resolve().parents[1]), sys.prefix, sys.base_prefix}):
        if folder.startswith(f"{TMP}/"):  # a clone there is read, and not written either
            wall += ["--ro-bind", folder, folder]
    wall += ["--unshare-net", "--die-with-parent", "--setenv", INSIDE, "1", "--setenv", "HOME", TMP]
    return subprocess.run([*wall, "--", sys.executable, __file__, *words], check=False).returncode


def main(words: Sequence[str]) -> int:
    """Try the sections that were named; without a name all of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    args = parser.parse_args(words)
    failed = 0
    for name in args.sections or SECTIONS:
        if name in RUNS_COMMANDS and INSIDE not in os.environ:
            failed |= enclosed([name, "--count", str(args.count), "--seed", str(args.seed)])
            continue
        with tempfile.TemporaryDirectory(prefix="gen-security-") as base:
            found = SECTIONS[name](random.Random(args.seed), args.count, Path(base))
        print(f"{name} (seed {args.seed}): {found.counts}; {len(found.through)} went through", flush=True)
        for each in found.through[:20]:
            print(f"    {each!r}")
        failed |= bool(found.through)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
