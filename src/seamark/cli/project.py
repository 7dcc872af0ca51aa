"""A project: its folder, its settings, and the store that its pipeline declares."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from seamark.cli.failures import PipelineRaised
from seamark.config import KEYS, Config, Kind, pipeline_of
from seamark.errors import ConfigError, SeamarkError, did_you_mean

if TYPE_CHECKING:
    from seamark.store import DataStore


def open_store(config: Config, *, loads_views: bool = True) -> DataStore:
    """Go to the project's folder, run its pipeline file, and give the store that it declares, with its views."""
    store, trouble = open_store_despite_trouble(config, loads_views=loads_views)
    if trouble is not None:
        raise trouble
    return store


def open_store_despite_trouble(config: Config, *, loads_views: bool = True) -> tuple[DataStore, Exception | None]:
    """The same, with what the pipeline raised after it had made the store: a damaged table may be all that is wrong."""
    _keep_paths_of_environment(config)
    os.chdir(config.folder)
    sys.path.insert(0, str(config.folder))
    file, variable = pipeline_of(config)
    module, trouble = _module(file), None
    try:
        _execute(module, file)
    except (SeamarkError, PipelineRaised) as error:
        if not hasattr(module, variable):
            raise
        trouble = error
    store = _store_in(module, file, variable, config)
    try:
        if loads_views:
            store.load_project_views()
    except SeamarkError as error:
        trouble = trouble or error
    return store, trouble


def _keep_paths_of_environment(config: Config) -> None:
    """Relative paths of the environment are relative to where the command was called: the pipeline runs elsewhere."""
    for key in KEYS:
        if key.kind in (Kind.PATH, Kind.PATHS, Kind.URL) and key.variable in config.origin(key.name):
            value = getattr(getattr(config, key.section) if key.section else config, key.field)
            os.environ[key.variable] = ",".join(value) if key.kind is Kind.PATHS else value


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None:
        raise ConfigError(f"the pipeline file {file} is not a Python file.", hint="its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # so that other files of the project can import it
    return module


def _execute(module: ModuleType, file: Path) -> None:
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    try:
        module.__spec__.loader.exec_module(module)
    except (SeamarkError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit: a pipeline that ends the program has not declared anything
        raise PipelineRaised(_place(error, file), _own_trace(error, file)) from error


def _own_trace(error: BaseException, file: Path) -> str:
    """The stack trace from the user's own file on: what is above it is ours and Python's."""
    return "".join(traceback.format_exception(type(error), error, _own_frames(error, file)))


def _own_frames(error: BaseException, file: Path) -> TracebackType | None:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(file):
        frames = frames.tb_next
    return frames


def _place(error: BaseException, file: Path) -> str:
    frames = _own_frames(error, file)
    line = frames.tb_lineno if frames else getattr(error, "lineno", None)
    return f"{file.name}, line {line}" if line else file.name


def _store_in(module: ModuleType, file: Path, variable: str, config: Config) -> DataStore:
    from seamark.store import DataStore

    found = getattr(module, variable, None)
    if isinstance(found, DataStore):
        return found
    stores = [name for name, value in vars(module).items() if isinstance(value, DataStore)]
    what = f"is a {type(found).__name__}, not a DataStore" if hasattr(module, variable) else "does not exist"
    raise ConfigError(
        f"the variable '{variable}' of {file} {what} ('pipeline' is {config.pipeline!r}, {config.origin('pipeline')}).",
        hint=did_you_mean(variable, stores, "Stores in the file"),
    )
