"""`KEYS`, the one list of settings.

Reading the file, the environment variables, the listing of `seamark doctor` and the test of `docs/configuration.md` all use
it. Defaults are in the dataclasses of `settings.py`, which a program can also use directly.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a value must be; the text is what an error calls it."""

    TEXT = "text"
    COUNT = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    DURATION = 'a duration such as "30s", "5m" or "2h", or a number of seconds'
    PATH = "a folder, as text"
    PATHS = "a list of files, as text"
    URL = "a database URL, as text"
    TEXTS_BY_NAME = "a table of names and texts"


PREFIX = "SEAMARK_"  # of the environment variables that are settings


def variable_of(name: str) -> str:
    """The environment variable of the key with this name."""
    return PREFIX + name.upper().replace(".", "_")


@dataclass(frozen=True)
class Key:
    """One setting: its name in the file, what it must be and what it is for."""

    name: str
    kind: Kind
    doc: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The table of the file that it is in, or nothing for the top."""
        return self.name.rpartition(".")[0]

    @property
    def field(self) -> str:
        """Its name inside its section."""
        return self.name.rpartition(".")[2]

    @property
    def variable(self) -> str:
        """The environment variable that overrides the file."""
        return variable_of(self.name)


_SPARK_LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
_LOG_LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")

KEYS: tuple[Key, ...] = (
    Key("pipeline", Kind.TEXT, "File and variable of the `DataStore` that the command line works on."),
    Key("control", Kind.URL, "Control database: `sqlite:///file` or `postgresql+psycopg://user:password@host/database`."),
    Key("control_schema", Kind.TEXT, "Schema of a PostgreSQL database for the control tables, created if it does not exist: one schema per project. Without it, the first schema that the connection finds."),
    Key("warehouse", Kind.PATH, "Folder of the tables' blocks, slices and rows."),
    Key("block_rows", Kind.COUNT, "Most records in one slice; a larger change is written as several blocks in one commit. A correction takes two.", least=2),
    Key("block_bytes", Kind.COUNT, "Most bytes of values in one slice, before compression; the records of one key stay together.", least=1),
    Key("spark.master", Kind.TEXT, "Where Spark runs: `local[*]`, `spark://host:port`, another master URL, or a Spark Connect server `sc://host:port` (needs the extra `connect`)."),
    Key("spark.driver_memory", Kind.TEXT, "Most memory for Spark's JVM in this process. Counts when the session starts."),
    Key("spark.shuffle_partitions", Kind.COUNT, "Tasks after a shuffle. Without it: as many as cores and at least 2 in local mode, Spark's own default elsewhere.", least=1),
    Key("spark.jars", Kind.PATHS, "Jars to add. When a Delta jar is among them, none is fetched."),
    Key("spark.ivy", Kind.PATH, "Folder in whose `jars` the Delta jars are kept. Without it: `share/seamark` of the virtual environment, else `~/.cache/seamark`."),
    Key("spark.log_level", Kind.TEXT, "How much Spark writes to its own log, a temporary file; nothing of it reaches the terminal.", choices=_SPARK_LEVELS),
    Key("spark.conf", Kind.TEXTS_BY_NAME, "Further Spark settings by name. They win over Seamark's own."),
    Key("rows.fold_share", Kind.NUMBER, "Fold when the tail has more records than this share of the base.", least=0),
    Key("rows.fold_slices", Kind.COUNT, "Fold when the tail has more slices than this.", least=1),
    Key("rows.keep_bases", Kind.COUNT, "Versions of the base that `gc` keeps for reading older states.", least=1),
    Key("rows.cache_rows", Kind.COUNT, "Rows of bases that a long-lived process may keep in Spark's cache; 0 keeps none.", least=0),
    Key("scheduler.lease", Kind.DURATION, "How long a step's run holds its lease without renewing it.", least=0.001),
    Key("scheduler.wait", Kind.DURATION, "How long a second run of a step waits before it ends with \"already running\".", least=0),
    Key("views.files", Kind.PATHS, "Files of views and handlers, or folders of files `*.sql`, that the command line loads after the pipeline."),
    Key("views.table", Kind.TEXT, "Table of statements, with the columns `statement_no` and `statement_text`, that it loads after the files."),
    Key("views.dictionary_period", Kind.DURATION, "How long changes of a view's dictionaries wait before a run takes them.", least=0),
    Key("views.max_change_rows", Kind.COUNT, "How many records of a dictionary one pass takes, cut between blocks: at least one block.", least=1),
    Key("views.scan_rate", Kind.NUMBER, "Most units per second of scans and dictionary passes: left-most rows, or groups. Without it: no limit.", least=0.001),
    Key("metrics.port", Kind.COUNT, "Port of `/metrics` for programs that serve it, see [monitoring.md](monitoring.md); `seamark run` serves none. 0, or none, takes a free one.", least=0, most=65535),
    Key("metrics.host", Kind.TEXT, "Address that `/metrics` answers on."),
    Key("log.level", Kind.TEXT, "What Seamark logs.", choices=_LOG_LEVELS),
    Key("log.json", Kind.FLAG, "Log one JSON document per line."),
)  # fmt: skip

# Names that are kept for the scheduler. Nothing reads them in this version; a file that sets one still loads, and
# `seamark doctor` says so.
UNREAD: tuple[str, ...] = (
    "scheduler.handlers_table",
    "scheduler.runners_table",
    "scheduler.runner_jobs_table",
    "scheduler.commands_table",
    "scheduler.scans_table",
    "scheduler.scan_period",
    "scheduler.report_period",
    "scheduler.runner_timeout",
)

BY_NAME = {key.name: key for key in KEYS}
SECTIONS = tuple(dict.fromkeys(key.section for key in KEYS if key.section))
