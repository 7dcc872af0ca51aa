"""Logging of the command line: on stderr, for people or as JSON, and nothing secret in it."""

from __future__ import annotations

import json as json_text
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import SeamarkWarning
from seamark.facts.plain import iso, plain
from seamark.texts import without_secrets

if TYPE_CHECKING:
    from seamark.config import Config


class TextLines(logging.Formatter):
    """One line per record, for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line = f"{moment:%H:%M:%S} {record.levelname} {record.name}: {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return without_secrets(line)


class JsonLines(logging.Formatter):
    """One JSON document a line: time, level, logger, message, and the fields that the record carries in `seamark`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON."""
        document = {
            "time": iso(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "seamark", {}),
        }
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        return json_text.dumps(_clean(plain(document)), ensure_ascii=False)


def _clean(value: object) -> object:
    """A document without secrets, however deep they are: the error of a failed key may quote a line that has one."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {name: _clean(item) for name, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value


def set_up_logging(config: Config, *, json: bool, verbose: bool) -> None:
    """Log to stderr as the project sets it; people see only warnings unless they or the project ask for more."""
    as_json = json or config.log.json
    asked = config.origin("log.level") != "default"
    logger = logging.getLogger("seamark")
    logger.setLevel("INFO" if verbose else config.log.level if asked or as_json else "WARNING")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    logger.handlers = [handler]
    logger.propagate = False
    warnings.filterwarnings("ignore", category=SeamarkWarning)  # they are in the log
    logging.getLogger().addFilter(_is_not_from_py4j)  # once, however often it is called


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs a stack trace when Ctrl-C breaks a call to Spark's JVM; the error reports what became of the call."""
    return "py4j" not in Path(record.pathname).parts


@contextmanager
def without_stopped_steps() -> Iterator[None]:
    """While this lasts, people do not see the log lines on steps that could not run: the command reports them."""
    handlers = [each for each in logging.getLogger("seamark").handlers if not isinstance(each.formatter, JsonLines)]
    for handler in handlers:
        handler.addFilter(_is_not_a_stopped_step)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_is_not_a_stopped_step)


def _is_not_a_stopped_step(record: logging.LogRecord) -> bool:
    return "stopped_by" not in getattr(record, "seamark", {})
