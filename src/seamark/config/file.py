"""`seamark.toml`: its values, and the line of each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.config.keys import BY_NAME, KEYS, SECTIONS, UNREAD
from seamark.config.values import parsed, placed, wrong
from seamark.errors import ConfigError, did_you_mean

FILE_NAME = "seamark.toml"
Found = dict[str, tuple[Any, str]]  # key -> value and where it came from

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_ASSIGNMENT = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")


def from_file(file: Path) -> tuple[Found, dict[str, str]]:
    """What the file sets, and the lines of keys that nothing reads; `ConfigError` names a line that cannot be used."""
    text = _text_of(file)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _line_of_mistake(error, text)
        raise ConfigError(
            f"{file}, line {line}: this is not TOML: {error}.", hint="correct the line; strings are in double quotes."
        ) from None
    found: Found = {}
    unread: dict[str, str] = {}
    for name, value in _flat(document, file, text).items():
        line = _line_of(name, text)
        if name in UNREAD:
            unread[name] = f"{FILE_NAME}, line {line}"
            continue
        where = f"{file}, line {line}"
        found[name] = (
            placed(BY_NAME[name], parsed(BY_NAME[name], value, where), file.parent),
            f"{FILE_NAME}, line {line}",
        )
    return found, unread


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file} is not UTF-8 text: byte {error.start} cannot be read.", hint="save the file as UTF-8."
        ) from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", hint="check the file's permissions.") from None


def _flat(document: Mapping[str, Any], file: Path, text: str) -> dict[str, Any]:
    """Keys of the file by their full names; one that Seamark does not know is refused."""
    flat: dict[str, Any] = {}
    for name, value in document.items():
        if name in SECTIONS:
            if not isinstance(value, dict):
                raise wrong(
                    name,
                    "a table of settings",
                    value,
                    f"{file}, line {_line_of(name, text)}",
                    f"write [{name}] on a line of its own.",
                )
            flat |= {f"{name}.{inner}": given for inner, given in value.items()}
        else:
            flat[name] = value
    for name in flat:
        if name not in BY_NAME and name not in UNREAD:
            section, _, _ = name.rpartition(".")
            near = [key.name for key in KEYS if key.section == section] + (
                [] if section else [f"[{each}]" for each in SECTIONS]
            )
            raise ConfigError(
                f"{file}, line {_line_of(name, text)}: unknown key '{name}'. Nothing was run.",
                hint=did_you_mean(name, near, "Known keys"),
            )
    return flat


def _line_of(name: str, text: str) -> int:
    """The line of the key, which tomllib does not give, or that of its table."""
    section, best = "", 1
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = _plain(header[1]) + "."
            found = section[:-1]
        elif assignment := _ASSIGNMENT.match(line):
            found = section + _plain(assignment[1])
        else:
            continue
        if found == name:
            return number
        if name.startswith(found + ".") or (found.startswith(name + ".") and best == 1):
            best = number
    return best


def _plain(name: str) -> str:
    return re.sub(r"[\s\"']", "", name)


def _line_of_mistake(error: tomllib.TOMLDecodeError, text: str) -> int:
    # Python 3.14 gives the line as a number; before, it is only in the text, or the text says "at end of document"
    if (number := getattr(error, "lineno", None)) is not None:
        return int(number)
    line = re.search(r"at line (\d+)", str(error))
    return int(line[1]) if line else max(1, len(text.splitlines()))
