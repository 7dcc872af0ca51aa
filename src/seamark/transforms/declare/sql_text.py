"""A step that is Spark SQL: its inputs are named in braces."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any

from seamark.errors import InvalidStep, did_you_mean
from seamark.tables.read.source import TableSource


def sql_function(text: str, names: Sequence[str], source: TableSource) -> Callable[..., Any]:
    """A function that runs a query, in which inputs are named in braces."""

    def run(*frames: Any) -> Any:
        return source.context.session().sql(text, **dict(zip(names, frames, strict=True)))

    return run


def check_named(step: str, text: str, names: Sequence[str]) -> None:
    """Refuse SQL whose braces name something else than inputs, or none of them."""
    try:
        fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    except ValueError as error:
        raise InvalidStep(
            f"step '{step}': the braces in its SQL cannot be read: {error}. It was not added.",
            hint="inputs are in braces, {" + names[0] + "}; a brace of its own is written twice.",
        ) from None
    named = [re.split(r"[.\[]", field)[0] for field in fields]
    unknown = next((name for name in named if name not in names), None)
    if unknown is not None:
        raise InvalidStep(
            f"step '{step}': its SQL names {{{unknown}}}, which is not one of its inputs. It was not added.",
            hint=did_you_mean(unknown, names, "Inputs"),
        )
    if not named:
        raise InvalidStep(
            f"step '{step}': its SQL names none of its inputs. It was not added.",
            hint="write an input in braces: FROM {" + names[0] + "}.",
        )
