"""The environment of a command and its PATH: without secrets and what changes programs.

Three layers, each taken away from what we were started with: keys from every command; what makes a shell do
something else than its text says from every command; what makes a reading program run another one from
commands that were allowed because they only read.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from gencode.permissions.paths import is_inside
from gencode.permissions.secrets import SYSTEM_ROOTS, folded, is_under

INSIDE_MARK = "LC_GENCODE_MCP"
"""Marks what runs below us, so that a `gen mcp` among it does not start the next."""
PROCESS_MARK = "GENCODE_KEEPER"
"""The variable by which a process of ours is known after a crash."""

_SECRET_NAME = re.compile(
    r"""(?: API_?KEYS? | ACCESS_?KEYS? | SECRET_?KEYS? | PRIVATE_?KEYS? | (?:^|_)KEYS? | (?:^|_)KEY_ID
          | TOKENS? | SECRETS? | PASSWORDS? | PASSWD | PASSPHRASE | (?:^|_)(?:PASS|PAT|AUTH|COOKIES?)
          | CREDENTIALS? | CUSTOM_HEADERS | OTLP_HEADERS | ^GEN_DATABASE_URL
          | ^SSHPASS | _PWD | (?:^|_)DSN ) $
        | (?:^|_)(?:API_?KEY|SECRET|PASSWORD|TOKEN)(?:_|\d) """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"""\b(?: sk-[A-Za-z0-9_-]{16} | gh[pousr]_[A-Za-z0-9]{20} | github_pat_[A-Za-z0-9_]{20}
          | glpat-[A-Za-z0-9_-]{16} | xox[abeprs]-[A-Za-z0-9-]{10} | AKIA[A-Z0-9]{16} | AIza[A-Za-z0-9_-]{30}
          | gsk_[A-Za-z0-9]{20} | hf_[A-Za-z0-9]{20} | npm_[A-Za-z0-9]{20} | pypi-[A-Za-z0-9_-]{16} )
        | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
        | ://[^/\s@]*@""",  # a password in a URL
    re.VERBOSE,
)
_LEAST_COPIED = 12
"""Values of secret variables from this length on are looked for in the others, unless they are paths."""

_OTHER_TEXT = re.compile(
    r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|BASH_XTRACEFD|PS4|PROMPT_COMMAND|CDPATH|GLOBIGNORE|EXECIGNORE"
)
_OTHER_PROGRAM = re.compile(
    r"GIT_.*|PAGER|.*_PAGER|MANPAGER|LESS|LESSOPEN|LESSCLOSE|RIPGREP_CONFIG_PATH|LD_.*|DYLD_.*|NODE_OPTIONS"
    r"|PYTHONSTARTUP|PERL5OPT|PERL5LIB|RUBYOPT|GREP_OPTIONS|MAGIC|POSIXLY_CORRECT"
    r"|.*_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GCONV_PATH|LOCPATH|NLSPATH"
    r"|TAR_OPTIONS|TAPE|UNZIP|UNZIPOPT|ZIPINFO.*|GZIP|XZ_OPT|XZ_DEFAULTS|AWKPATH|AWKLIBPATH|LUA_INIT.*"
    r"|PS_FORMAT|PS_PERSONALITY|CMD_ENV|I_WANT_A_BROKEN_PS|GOFLAGS|GOTOOLCHAIN|NPM_CONFIG_.*|npm_config_.*"
)


class EnvironmentFilter(Struct, frozen=True):
    """What the person wants beyond the rules: names that never go out, names that may look like keys."""

    drop: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()

    def is_secret(self, name: str, value: str = "") -> bool:
        """Whether a variable holds a key, going by its name and by the shape of its value."""
        if name in self.keep:
            return False
        return bool(name in self.drop or _SECRET_NAME.search(name) or _SECRET_VALUE.search(value))

    def without_secrets(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of any command: no keys, no copies of keys, nothing that changes a text."""
        secrets = {name: value for name, value in environ.items() if self.is_secret(name, value)}
        values = [value for value in secrets.values() if len(value) >= _LEAST_COPIED and value[0] != "/"]
        return {
            name: value
            for name, value in environ.items()
            if name not in secrets
            and name != PROCESS_MARK
            and not _OTHER_TEXT.fullmatch(name)
            and (name in self.keep or not any(each in value for each in values))
        }

    def read_only(
        self, environ: Mapping[str, str], empty: Path, git: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """The environment of a command that was allowed because it only reads. `empty` is an empty folder,
        `git` are further settings for git.
        """
        kept = {
            name: value
            for name, value in self.without_secrets(environ).items()
            if not _OTHER_PROGRAM.fullmatch(name)
        }
        return {**kept, **_git_that_only_reads(empty, git or {}), "GOTOOLCHAIN": "local"}


def system_path(path: str, own: Iterable[Path]) -> str:
    """A PATH without entries that a folder of ours could fill: relative ones, and those inside of `own`.

    What no tool may write stays, even if the workspace is all of the disk.
    """
    roots = {str(each) for folder in own for each in (folder, folder.resolve())}
    kept: list[str] = []
    for entry in path.split(os.pathsep):
        if not entry.startswith("/"):
            continue
        normal, real = os.path.normpath(entry), os.path.realpath(entry)
        names = (folded(normal), folded(real))
        inside = any(is_inside(each, root) for each in (normal, real) for root in roots)
        if not inside or all(is_under(each, SYSTEM_ROOTS) for each in names):
            kept.append(entry)
    return os.pathsep.join(kept) or os.defpath


def _git_that_only_reads(empty: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Git's settings for a call that must neither write nor start anything; they win over any file's."""
    settings = {
        "core.fsmonitor": "false",
        "core.untrackedCache": "false",
        "core.pager": "cat",
        "core.hooksPath": os.fspath(empty),
        "core.sshCommand": "false",
        "core.askPass": "false",
        "credential.helper": "",
        "diff.autoRefreshIndex": "false",
        "log.showSignature": "false",
        "maintenance.auto": "false",
        "gc.auto": "0",
        "protocol.allow": "never",
        # Git drops these settings where it starts itself in a submodule, so it must start nothing there.
        "submodule.recurse": "false",
        "diff.ignoreSubmodules": "all",
        "diff.submodule": "short",
        "status.submoduleSummary": "false",
        "fetch.recurseSubmodules": "false",
        # A repository's formats can ask for signatures, and gpg would make its folder in the home folder.
        "gpg.program": "",
        "gpg.openpgp.program": "",
        "gpg.x509.program": "",
        "gpg.ssh.program": "",
        # "remerge" merges again, with drivers and with objects that it writes.
        "log.diffMerges": "separate",
        # Of Git for Windows and its relatives: a program that says which files there are.
        "core.virtualFilesystem": "",
        "safe.bareRepository": "explicit",
        **more,
    }
    environment = {
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_OPTIONAL_LOCKS": "0",
        # A repository may allow single transports, one that runs a program among them; this wins over all.
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        # Wins over pager.<command>, which names a program as well.
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }
    for number, (name, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = name
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment
