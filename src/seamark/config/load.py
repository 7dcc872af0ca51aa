"""The settings of a project, and where each value came from."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seamark.config.file import FILE_NAME, Found, from_file
from seamark.config.keys import BY_NAME, KEYS, PREFIX, SECTIONS, UNREAD, variable_of
from seamark.config.settings import (
    Config,
    LogSettings,
    MetricsSettings,
    RowSettings,
    SchedulerSettings,
    SparkSettings,
    ViewSettings,
)
from seamark.config.values import from_text, parsed, placed
from seamark.errors import ConfigError, ConfigWarning, did_you_mean, warn

log = logging.getLogger("seamark.config")

_warned: set[str] = set()  # variables that were warned of: settings are loaded more than once

_BY_ARGUMENT = {key.name.replace(".", "_"): key for key in KEYS}


def find_project(start: Path | None = None) -> Path:
    """The folder with `seamark.toml`: `start` (or the current folder), or the nearest of its parents."""
    looked = (start or Path.cwd()).absolute()
    for folder in (looked, *looked.parents):
        if (folder / FILE_NAME).is_file():
            return folder
    raise ConfigError(
        f"there is no {FILE_NAME} in {looked} or in a folder above it.",
        hint="go to the project's folder, or make a new project with `seamark init <folder>`.",
    )


def load_config(
    folder: Path | None = None, env: Mapping[str, str] | None = None, *, required: bool = True, **arguments: object
) -> Config:
    """The settings of the project around `folder`.

    An argument wins over the environment, that over the file, that over the default. Arguments are named like the keys,
    `spark_master` for `spark.master`; one that is None was not given. Relative paths of the file are relative to its
    folder, those of arguments and environment to the current folder. With `required=False` a missing file is an empty
    one.
    """
    file = _project_file(folder, required)
    home = file.parent if file else (folder or Path.cwd()).absolute()
    found, unread = from_file(file) if file else ({}, {})
    env = os.environ if env is None else env
    found |= _from_environment(env)
    unread |= {name: f"environment variable {variable_of(name)}" for name in UNREAD if env.get(variable_of(name))}
    found |= _from_arguments(arguments)
    found = _defaults(home) | found

    sections: dict[str, dict[str, Any]] = {section: {} for section in ("", *SECTIONS)}
    for name, (value, _) in found.items():
        key = BY_NAME[name]
        sections[key.section][key.field] = value
    return Config(
        folder=home,
        file=file,
        spark=SparkSettings(**sections["spark"]),
        rows=RowSettings(**sections["rows"]),
        scheduler=SchedulerSettings(**sections["scheduler"]),
        views=ViewSettings(**sections["views"]),
        metrics=MetricsSettings(**sections["metrics"]),
        log=LogSettings(**sections["log"]),
        origins={name: origin for name, (_, origin) in found.items() if origin != "default"},
        unread=unread,
        **sections[""],
    )


def _project_file(folder: Path | None, required: bool) -> Path | None:
    try:
        return find_project(folder) / FILE_NAME
    except ConfigError:
        if required:
            raise
        return None


def _defaults(home: Path) -> Found:
    plain = Config(folder=home)
    values = ((key, plain.value(key)) for key in KEYS)
    return {key.name: (placed(key, value, home), "default") for key, value in values if value is not None}


def _from_environment(env: Mapping[str, str]) -> Found:
    found: Found = {}
    for key in KEYS:
        text = env.get(key.variable, "")
        if text:
            where = f"environment variable {key.variable}"
            found[key.name] = (placed(key, parsed(key, from_text(key, text, where), where), Path.cwd()), where)
    _warn_of_misspelt(env)
    return found


def _warn_of_misspelt(env: Mapping[str, str]) -> None:
    """Warn of variables with nearly our names. Others may begin with the prefix: Kubernetes sets such for a service."""
    ours = {variable_of(name).removeprefix(PREFIX) for name in (*BY_NAME, *UNREAD)}
    for name in sorted(name for name in env if name.startswith(PREFIX)):
        given = name.removeprefix(PREFIX)
        close = None if given in ours or name in _warned else difflib.get_close_matches(given, ours, n=1, cutoff=0.8)
        if close:
            _warned.add(name)
            meant = PREFIX + close[0]
            text = f"the environment variable {name} is not a setting and was not used: did you mean {meant}?"
            warn(log, text, ConfigWarning, stacklevel=5)


def _from_arguments(arguments: Mapping[str, object]) -> Found:
    found: Found = {}
    for name, value in arguments.items():
        key = _BY_ARGUMENT.get(name)
        if key is None:
            raise ConfigError(f"there is no setting '{name}'.", hint=did_you_mean(name, list(_BY_ARGUMENT), "Settings"))
        if value is not None:
            given = str(value) if isinstance(value, Path) else value
            found[key.name] = (placed(key, parsed(key, given, f"argument {name}"), Path.cwd()), "argument")
    return found
