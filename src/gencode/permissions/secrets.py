"""Names of files that need care: secrets, protected paths, system folders, deceptive characters.

Pure predicates over names; nothing here touches the disk. Names are compared as `folded` gives them, so that
`.ENV`, `.env.` and full-width spellings are all the same file to us.
"""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from gencode.core.text import word_set

_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube"})
_SECRET_CONFIGS = frozenset({"gcloud", "gh"})
_SECRET_FILES = word_set(
    ".env .envrc .netrc .git-credentials .pgpass .npmrc .pypirc id_rsa id_dsa id_ecdsa id_ed25519"
)
_SECRET_ENDINGS = (".pem", ".key", ".p12", ".pfx")
_PUBLIC_ENV_FILES = frozenset({".env.example", ".env.sample", ".env.template", ".env.dist"})
_SECRET_SYSTEM_FILES = frozenset({"shadow", "gshadow", "sudoers", "sudoers.d"})
_DOORS_OF_A_PROCESS = frozenset({"environ", "mem", "root", "cwd", "fd", "map_files"})
"""In a folder of /proc: what a process holds, and other names for whatever it can reach."""
_STREAMS = frozenset({"stdin", "stdout", "stderr"})

_PROTECTED_FOLDERS = frozenset(
    {".git", ".gen", ".vscode", ".idea", ".husky", ".githooks", ".devcontainer", ".agents"}
)
_OTHER_ASSISTANTS = frozenset({".claude", ".codex", ".cursor", ".gemini", ".qwen", ".opencode"})
_THEIR_COPIES = "worktrees"
"""Where other assistants keep copies of repositories to work in; nothing is read from there as settings."""
_PROTECTED_PAIRS = frozenset(
    {
        (".github", "workflows"),
        (".cargo", "config.toml"),
        *((".config", name) for name in ("fish", "git", "autostart", "systemd")),
    }
)
_HOOKS = "hooks"
_BARE = ".git"
_PROTECTED_FILES = word_set(
    ".mcp.json .gitmodules .gitconfig .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc "
    ".zprofile .zshenv .zlogin .zlogout .bash_aliases .kshrc .cshrc .tcshrc .gitattributes .yarnrc.yml "
    ".pre-commit-config.yaml .exrc .dir-locals.el .gdbinit .inputrc"
)
_PROTECTED_ROOTS = frozenset({"etc", "boot", "sys", "proc", "dev"})
_HARMLESS_DEVICES = frozenset({"null", "zero", "stdin", "stdout", "stderr", "random", "urandom"})
_SHORT_GIT = re.compile(r"git~\d+\Z")

KERNEL_ROOTS = frozenset({"dev", "proc", "sys"})
SYSTEM_ROOTS = frozenset({"etc", "boot", "usr", "bin", "sbin", "lib", "lib32", "lib64"})


def folded(path: str) -> tuple[str, ...]:
    """The components of a path in the form in which names are compared; empty and `.` ones are left out."""
    names = path.lower().split("/") if path.isascii() else [_fold(name) for name in path.split("/")]
    return tuple([name.rstrip(". ") or name for name in names if name not in ("", ".")])


def _fold(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def is_secret(components: Sequence[str], *, absolute: bool = True) -> bool:
    """Whether folded components name something whose contents should not be shown unasked."""
    if not components:
        return False
    last = components[-1]
    if last in _SECRET_FILES or last.endswith(_SECRET_ENDINGS):
        return True
    if last.startswith(".env.") and last not in _PUBLIC_ENV_FILES:
        return True
    if not _SECRET_FOLDERS.isdisjoint(components):
        return True
    if ".config" in components and any(
        first == ".config" and second in _SECRET_CONFIGS for first, second in pairwise(components)
    ):
        return True
    return absolute and (_is_secret_of_the_system(_without_private(components)) or _is_a_door(components))


def _is_secret_of_the_system(components: Sequence[str]) -> bool:
    if len(components) < 2 or components[0] != "etc":
        return False
    return components[1] == "sudoers.d" or (len(components) == 2 and components[1] in _SECRET_SYSTEM_FILES)


def _is_a_door(components: Sequence[str]) -> bool:
    """Whether an absolute path goes through the links by which the kernel shows what a process has open.

    What follows such a link, `..` too, is not where its letters say, so it is looked at step by step.
    """
    if "proc" not in components and "dev" not in components:
        return False
    way: list[str] = []
    for name in components:
        if way[:2] == ["dev", "fd"] and (name == ".." or len(way) > 2):
            return True
        if len(way) == 2 and way[0] == "dev" and way[1] in _STREAMS:
            return True
        if name == "..":
            way = way[:-1]
            continue
        way.append(name)
        if way[0] == "proc" and len(way) > 2 and name in _DOORS_OF_A_PROCESS:
            return True
    return False


def is_protected(components: Sequence[str], *, absolute: bool = True) -> bool:
    """Whether folded components name something that changes how tools or the machine behave."""
    if not components:
        return False
    if not _PROTECTED_FOLDERS.isdisjoint(components) or components[-1] in _PROTECTED_FILES:
        return True
    if any(_SHORT_GIT.match(name) for name in components):
        return True
    if any(map(_is_protected_pair, components, (*components[1:], ""))):
        return True
    return absolute and _is_protected_root(_without_private(components))


def _is_protected_pair(name: str, inside: str) -> bool:
    """Whether a name and the one after it name what other programs start, or read their settings from."""
    if name in _OTHER_ASSISTANTS:
        return inside != _THEIR_COPIES
    bare = inside == _HOOKS and name.endswith(_BARE)
    return bare or (name, inside) in _PROTECTED_PAIRS


def _is_protected_root(components: Sequence[str]) -> bool:
    if not components or components[0] not in _PROTECTED_ROOTS:
        return False
    harmless = len(components) == 2 and components[0] == "dev" and components[1] in _HARMLESS_DEVICES
    return not harmless


def holds_own_settings(components: Sequence[str]) -> bool:
    """Whether folded components lead into a `.git` or `.gen` folder, which no tool may ever write."""
    return ".git" in components or ".gen" in components or any(map(_SHORT_GIT.match, components))


def is_under(components: Sequence[str], roots: frozenset[str]) -> bool:
    """Whether folded components of an absolute path lie at or under one of these top folders."""
    plain = _without_private(components)
    return bool(plain) and plain[0] in roots


def _without_private(components: Sequence[str]) -> Sequence[str]:
    """macOS keeps `/etc` as `/private/etc`; both spellings are one place."""
    return components[1:] if tuple(components[:2]) == ("private", "etc") else components


_DECEPTIVE = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Cn"})


def deceptive_character(text: str, *, allowed: str = "") -> str:
    """The first character that shows as something else than it is, or an empty text.

    A lone surrogate is how Python spells a byte of a name that is not UTF-8, so it is no deception.
    """
    if text.isprintable():
        return ""
    for character in text:
        if character != " " and character not in allowed and unicodedata.category(character) in _DECEPTIVE:
            return character
    return ""
