"""Settings as they may be shown: whatever could be a password is masked."""

from __future__ import annotations

import re
from typing import Any

from seamark.config.keys import Key, Kind
from seamark.texts import without_secrets

_NAMED_SECRET = re.compile(
    r"(?i)((?:^|[?&;\s])[\w.-]*(?:password|passwd|pwd|token|secret)[\w.-]*\s*=\s*)('[^']*'|[^&;\s]*)"
)
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:/{1,3}")


def masked(url: str) -> str:
    """The URL with `***` in place of its password. What cannot be told apart from a password is masked too."""
    url = without_secrets(_NAMED_SECRET.sub(r"\1***", url))
    scheme = match[0] if (match := _SCHEME.match(url)) else ""
    rest = url[len(scheme) :]
    if scheme in ("sqlite:///", "sqlite+pysqlite:///"):
        return url  # a file's path
    if "@" in rest:
        # the last @, and the first colon: a password may itself hold any of @ : / ?
        credentials, _, host = rest.rpartition("@")
        user, colon, _ = credentials.partition(":")
        if not colon:
            return url if scheme.endswith("//") else f"{scheme}***@{host}"
        return f"{scheme}{user}:***@{host}"
    host, colon, after = rest.partition(":")
    if colon and scheme and not re.match(r"\d*(?:$|[/?;,])", after):
        return f"{scheme}{host}:***"  # no port: a password whose @host is missing
    return url


def shown(key: Key, value: Any) -> str:
    """The value as a listing may show it."""
    match key.kind:
        case Kind.TEXTS_BY_NAME:
            return ", ".join(
                f"{name}=***" if _is_secret(name) else f"{name}={masked(text)}" for name, text in value.items()
            )
        case Kind.PATHS:
            return ", ".join(value)
        case Kind.DURATION:
            return f"{value:g}s"
        case Kind.FLAG:
            return str(value).lower()
    return "" if value is None else masked(str(value))


def _is_secret(name: str) -> bool:
    return re.search(r"(?i)password|passwd|pwd|token|secret|credential|\.key$", name) is not None
