"""What a step's function returned, as one frame per output. No Spark, so that executors use it too."""

from __future__ import annotations

from typing import Any


def frames_returned(answer: Any, outputs: int) -> list[Any] | None:
    """The frames that a function returned, one per output; None if there are more, fewer, or one of them is None.

    A list of dicts is the rows of one frame, and so is an empty list where there is one output.
    """
    several = isinstance(answer, list | tuple) and not _is_rows(answer, outputs)
    given = list(answer) if several else [answer]
    return None if len(given) != outputs or any(frame is None for frame in given) else given


def _is_rows(answer: list[Any] | tuple[Any, ...], outputs: int) -> bool:
    return outputs == 1 if not answer else all(isinstance(row, dict) for row in answer)


def describe_returned(answer: Any) -> str:
    """How many frames a function returned, for an error."""
    count = len(answer) if isinstance(answer, list | tuple) and not _is_rows(answer, 1) else 1
    return "nothing" if answer is None else f"{count} frame{'s' * (count != 1)}"
