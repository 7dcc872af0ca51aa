"""Where a ClickHouse is: a folder for the engine without a server, or a server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from seamark.errors import InvalidSink

_FORMS = (
    "write it like chdb:///folder (four slashes for an absolute one) or clickhouse://user@host:8123/database; "
    "clickhouses:// for TLS. Signs such as @ : / in a password are written %40 %3A %2F."
)
_YES, _NO = ("1", "true", "yes"), ("0", "false", "no")
_DEFAULT_PORTS = {False: 8123, True: 8443}


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that the engine without a server works on."""

    path: Path

    @property
    def shown(self) -> str:
        """The place as a person may see it."""
        return f"chdb:///{self.path}"

    @property
    def database(self) -> str:
        """The database that tables are in."""
        return "default"


@dataclass(frozen=True, slots=True)
class Server:
    """A ClickHouse server and its HTTP port."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    secure: bool = False

    @property
    def shown(self) -> str:
        """The place as a person may see it: without the password."""
        scheme = "clickhouses" if self.secure else "clickhouse"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}/{self.database}"


def parse_url(url: str) -> Folder | Server:
    """The place that a URL names, or `InvalidSink`, which does not repeat the URL: it may hold a password."""
    scheme, separator, rest = url.partition("://") if isinstance(url, str) else ("", "", "")
    if scheme == "chdb" and separator:
        return _folder(rest)
    if scheme in ("clickhouse", "clickhouses") and separator:
        return _server(url, secure=scheme == "clickhouses")
    named = f"'{scheme}://'" if separator and re.fullmatch(r"[A-Za-z][\w+.-]*", scheme) else "neither of its forms"
    raise InvalidSink(f"the URL of a ClickHouse sink begins with {named}. Nothing was declared.", hint=_FORMS)


def _folder(rest: str) -> Folder:
    """Like SQLite: three slashes and a relative folder, four and an absolute one."""
    path = rest[1:] if rest.startswith("/") else ""
    if not path.strip("/"):
        raise InvalidSink("the chdb URL of a ClickHouse sink names no folder. Nothing was declared.", hint=_FORMS)
    if "?" in path:
        raise InvalidSink(
            f"the chdb URL of a ClickHouse sink holds a '?' in its folder, {path}. Nothing was declared.",
            hint="the engine takes what follows for options of its own: choose a folder without one.",
        )
    return Folder(Path(path).absolute())


def _server(url: str, *, secure: bool) -> Server:
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _unreadable() from None  # the original error may repeat a password
    database = unquote(parts.path.strip("/")) or "default"
    if not host or parts.fragment or "/" in database or parts.netloc.count("@") > 1:
        raise _unreadable()  # most likely a sign of the password that is not written with %
    asked = options.pop("secure", None)
    if options or (asked is not None and asked.lower() not in (*_YES, *_NO)):
        # Their names are not shown either: after a password with a '?' in it they are the rest of the password.
        raise InvalidSink(
            "the URL of a ClickHouse sink has options that are not known. Nothing was declared.",
            hint="the only one is secure=1 or secure=0. A ? in a password is written %3F.",
        )
    secure = secure or (asked or "").lower() in _YES
    return Server(
        host=host,
        port=port or _DEFAULT_PORTS[secure],
        database=database,
        user=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        secure=secure,
    )


def _unreadable() -> InvalidSink:
    return InvalidSink("the URL of a ClickHouse sink cannot be read. Nothing was declared.", hint=_FORMS)
