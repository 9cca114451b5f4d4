"""Errors of Postgres as sentences that show no password."""

from urllib.parse import parse_qs, urlsplit

import asyncpg

from gencode.core.errors import StoreTrouble, StoreUnavailable, UserMistake

_WAITING_HELPS = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InternalClientError,  # a connection that is being cut while it is used
    TimeoutError,
    OSError,
)
TROUBLES = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""What a step on a connection may raise that is not a bug of ours."""
SCHEMES = ("postgresql", "postgres")
OLDEST = 13


def check_url(url: str) -> str:
    """An address of a Postgres database; UserMistake, which shows nothing of it, for anything else."""
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in SCHEMES or parts.port == 0
    except ValueError:
        wrong = True
    if wrong or not url.isprintable():
        raise unreadable()
    return url


def unreadable() -> UserMistake:
    """The error for an invalid address; it shows no part of it."""
    return UserMistake(
        "The database address is not one of Postgres; write postgresql://USER:PASSWORD@HOST/DATABASE "
        "(in --to, GEN_DATABASE_URL, or database_url in the user's settings), with %40 for an @ inside a "
        "password."
    )


def shown(url: str) -> str:
    """The part of an address without secrets: user, host and database."""
    parts = urlsplit(check_url(url))
    who = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    host = parts.hostname or next(iter(parse_qs(parts.query).get("host", ())), "")
    return f"postgresql://{who}{host}{port}{parts.path}"


def waiting_helps(error: BaseException) -> bool:
    """Whether retrying the same step later may work."""
    if isinstance(error, asyncpg.InterfaceError):
        return not isinstance(error, ValueError) and "closed" in str(error)
    return isinstance(error, _WAITING_HELPS)


def trouble(error: BaseException, address: str) -> StoreTrouble:
    """The StoreTrouble for an error."""
    return (StoreUnavailable if waiting_helps(error) else StoreTrouble)(_sentence(error, address))


def too_old(version: int, address: str) -> StoreTrouble:
    """The error for a server whose version is too old."""
    return StoreTrouble(
        f"The database {address} runs Postgres {version}, and GenCode needs {OLDEST} or newer; upgrade it."
    )


def _sentence(error: BaseException, address: str) -> str:
    match error:
        case asyncpg.ClientConfigurationError():
            return str(unreadable())
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return (
                f"The database {address} refused the user or the password; look at the address where you "
                "gave it (--to, GEN_DATABASE_URL or database_url), and at what the server allows."
            )
        case asyncpg.InvalidCatalogNameError():
            return f"There is no database {address}; create it with createdb, or name another one."
        case asyncpg.TooManyConnectionsError():
            return (
                f"The database {address} has no connection left; end some programs that use it, or raise its "
                "max_connections."
            )
        case asyncpg.ReadOnlySQLTransactionError():
            return (
                f"The database {address} can only be read at the moment (a standby, or a server under "
                "repair); nothing was written. Name the primary server."
            )
        case asyncpg.InsufficientPrivilegeError():
            return (
                f"The user of the database {address} may not do what GenCode needs ({error}); let an "
                "administrator run gen migrate once and grant the rights on the gen_ tables."
            )
        case asyncpg.DiskFullError():
            return (
                f"The disk of the database {address} is full, so nothing more was written; make room there."
            )
        case asyncpg.UndefinedTableError() | asyncpg.UndefinedColumnError():
            return f"The database {address} lacks a table of GenCode; bring it up to date with gen migrate."
        case _ if waiting_helps(error):
            return (
                f"The database {address} cannot be reached ({_reason(error)}); start the server, or look at "
                "the address and the network."
            )
        case _:
            return f"The database {address} could not be used: {_reason(error)}."


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
