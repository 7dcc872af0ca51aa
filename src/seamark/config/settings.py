"""The settings of a project as values: what a program gets, and the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seamark.config.keys import BY_NAME, KEYS, Key
from seamark.config.masking import shown
from seamark.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class SparkSettings:
    """How the Spark session is built. The defaults are a quiet local session on all cores."""

    master: str = field(default="local[*]", repr=False)  # a Spark Connect URL may carry a token
    driver_memory: str = "4g"
    shuffle_partitions: int | None = None
    jars: tuple[str, ...] = ()
    ivy: str | None = None
    log_level: str = "ERROR"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold keys of object stores

    @property
    def is_remote(self) -> bool:
        """Whether the session is a client of a Spark Connect server."""
        return self.master.startswith("sc://")

    @property
    def is_local(self) -> bool:
        """Whether Spark runs inside this process's own JVM."""
        return self.master == "local" or self.master.startswith("local[")


@dataclass(frozen=True)
class RowSettings:
    """When the base of a keyed table is folded, and what is kept of it."""

    fold_share: float = 0.2
    fold_slices: int = 64
    keep_bases: int = 2
    cache_rows: int = 0


@dataclass(frozen=True)
class SchedulerSettings:
    """How long a run holds its lease without renewing it, and how long a second run waits for it, in seconds."""

    lease: float = 30.0
    wait: float = 60.0


@dataclass(frozen=True)
class ViewSettings:
    """Where a project's views are written, how long changes of dictionaries wait, and how fast passes and scans go."""

    files: tuple[str, ...] = ()
    table: str | None = None
    dictionary_period: float = 8 * 3600.0
    max_change_rows: int = 100_000
    scan_rate: float | None = None


@dataclass(frozen=True)
class MetricsSettings:
    """Where `/metrics` answers; without a port it does not."""

    port: int | None = None
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class LogSettings:
    """What Seamark itself logs, and how."""

    level: str = "INFO"
    json: bool = False


@dataclass(frozen=True)
class Setting:
    """One line of `seamark doctor`'s listing: a key, its value as it may be shown, and where it came from."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, repr=False)
class Config:
    """Everything a project sets. Paths are absolute; durations are seconds."""

    folder: Path
    file: Path | None = None
    pipeline: str = "pipeline.py:ds"
    control: str = "sqlite:///seamark.db"
    control_schema: str | None = None
    warehouse: str = "warehouse"
    block_rows: int = 500_000
    block_bytes: int = 256 << 20
    spark: SparkSettings = field(default_factory=SparkSettings)
    rows: RowSettings = field(default_factory=RowSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    views: ViewSettings = field(default_factory=ViewSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    log: LogSettings = field(default_factory=LogSettings)
    origins: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)  # set, but nothing reads them

    def origin(self, key: str) -> str:
        """Where the value came from: an argument, an environment variable, a line of the file, or the default."""
        if key not in BY_NAME:
            raise ConfigError(f"there is no setting '{key}'.", hint=did_you_mean(key, list(BY_NAME), "Settings"))
        return self.origins.get(key, "default")

    def listing(self) -> list[Setting]:
        """Every setting in the order of the documentation, with passwords masked."""
        return [Setting(key.name, shown(key, self.value(key)), self.origin(key.name)) for key in KEYS]

    def value(self, key: Key) -> Any:
        """What `key` is set to."""
        return getattr(getattr(self, key.section) if key.section else self, key.field)

    def __repr__(self) -> str:
        listed = ", ".join(f"{line.key}={line.value}" for line in self.listing() if line.origin != "default")
        return f"Config({self.folder}{', ' if listed else ''}{listed})"
