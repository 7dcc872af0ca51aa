"""Which file and variable hold a project's pipeline."""

from __future__ import annotations

from pathlib import Path

from seamark.config.settings import Config
from seamark.errors import ConfigError


def pipeline_of(config: Config) -> tuple[Path, str]:
    """The file and the variable that the setting `pipeline` names; the file must be there."""
    name, colon, variable = config.pipeline.rpartition(":")
    if not colon or not name or not variable.isidentifier():
        raise ConfigError(
            f"'pipeline' is {config.pipeline!r} ({config.origin('pipeline')}), which is not a file and a variable.",
            hint='write it like pipeline = "pipeline.py:ds".',
        )
    file = config.folder / name
    if not file.is_file():
        raise ConfigError(
            f"the pipeline file {file} is not there ('pipeline' is {config.pipeline!r}, {config.origin('pipeline')}).",
            hint="correct 'pipeline' in seamark.toml, or make the file.",
        )
    return file, variable
