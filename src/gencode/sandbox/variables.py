"""Environment variables that agents set for their own commands, and what of our environment they may see.

Nobody approves a variable again when a command runs, so a name that makes programs load, run or reach
something else is never taken, and a command that was allowed because it only reads gets none but those that
the specification calls safe.
"""

import os
import re
from collections.abc import Mapping

from gencode.core.errors import ToolError
from gencode.permissions.bash.readonly import safe_name
from gencode.permissions.paths import shown
from gencode.sandbox.processes.environment import EnvironmentFilter

MOST = 50
LONGEST_VALUE = 4_096
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_ELSEWHERE_NAMES = frozenset(
    """HOME USER LOGNAME TMP TEMP PWD OLDPWD IFS ENV ZDOTDIR GLOBIGNORE EXECIGNORE FIGNORE POSIXLY_CORRECT
    HOSTALIASES DISPLAY XAUTHORITY VIRTUAL_ENV GOROOT GOTOOLCHAIN GOPROXY GOENV GOBIN GOPRIVATE GOSUMDB
    GONOSUMDB GOINSECURE CC CXX CPP LD AR AS NM M4 VISUAL BROWSER MAGIC INPUTRC NETRC PSQLRC
    PS0 PS1 PS2 PS3 PS4""".split()  # noqa: SIM905 – a table to be read
)
_ELSEWHERE_STARTS = tuple(
    """BASH SHELL PROMPT HIST LD_ DYLD_ GCONV MALLOC_ GLIBC_ GIT_ SSH GPG GNUPG SUDO_ DBUS_ XDG_ TERM LESS
    PYTHON CONDA_ PIP_ UV_ POETRY_ PERL RUBY BUNDLE_ GEM_ NODE_ NPM_ YARN_ PNPM_ DENO_ BUN_ JAVA JDK_ _JAVA_
    MAVEN_ GRADLE_ LUA_ PHP R_ JULIA_ CARGO RUSTC RUSTUP RUSTDOC RUSTFLAGS ERL_ MAKE CMAKE_ CURL WGET SSL
    OPENSSL DOCKER_ KUBE TMUX RIPGREP_ GREP_ GEN_ GENCODE_""".split()  # noqa: SIM905 – a table to be read
)
_ELSEWHERE_ENDS = tuple(
    """PATH DIR DIRS FLAGS OPTS OPTIONS ARGS EDITOR PAGER ASKPASS _RC _WRAPPER _LAUNCHER _COMMAND _CMD _HOOK
    _HOOKS _PRELOAD _STARTUP _PROXY _CONFIG _CA_BUNDLE""".split()  # noqa: SIM905 – a table to be read
)


class AgentVariables:
    """What agents have set, each for its own commands; nothing of it outlives the session."""

    def __init__(self) -> None:
        self._own: dict[str, dict[str, str]] = {}

    def of_task(self, task: str) -> Mapping[str, str]:
        """The variables that a task set."""
        return self._own.get(task, {})

    def set(self, task: str, name: str, value: str) -> None:
        """Set a variable for the further commands of a task; an empty value takes it away again."""
        check_variable(name, value)
        own = self._own.setdefault(task, {})
        if not value:
            own.pop(name, None)
            return
        if name not in own and len(own) >= MOST:
            raise ToolError(f"{MOST} variables are already set; remove one by setting it to an empty value.")
        own[name] = value

    def environment(self, task: str, *, reads_only: bool) -> dict[str, str] | None:
        """The environment of a command of a task; None when it is just ours."""
        own = {name: value for name, value in self.of_task(task).items() if safe_name(name) or not reads_only}
        return {**os.environ, **own} if own else None


def check_variable(name: str, value: str) -> None:
    """ToolError for a variable that no agent may set."""
    if not _NAME.fullmatch(name):
        raise ToolError(f"{shown(name, 100)} is not a variable name; use letters, digits and underscores.")
    if _redirects_programs(name.upper()) and not safe_name(name):
        raise ToolError(
            f"{name} cannot be set: it changes what programs load, run or reach. "
            "Put it in front of the command that needs it instead; it is then checked with that command."
        )
    if len(value) > LONGEST_VALUE or not value.isprintable():
        raise ToolError(f"The value of {name} must be one line of at most {LONGEST_VALUE:,} characters.")
    if is_hidden(name, value):
        raise ToolError(f"{name} looks like a key or password; commands never get those.")


def _redirects_programs(name: str) -> bool:
    return name in _ELSEWHERE_NAMES or name.startswith(_ELSEWHERE_STARTS) or name.endswith(_ELSEWHERE_ENDS)


def visible_environment() -> dict[str, str]:
    """Our environment as commands get it, without what could be a secret."""
    return EnvironmentFilter().without_secrets(os.environ)


def is_hidden(name: str, value: str) -> bool:
    """Whether a variable could hold a secret, which nobody is shown."""
    return EnvironmentFilter().is_secret(name, value)
