"""From what a person wrote to the value for its dataclass, or an error that names the key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.config.keys import Key, Kind
from seamark.config.masking import masked
from seamark.errors import ConfigError

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_SQLITE_FILE = re.compile(r"(sqlite(?:\+pysqlite)?:///)(?!/|:memory:|file:)([^?]+)(.*)", re.DOTALL)


def duration(text: str) -> float | None:
    """The seconds of a duration such as "30s", "5m" or "2h", or None if the text is not one."""
    parts = _DURATION.fullmatch(text)
    return float(parts[1]) * _UNITS[parts[2]] if parts else None


def from_text(key: Key, text: str, where: str) -> object:
    """An environment variable's text as the file would have given it."""
    try:
        match key.kind:
            case Kind.COUNT:
                return int(text)
            case Kind.NUMBER:
                return float(text)
            case Kind.DURATION:
                return text if _DURATION.fullmatch(text) else float(text)
            case Kind.FLAG:
                return _FLAGS[text.strip().lower()]
            case Kind.PATHS:
                return [part.strip() for part in text.split(",") if part.strip()]
            case Kind.TEXTS_BY_NAME:
                return json.loads(text)
            case Kind.TEXT | Kind.PATH | Kind.URL:
                return text
    except (ValueError, KeyError):
        raise wrong(key.name, key.kind.value, text, where) from None


def parsed(key: Key, value: object, where: str) -> Any:
    """The value as its dataclass wants it, or an error that names the key and what it must be."""
    match key.kind, value:
        case (Kind.FLAG, bool()):
            return value
        case (_, bool()):
            raise wrong(key.name, key.kind.value, value, where)
        case (Kind.COUNT, int()):
            return _checked(key, value, where)
        case (Kind.NUMBER | Kind.DURATION, int() | float() as number) if math.isfinite(number):
            return _checked(key, float(number), where)
        case (Kind.DURATION, str()) if (seconds := duration(value)) is not None:
            return _checked(key, seconds, where)
        case (Kind.TEXT | Kind.PATH | Kind.URL, str()) if value.strip():
            return _checked(key, value, where)
        case (Kind.PATHS, list() | tuple()) if all(isinstance(item, str) for item in value):
            return tuple(value)
        case (Kind.TEXTS_BY_NAME, dict()):
            flat = _dotted(value)
            if all(isinstance(item, str | int | float) for item in flat.values()):
                return {name: _spark_text(item) for name, item in flat.items()}
    raise wrong(key.name, key.kind.value, value, where)


def _dotted(table: Mapping[str, Any]) -> dict[str, Any]:
    """TOML reads `spark.x.y = 1` as tables in tables; Spark wants the dotted name."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        inner = _dotted(value) if isinstance(value, dict) else None
        flat |= {name: value} if inner is None else {f"{name}.{rest}": given for rest, given in inner.items()}
    return flat


def _spark_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked(key: Key, value: Any, where: str) -> Any:
    if key.least is not None and not value >= key.least:
        raise wrong(key.name, f"at least {key.least:g}", value, where)
    if key.most is not None and value > key.most:
        raise wrong(key.name, f"at most {key.most:g}", value, where)
    if key.choices and value not in key.choices:
        raise wrong(key.name, f"one of {', '.join(key.choices)}", value, where)
    return value


def wrong(name: str, wanted: str, value: object, where: str, hint: str | None = None) -> ConfigError:
    """The error for a value that the key cannot take."""
    shown = masked(value) if isinstance(value, str) else f"{value}".lower() if isinstance(value, bool) else f"{value!r}"
    if name in ("spark.conf", "control"):
        shown = "a " + type(value).__name__  # the value may be secret
    return ConfigError(
        f"{where}: '{name}' must be {wanted}; found {shown}. Nothing was run.",
        hint=hint or "docs/configuration.md lists every key with its default.",
    )


def placed(key: Key, value: Any, home: Path) -> Any:
    """Relative paths made absolute, so that a project works from any folder."""
    match key.kind:
        case Kind.PATH:
            return value if "://" in value else str(home / Path(value).expanduser())
        case Kind.PATHS:
            return tuple(path if "://" in path else str(home / Path(path).expanduser()) for path in value)
        case Kind.URL:
            return _placed_url(value, home)
    return value


def _placed_url(url: str, home: Path) -> str:
    parts = _SQLITE_FILE.fullmatch(url)
    return f"{parts[1]}{home / parts[2]}{parts[3]}" if parts else url
