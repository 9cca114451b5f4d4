"""MCP server definitions, read from settings, from `.mcp.json` and from agent files.

`${NAME}` and `${NAME:-default}` are variables of the environment. They are replaced when the server is
started: the user approves the text as it was written, and no secret is stored with it.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from gencode.core.errors import UserMistake, nearest
from gencode.core.structs import replace
from gencode.permissions.paths import shown
from gencode.permissions.started_files import digests, started_by

MOST_SERVERS = 64
LARGEST_FILE = 256 * 1024
_MOST_PARTS = 256
_LONGEST_PART = 32 * 1024
_LONGEST_NAME = 64
_LONGEST_SECONDS = 3_600.0
_KNOWN_FIELDS = ("type", "command", "args", "env", "cwd", "url", "headers", "sandbox")
_STDIO = ("", "stdio", "local")
_HTTP = ("", "http", "streamable-http", "streamable_http", "streamableHttp")
_HERE = re.compile(r"localhost|127\.\d+\.\d+\.\d+|::1")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OUR_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept", "content-type"}
)


class ServerDefinition(Struct, frozen=True):
    """One configured server: a `command` to start, or a `url`. `origin` is where it was written.

    `reads` are patterns of tools that the user calls read-only; `disabled`: it is never started.
    """

    name: str
    origin: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    reads: tuple[str, ...] = ()
    call_seconds: float = 120.0
    startup_seconds: float = 30.0
    disabled: bool = False
    sandboxed: bool = False
    """It runs in the sandbox of commands, as all servers of a project do."""
    network: bool = False
    """In the sandbox it has the network."""
    write: tuple[str, ...] = ()
    """The folders that it may write in the sandbox beside the workspace."""
    started: dict[str, str] = {}
    """The files of the workspace that its command starts, with their SHA-256."""

    @property
    def kind(self) -> Literal["stdio", "http"]:
        """The transport of the server."""
        return "http" if self.url else "stdio"

    @property
    def digest(self) -> str:
        """A hash of everything that decides which program runs or which URL is used; approvals are for it."""
        parts: tuple[Any, ...] = (self.command, self.args, self.env, self.cwd, self.url, self.headers)
        if self.started:
            parts = (*parts, self.started)
        if self.network or self.write:
            parts = (*parts, self.network, self.write)
        return sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The command and its variables as shell lines, each with its folder."""
        env = " ".join(f"{name}={shlex.quote(value)}" for name, value in self.env.items())
        return [(line, self.cwd) for line in (shlex.join((self.command, *self.args)), env) if line]

    def with_started_files(self, folder: Path) -> "ServerDefinition":
        """The same with the digests of the workspace's files that its command starts, as they are now."""
        if not self.command:
            return self
        return replace(self, started=digests(started_by(self.lines, folder).files, folder))

    def of_project(self) -> "ServerDefinition":
        """The same as a server of a project, which runs in the sandbox whatever it says."""
        return replace(self, sandboxed=bool(self.command))

    def describe(self) -> str:
        """The server for the user who has to approve it; values of variables and headers are not shown."""
        lines = [f"The MCP server {self.name} ({self.origin or 'no file'})"]
        if self.url:
            lines.append(f"  reached at  {shown(self.url, _LONGEST_PART)}")
        else:
            words = " ".join(shown(word, _LONGEST_PART) for word in (self.command, *self.args))
            lines.append(f"  started by  {words}")
        for what, names in (("variables", self.env), ("headers", self.headers), ("files", self.started)):
            if names:
                lines.append(f"  {what:<11} {', '.join(names)}")
        if self.cwd:
            lines.append(f"  in          {shown(self.cwd, _LONGEST_PART)}")
        if self.sandboxed:
            folders = [f"writes {shown(folder, _LONGEST_PART)}" for folder in self.write]
            more = ", ".join([*(["the network"] if self.network else []), *folders])
            lines.append(f"  sandbox     the workspace{f', {more}' if more else ', no network'}")
        return "\n".join(lines)

    def with_variables(self, environ: Mapping[str, str]) -> "ServerDefinition":
        """The same with every `${NAME}` replaced; UserMistake if a variable is not set."""

        def fill(text: str) -> str:
            return _VARIABLE.sub(lambda found: _value(self.name, found, environ), text)

        return _checked(
            replace(
                self,
                command=fill(self.command),
                args=tuple(map(fill, self.args)),
                env={name: fill(value) for name, value in self.env.items()},
                cwd=fill(self.cwd),
                url=fill(self.url),
                headers={name: fill(value) for name, value in self.headers.items()},
            )
        )


class FoundServers(Struct, frozen=True):
    """The servers of one source, and the problems of those that were left out."""

    definitions: tuple[ServerDefinition, ...] = ()
    problems: tuple[str, ...] = ()


class _Sandbox(Struct, frozen=True, forbid_unknown_fields=True):
    """What a server has in the sandbox beside the workspace."""

    network: bool = False
    write: tuple[str, ...] = ()


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A server in the format of settings."""

    type: str = ""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    reads: tuple[str, ...] = ()
    call_seconds: float = 120.0
    startup_seconds: float = 30.0
    disabled: bool = False
    sandbox: _Sandbox | None = None


def servers_from_settings(
    table: Mapping[str, Any], origin: str, *, users: bool
) -> tuple[ServerDefinition, ...]:
    """The servers of the setting `mcp_servers`; UserMistake for any problem.

    Only the user (`users`) can declare that tools are read-only.
    """
    _check_count(table)
    return tuple(_from_table(name, value, origin, users=users) for name, value in table.items())


def servers_from_mcp_json(content: bytes, origin: str) -> FoundServers:
    """The servers of a file like `.mcp.json`; invalid ones are left out and reported."""
    if len(content) > LARGEST_FILE:
        return FoundServers(
            problems=(f"{origin} is larger than {LARGEST_FILE:,} bytes, so its servers are not used",)
        )
    try:
        read: object = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return FoundServers(problems=(f"{origin} is not valid JSON ({error}), so its servers are not used",))
    servers = cast("dict[str, object]", read).get("mcpServers") if isinstance(read, dict) else None
    if not isinstance(servers, dict):
        return FoundServers(problems=(f"{origin} has no object mcpServers",))
    return _from_pairs(cast("dict[str, object]", servers).items(), origin)


def servers_of_agent(entries: Sequence[Any], origin: str) -> tuple[tuple[str, ...], FoundServers]:
    """The servers in an agent's file: names of servers defined elsewhere, and its own definitions."""
    names = [each for each in entries if isinstance(each, str)]
    inline = [
        pair
        for each in entries
        if isinstance(each, Mapping)
        for pair in cast("Mapping[str, object]", each).items()
    ]
    found = _from_pairs(inline, origin)
    odd = sum(not isinstance(each, str | Mapping) for each in entries)
    if odd:
        entries_are = "entry of the MCP servers is" if odd == 1 else "entries of the MCP servers are"
        problem = f"{origin}: {odd} {entries_are} neither a name nor a definition"
        found = FoundServers(found.definitions, (*found.problems, problem))
    return tuple(dict.fromkeys(names)), found


def all_definitions(
    tables: Iterable[tuple[str, Mapping[str, Any], bool]], files: Mapping[str, bytes] | None = None
) -> FoundServers:
    """All servers of a session, each name once: those of a trusted project's `files` like `.mcp.json`, then
    those of the settings, in the order of precedence. A later one replaces an earlier one.
    """
    found = [servers_from_mcp_json(content, path) for path, content in (files or {}).items()]
    all_of_them = [each.of_project() for one in found for each in one.definitions]
    for origin, table, users in tables:
        own = servers_from_settings(table, origin, users=users)
        all_of_them += own if users else [each.of_project() for each in own]
    by_name = {each.name: each for each in all_of_them}
    return FoundServers(tuple(by_name.values()), tuple(problem for one in found for problem in one.problems))


def _from_pairs(pairs: Iterable[tuple[str, object]], origin: str) -> FoundServers:
    definitions: dict[str, ServerDefinition] = {}
    problems: list[str] = []
    for name, value in pairs:
        if len(definitions) >= MOST_SERVERS:
            problems.append(
                f"{origin}: there are more than {MOST_SERVERS} MCP servers; the others are left out"
            )
            break
        try:
            definitions[name] = _from_foreign(name, value, origin)
        except UserMistake as mistake:
            problems.append(str(mistake))
    return FoundServers(tuple(definitions.values()), tuple(problems))


def _from_table(name: str, value: Any, origin: str, *, users: bool) -> ServerDefinition:
    try:
        table = msgspec.convert(value, _Table)
    except msgspec.ValidationError as error:
        way = nearest(str(error), _Table.__struct_fields__) if "unknown field" in str(error) else ""
        raise UserMistake(f"{_server_in(name, origin)}: {error}. {way}".rstrip()) from None
    return _definition(name, table, origin, users=users)


def _from_foreign(name: str, value: object, origin: str) -> ServerDefinition:
    """A server in the format of other products; unknown fields are ignored."""
    if not isinstance(value, Mapping):
        raise UserMistake(f"{_server_in(name, origin)} is not an object with a command or a url.")
    given = dict(cast("Mapping[str, Any]", value))
    known = {key: given[key] for key in _KNOWN_FIELDS if key in given}
    if "httpUrl" in given and "url" not in given:
        known["url"] = given["httpUrl"]
    if given.get("disabled") is True or given.get("enabled") is False:
        known["disabled"] = True
    if isinstance(given.get("timeout"), int | float):
        known["call_seconds"] = min(max(given["timeout"] / 1_000, 1.0), _LONGEST_SECONDS)
    try:
        table = msgspec.convert(known, _Table, strict=False)
    except msgspec.ValidationError as error:
        raise UserMistake(f"{_server_in(name, origin)}: {error}.") from None
    return _definition(name, table, origin, users=False)


def _definition(name: str, table: _Table, origin: str, *, users: bool) -> ServerDefinition:
    who = _server_in(name, origin)
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise UserMistake(f"{who}: the name must have 1 to {_LONGEST_NAME} printable characters.")
    if bool(table.command) == bool(table.url):
        raise UserMistake(f"{who} needs either a command or a url.")
    if table.type not in (_HTTP if table.url else _STDIO):
        way = "use the URL of its streamable HTTP endpoint" if table.url else "remove the type"
        raise UserMistake(f"{who}: the type {shown(table.type)} is not supported; {way}.")
    taken_apart = ("type", "sandbox")
    fields = {field: getattr(table, field) for field in table.__struct_fields__ if field not in taken_apart}
    if not users:
        fields["reads"] = ()
    sandbox = table.sandbox or _Sandbox()
    return _checked(
        ServerDefinition(
            name=name,
            origin=origin,
            sandboxed=table.sandbox is not None and not table.url,
            network=sandbox.network,
            write=sandbox.write,
            **fields,
        )
    )


def _checked(definition: ServerDefinition) -> ServerDefinition:
    """The definition; UserMistake if it is not valid."""
    who = _server_in(definition.name, definition.origin)
    texts = (
        definition.command,
        *definition.args,
        definition.cwd,
        definition.url,
        *definition.env,
        *definition.env.values(),
        *definition.headers,
        *definition.headers.values(),
        *definition.write,
    )
    if len(texts) > _MOST_PARTS or any(len(text) > _LONGEST_PART for text in texts):
        raise UserMistake(f"{who} has more than {_MOST_PARTS} parts, or one that is too long.")
    if any("\0" in text for text in texts):
        raise UserMistake(f"{who}: NUL characters are not allowed.")
    if "${{" in "".join(texts):
        raise UserMistake(f"{who}: only variables of the form ${{NAME}} are supported.")
    for name in definition.env:
        if not _ENV_NAME.fullmatch(name):
            raise UserMistake(f"{who}: {shown(name)} is not a valid variable name.")
    for name, value in definition.headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OUR_HEADERS or not _is_header_value(value):
            raise UserMistake(f"{who}: the header {shown(name)} is not allowed or not valid.")
    for seconds in (definition.call_seconds, definition.startup_seconds):
        if not 0 < seconds <= _LONGEST_SECONDS:
            raise UserMistake(f"{who}: seconds must be more than 0 and at most {_LONGEST_SECONDS:,.0f}.")
    if definition.url and not _VARIABLE.search(definition.url):
        _check_url(who, definition.url)
    return definition


def _is_header_value(value: str) -> bool:
    return all(character == "\t" or character.isprintable() for character in value)


def _check_url(who: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise UserMistake(f"{who}: {shown(url)} is not a valid URL.") from None
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise UserMistake(f"{who}: {shown(url)} is not an http or https URL.")
    if parts.username or parts.password:
        raise UserMistake(f"{who}: remove the user and password from the URL; use a header instead.")
    if parts.scheme == "http" and not _HERE.fullmatch(host):
        raise UserMistake(f"{who}: a server on another machine needs an https URL, not {shown(url)}.")


def _value(name: str, found: "re.Match[str]", environ: Mapping[str, str]) -> str:
    variable, otherwise = found.groups()
    value = environ.get(variable) or otherwise
    if value is None:
        way = f"set it, or write ${{{variable}:-default}}"
        raise UserMistake(f"The MCP server {name} needs the variable {variable}, which is not set; {way}.")
    return value


def _check_count(table: Mapping[str, Any]) -> None:
    if len(table) > MOST_SERVERS:
        raise UserMistake(f"The setting mcp_servers has more than {MOST_SERVERS} servers; remove some.")


def _server_in(name: str, origin: str) -> str:
    place = f" in {origin}" if origin else ""
    return f"The MCP server {shown(name, _LONGEST_NAME)}{place}"
