"""`seamark.toml` and the environment: what may be set, where each value came from, and nothing secret shown."""

from __future__ import annotations

from seamark.config.keys import KEYS, Kind
from seamark.config.load import find_project, load_config
from seamark.config.masking import masked
from seamark.config.pipeline import pipeline_of
from seamark.config.settings import (
    Config,
    LogSettings,
    MetricsSettings,
    RowSettings,
    SchedulerSettings,
    Setting,
    SparkSettings,
    ViewSettings,
)
from seamark.config.values import duration

__all__ = [
    "KEYS",
    "Config",
    "Kind",
    "LogSettings",
    "MetricsSettings",
    "RowSettings",
    "SchedulerSettings",
    "Setting",
    "SparkSettings",
    "ViewSettings",
    "duration",
    "find_project",
    "load_config",
    "masked",
    "pipeline_of",
]
