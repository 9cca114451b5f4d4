"""Files that are not sent to another machine: secrets, and what is too large.

What looks like a key or a password stays where it is, whether it is a file, staged, or committed. What the
other machine has already is sent in any case, so only the difference is checked. Files left out are only
reported, so this list is wider than what needs approval to be read.
"""

import os
import re
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from gencode.journal.folder_snapshot import MOST_PACK
from gencode.permissions.secrets import folded, is_secret
from gencode.workspaces.worktrees.agent_work import first_names
from gencode.workspaces.worktrees.git import Git, git_error

RAW = ("--raw", "-z", "--no-abbrev", "--no-renames", "--ignore-submodules=none")
"""The options of git diff for `parse_diff`."""
NO_FILE = "000000"
_REPOSITORY = "160000"
_LINK = "120000"


class DiffEntry(Struct, frozen=True):
    """A file that is new, changed or gone: its mode and contents, `old` and now. `NO_FILE`: there is none."""

    name: bytes
    old_mode: str
    old: str
    mode: str
    new: str

    @property
    def is_new(self) -> bool:
        """Whether the name is new."""
        return self.old_mode == NO_FILE

    @property
    def has_contents(self) -> bool:
        """Whether there are contents to send; a nested repository has none."""
        return self.mode not in {NO_FILE, _REPOSITORY}

    @property
    def is_file(self) -> bool:
        """Whether it is a file now, and no link."""
        return self.has_contents and self.mode != _LINK


def parse_diff(out: bytes) -> Iterator[DiffEntry]:
    """The entries of git's output, whatever the names are."""
    words = iter(out.split(b"\0"))
    for word in words:
        if word.startswith(b":"):
            old_mode, mode, old, new, _ = word[1:].decode("ascii").split(" ")
            yield DiffEntry(next(words), old_mode, old, mode, new)


async def restore_entries(git: Git, changed: Iterable[DiffEntry], index: str) -> None:
    """Restore the earlier version of files in an index."""
    lines = [f"{_was(each)} {each.old}\t".encode() + each.name + b"\0" for each in changed]
    said = await git.run("update-index", "-z", "--index-info", stdin=b"".join(lines), index=index)
    if not said.ok:
        raise git_error(said, "What does not travel cannot be left out")


def _was(change: DiffEntry) -> str:
    return "0" if change.is_new else change.old_mode


_SIZE = "--batch-check=%(objectsize:disk)"
MOST_TRIES = 20
"""How often one more file is left out than estimated; then it is given up."""


class LargeContents(Struct, frozen=True):
    """Contents that were made or changed, with the earlier version of each file that has them."""

    size: int
    files: tuple[DiffEntry, ...]

    @property
    def names(self) -> list[bytes]:
        """The names of the files."""
        return [each.name for each in self.files]


async def largest_contents(git: Git, before: str, after: str) -> list[LargeContents]:
    """The differences of two commits, the largest contents first. Removed files have no size."""
    said = await git.run("diff-tree", "-r", *RAW, "--end-of-options", before, after)
    if not said.ok:
        raise git_error(said, "What was changed cannot be listed")
    found: dict[str, list[DiffEntry]] = {}
    for change in parse_diff(said.out):
        if change.has_contents:
            found.setdefault(change.new, []).append(change)
    sizes = await git.run("cat-file", _SIZE, stdin="".join(f"{each}\n" for each in found).encode())
    told = [int(line) if line.isdigit() else 0 for line in sizes.out.decode("ascii").splitlines()]
    heavy = [LargeContents(size, tuple(files)) for size, files in zip(told, found.values(), strict=False)]
    return sorted(heavy, key=lambda each: -each.size)


def exclusion_steps(heavy: list[LargeContents]) -> Iterator[list[LargeContents]]:
    """What to leave out, more each time: first as much as the size requires, then one by one."""
    weight, count = sum(each.size for each in heavy), 0
    while count < len(heavy) and weight > MOST_PACK:
        weight -= heavy[count].size
        count += 1
    for more in range(max(count, 1), min(len(heavy), count + MOST_TRIES) + 1):
        yield heavy[:more]


async def exclude(git: Git, heavy: Iterable[LargeContents], index: str) -> None:
    """Restore the earlier version of these files in an index."""
    await restore_entries(git, (change for each in heavy for change in each.files), index)


LARGEST_SEARCHED = 128 << 10
"""Larger files are not searched."""
_DATA = "(json|ya?ml|toml|ini|cfg|conf|xml|csv|txt|properties)"
_NAMES = re.compile(
    "|".join(
        (
            r"\.env[-_~].*|.+\.env|\.dev\.vars(\..+)?|local\.settings\.json",
            rf"\.?(credentials?|secrets?|passwords?|passwd)(\.{_DATA})?|\.passwd-s3fs|\.smbcredentials",
            r"application_default_credentials\.json|credentials\.tfrc\.json|gha-creds-.*\.json",
            r"client[-_]?secrets?.*\.json|service[-_]?accounts?.*\.json|(auth|token)\.json|\.token",
            r"id_(rsa|dsa|ecdsa|ed25519|xmss)([-_][^.]*)?|ssh_host_[a-z0-9]+_key",
            r".+\.(jks|bks|keystore|truststore|keytab|p8|pkcs12|ppk|kdbx|ovpn|agekey|keychain(-db)?)",
            r"\.?keystore|(key|keystore|signing)\.properties|secring\.(gpg|pgp|skr)",
            r".+\.(tfstate|tfvars|tfvars\.json)|\.terraformrc|terraform\.rc",
            r"\.?kubeconfig(\.(ya?ml|json|conf))?|.+\.kubeconfig",
            r"\.dockercfg|\.dockerconfigjson|\.vault[-_](token|pass(word)?)(\..+)?|\.?htpasswd",
            r"_netrc|pgpass\.conf|\.(my|mylogin)\.cnf|\.s3cfg|\.boto|\.databrickscfg|\.msmtprc|\.fetchmailrc",
            r"\.[a-z0-9_]+_history",
        )
    )
)
_PLACES = frozenset(
    {
        (".docker", "config.json"),
        (".m2", "settings.xml"),
        (".m2", "settings-security.xml"),
        (".oci", "config"),
    }
)
_FOLDERS = frozenset({".password-store", ".terraform.d"})
_SAMPLE = re.compile(r"(example|sample|template)[-_.].*|.*[-_.](example|sample|template|dist)(\.[a-z]+)?")
_SPARE = re.compile(r"(.+?)(~|[._-](bak|backup|old|orig|save|copy|tmp|swp|swo))")
_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\\[rn]|\s)+"
    rb"(?:[A-Za-z-]+: [^\n]*(?:\\[rn]|\s)+)*[A-Za-z0-9+/]{16}"
    rb"|AGE-SECRET-KEY-1[0-9A-Z]{16}"
)
_PLAIN_KEY = re.compile(
    rb"0(?:[\x00-\x7f]|\x81.|\x82..)\x02\x01(?:[\x00\x01]0[\x00-\x7f]\x06|\x00\x02[\x40-\xff]|\x01\x04[\x10-\x50])",
    re.S,
)
"""The beginning of a private key in DER: PKCS #8, RSA or elliptic curves."""


def is_secret_file(name: bytes) -> bool:
    """Whether a file has the name of one with keys or passwords, or of an old version of one."""
    components = folded(os.fsdecode(name))
    return any(_is_named(each) for each in _versions(components))


def has_private_key(contents: bytes) -> bool:
    """Whether a file contains a private key, whatever its name."""
    if _KEY.search(contents) or _PLAIN_KEY.match(contents):
        return True
    return b"\0" in contents and _KEY.search(contents.replace(b"\0", b"")) is not None  # two-byte characters


def _versions(components: Sequence[str]) -> Iterator[Sequence[str]]:
    """A path, and the same without the endings that editors and people add to old versions."""
    yield components
    if not components:
        return
    *above, last = components
    bare = last.strip("#")
    while spare := _SPARE.fullmatch(bare):
        bare = spare[1]
        yield (*above, bare)
        yield (*above, bare.removeprefix("."))
    if bare != last:
        yield (*above, bare)


def _is_named(components: Sequence[str]) -> bool:
    if is_secret(components, absolute=False) or not _FOLDERS.isdisjoint(components):
        return True
    if tuple(components[-2:]) in _PLACES:
        return True
    return (
        bool(components) and bool(_NAMES.fullmatch(components[-1])) and not _SAMPLE.fullmatch(components[-1])
    )


_SIZES = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
_MOST_NAMED = 50_000
_MOST_READ = 4 << 20
_MOST_TOLD = 64 << 20
_UNSEEN = "What looks like a key cannot be looked for"


async def hold_back_secrets(git: Git, since: str, index: str) -> list[str]:
    """Remove new keys from an index, and restore files into which a private key came; what that was.

    If a key is left out, a deleted one stays in: it may have been moved and changed.
    """
    said = await git.run("diff-index", "--cached", *RAW, since, index=index, most=_MOST_TOLD)
    if not said.ok:
        raise git_error(said, _UNSEEN)
    found = [*parse_diff(said.out)]
    keys = await _keys(git, found, {each.old for each in found})  # a moved key is not new
    new = sorted(each.name for each in keys if each.is_new)
    await restore_entries(git, [*keys, *(await _gone(git, found) if new else ())], index)
    changed = sorted(each.name for each in keys if not each.is_new)
    notes = [f"new files that may hold secrets: {first_names(new)}"] if new else []
    told = "what was changed in files since a private key came into them"
    return [*notes, f"{told}: {first_names(changed)}"] if changed else notes


async def added_secrets(git: Git, first: str, head: str) -> bool:
    """Whether what looks like a key was committed since a commit, even if it was removed again.

    True as well where that cannot be decided, because there is too much.
    """
    whole = await git.run("diff-tree", "-r", *RAW, first, head, most=_MOST_TOLD)
    listed = await git.run("rev-list", f"{first}..{head}") if whole.ok else whole
    words = ("diff-tree", "--stdin", "-r", "-m", "--root", "--no-commit-id", *RAW)
    said = await git.run(*words, stdin=listed.out, most=_MOST_TOLD) if listed.ok else listed
    known = {each.old for each in parse_diff(whole.out)} if said.ok else set[str]()
    return not said.ok or bool(await _keys(git, [*parse_diff(said.out)], known))


async def _keys(git: Git, found: Sequence[DiffEntry], known: Collection[str] = ()) -> list[DiffEntry]:
    """The new files with the name of a key, and those into which a private key came.

    Contents that are `known` are not searched.
    """
    fresh = [each for each in found if each.has_contents and each.new not in known]
    named = {each for each in fresh if each.is_new and is_secret_file(each.name)}
    files = [each for each in fresh if each.is_file and each not in named]
    holding = {contents async for contents in _holding(git, {each.new for each in files})}
    keys = [each for each in files if each.new in holding]
    before = {contents async for contents in _holding(git, {each.old for each in keys if not each.is_new})}
    return [*named, *(each for each in keys if each.old not in before)]


async def _gone(git: Git, found: Sequence[DiffEntry]) -> list[DiffEntry]:
    """The deleted keys that exist under no other name."""
    now = {each.new for each in found}
    gone = [each for each in found if each.mode == NO_FILE and each.old not in now]
    holding = {contents async for contents in _holding(git, {each.old for each in gone})}
    return [each for each in gone if is_secret_file(each.name) or each.old in holding]


async def _holding(git: Git, contents: Iterable[str]) -> AsyncGenerator[str]:
    """Which contents have a private key; large ones are not searched."""
    wanted = sorted(contents)
    for start in range(0, len(wanted), _MOST_NAMED):
        sizes = await _asked(git, _SIZES, wanted[start : start + _MOST_NAMED])
        small = [words for line in sizes.decode("ascii").splitlines() if len(words := line.split()) == 3]
        blobs = [(words[0], int(words[2])) for words in small if words[1] == "blob"]
        for some_of_them in _portions([each for each in blobs if each[1] <= LARGEST_SEARCHED]):
            out, at = await _asked(git, "--batch", [name for name, _ in some_of_them]), 0
            for name, size in some_of_them:
                at = out.index(b"\n", at) + 1
                if has_private_key(out[at : at + size]):
                    yield name
                at += size + 1


def _portions(blobs: Iterable[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """Groups of contents that fit into one read."""
    portion: list[tuple[str, int]] = []
    weight = 0
    for name, size in blobs:
        if weight + size > _MOST_READ:
            yield portion
            portion, weight = [], 0
        portion.append((name, size))
        weight += size
    if portion:
        yield portion


async def _asked(git: Git, how: str, names: Sequence[str]) -> bytes:
    said = await git.run("cat-file", how, stdin="".join(f"{name}\n" for name in names).encode())
    if not said.ok:
        raise git_error(said, _UNSEEN)
    return said.out
