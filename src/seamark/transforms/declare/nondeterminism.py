"""Warning of functions whose result is not decided by their inputs: computing rows again would not prove them."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

from seamark.transforms.declare.spec import StepSpec

log = logging.getLogger("seamark.run")

_CHANCE = re.compile(
    r"\b(randn?|uuid|shuffle|current_timestamp|current_date|localtimestamp|now|monotonically_increasing_id"
    r"|spark_partition_id|input_file_name)\(",
    re.IGNORECASE,
)
_looked_at: set[tuple[str, str]] = set()


def warn_of_chance(spec: StepSpec) -> Callable[..., Any]:
    """The step's function; when it is first called, its plan is looked at for chance, clocks and the like."""
    mark = (spec.name, spec.definition.digest)
    if mark in _looked_at:
        return spec.function

    def function(*frames: Any) -> Any:
        answer = spec.function(*frames)
        _looked_at.add(mark)
        given = answer if isinstance(answer, list | tuple) else [answer]
        for expression in expressions_of_chance(given):
            log.warning(
                "step '%s' uses %s: its rows depend on more than its inputs, so that computing them again may give "
                "others, and `verify --replay` will say so.",
                spec.name,
                expression,
            )
        return answer

    return function


def expressions_of_chance(frames: Sequence[Any]) -> list[str]:
    """The expressions in the frames' plans that give another value each time."""
    found: dict[str, None] = {}
    for frame in frames:
        if hasattr(frame, "explain") and hasattr(frame, "mapInArrow"):
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                frame.explain(extended=True)
            analysed = text.getvalue().partition("== Optimized Logical Plan ==")[0]
            found.update({f"{match.group(1)}()": None for match in _CHANCE.finditer(analysed)})
    return list(found)
