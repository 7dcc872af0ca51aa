"""Warning of functions whose result depends on more than their inputs: replay could not reproduce their rows."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Sequence
from typing import Any

from seamark.tables.frames import is_spark

log = logging.getLogger("seamark.run")

_NONDETERMINISTIC = re.compile(
    r"\b(randn?|uuid|shuffle|current_timestamp|current_date|localtimestamp|now|monotonically_increasing_id"
    r"|spark_partition_id|input_file_name)\(",
    re.IGNORECASE,
)
_checked: set[tuple[str, str]] = set()


def warn_if_nondeterministic(step: str, digest: str, answer: Any) -> None:
    """Warn, once for a definition, if the plan of what a step's function returned uses random values, clocks, ….

    `digest` is that of the definition.
    """
    if (step, digest) in _checked:
        return
    _checked.add((step, digest))
    frames_returned = answer if isinstance(answer, list | tuple) else [answer]
    for expression in nondeterministic_expressions(frames_returned):
        log.warning(
            "step '%s' uses %s: its rows depend on more than its inputs, so that computing them again may give "
            "others, and `verify --replay` will say so.",
            step,
            expression,
        )


def nondeterministic_expressions(frames: Sequence[Any]) -> list[str]:
    """The expressions in the frames' plans that return another value each time."""
    found: dict[str, None] = {}
    for frame in frames:
        if is_spark(frame):
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                frame.explain(extended=True)
            analysed = text.getvalue().partition("== Optimized Logical Plan ==")[0]
            found.update({f"{match.group(1)}()": None for match in _NONDETERMINISTIC.finditer(analysed)})
    return list(found)
