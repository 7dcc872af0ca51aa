"""What a step's rows are made by: its function in normal form, its inputs, outputs and keys; written into the chain."""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from seamark.errors import InvalidStep
from seamark.ledger import SetTransform, SqlQueryStep, TransformInput, TransformSql
from seamark.steps.definition.first_form import first_digest
from seamark.steps.definition.form import form_of
from seamark.steps.definition.lookup import plain_function
from seamark.steps.definition.syntax import NoSource, Sources
from seamark.tables.kinds import kind_of
from seamark.texts import without_secrets

log = logging.getLogger("seamark.run")

ENGINE = "seamark"
# How digests of functions are made. A definition recorded in an older form is compared in that form, so that a finer
# one does not look like a changed function; the next commit records it in this one.
FORM = 2


@dataclass(frozen=True)
class Definition:
    """A step as its outputs' chains hold it. Two may agree though their sources differ: a comment changes nothing."""

    step: str
    kind: str  # one of `tables/kinds.py`
    function: str
    source: str
    digest: str
    inputs: tuple[tuple[str, bool, tuple[tuple[str, str], ...]], ...]  # table, required, join keys
    outputs: tuple[str, ...]
    keys: tuple[str, ...]
    version: str | None = None
    form: int = FORM  # how the digest was made
    first_digest: str | None = field(default=None, compare=False)  # the digest in the first form, if that is known

    def agrees_with(self, other: Definition) -> bool:
        """Whether rows made by one definition are as good as those made by the other."""
        form = min(self.form, other.form)
        return self._counts(form) == other._counts(form)

    def _counts(self, form: int) -> tuple[object, ...]:
        """What decides that, with the digest in a given form; one that is not known equals none."""
        by: tuple[object, ...] = ("version", self.version)
        if self.version is None:
            known = self.digest if self.form == form else self.first_digest if form == 1 else None
            by = ("digest", known if known is not None else object())
        return (self.step, self.kind == "pandas", by, self.inputs, self.outputs, self.keys)

    @property
    def shown_source(self) -> str:
        """The source as chains hold it and people see it. What is run again from there stays as it is."""
        return self.source if kind_of(self.kind).runs_from_chain else without_secrets(self.source)

    def is_recorded_as(self, older: Definition) -> bool:
        """Whether a chain that holds the older definition need not hold this one too."""
        return self.agrees_with(older) and (self.version is not None or self.digest == older.digest)

    def adds_outputs_to(self, older: Definition) -> bool:
        """Whether there are outputs that an older definition did not have, and all that it had."""
        return set(self.outputs) > set(older.outputs)

    def set_transform(self, dataset_ids: Mapping[str, str]) -> SetTransform:
        """The event that says so in a chain, with the inputs' ids in declared order."""
        tables = dict.fromkeys(table for table, _, _ in self.inputs)
        facts = {
            "kind": self.kind,
            "function": self.function,
            "digest": self.digest,
            "form": self.form,
            "version": self.version,
            "inputs": [{"table": t, "required": r, "join_keys": dict(j)} for t, r, j in self.inputs],
            "outputs": list(self.outputs),
            "keys": list(self.keys),
        }
        queries = (
            SqlQueryStep(self.step, json.dumps(facts, ensure_ascii=False)),
            SqlQueryStep(None, self.shown_source),
        )
        return SetTransform(
            tuple(TransformInput(dataset_ids[table], table) for table in tables), TransformSql(ENGINE, queries=queries)
        )


def from_chain(event: SetTransform) -> Definition | None:
    """The definition that a chain holds, or None if somebody else wrote it."""
    transform = event.transform
    if not isinstance(transform, TransformSql) or transform.engine != ENGINE or len(transform.queries or ()) != 2:
        return None
    head, body = transform.queries or ()
    facts = json.loads(head.query)
    return Definition(
        step=head.alias or "",
        kind=facts["kind"],
        function=facts["function"],
        source=body.query,
        digest=facts["digest"],
        inputs=tuple((i["table"], i["required"], tuple(i["join_keys"].items())) for i in facts["inputs"]),
        outputs=tuple(facts["outputs"]),
        keys=tuple(facts["keys"]),
        version=facts["version"],
        form=facts.get("form", 1),
    )


def is_same(event: SetTransform, definition: Definition, dataset_ids: Mapping[str, str]) -> bool:
    """Whether a chain holds this definition, or one that is as good in every way, on the same inputs."""
    older = from_chain(event)
    found = {entry.alias: entry.dataset_ref for entry in event.inputs}
    return older is not None and definition.is_recorded_as(older) and found == dict(dataset_ids)


def difference(older: Definition, newer: Definition) -> str:
    """What changed between two definitions, for a person to read."""
    lines = []
    for name in ("step", "kind", "version", "keys", "outputs"):
        one, other = getattr(older, name), getattr(newer, name)
        if one != other:
            lines.append(f"{name}: {_shown(one)} -> {_shown(other)}")
    if older.inputs != newer.inputs:
        lines.append(f"inputs: {_inputs_shown(older)} -> {_inputs_shown(newer)}")
    if older.shown_source != newer.shown_source:
        changed = difflib.unified_diff(
            older.shown_source.splitlines(), newer.shown_source.splitlines(), "as it was", "as it is", lineterm=""
        )
        lines += list(changed)
    elif older.digest != newer.digest:
        lines.append("a function, class or constant that it uses has changed")
    return "\n".join(lines)


def _shown(value: object) -> str:
    return ", ".join(value) or "none" if isinstance(value, tuple) else str(value)


def _inputs_shown(definition: Definition) -> str:
    return ", ".join(
        table + (" (required)" if required else "") + (f" by {dict(join)}" if join else "")
        for table, required, join in definition.inputs
    )


# --- SQL in normal form -----------------------------------------------------------------------------------------------

# What is between quotes stays as it is; between other words any run of space and comments is one space. A hint, which
# looks like a comment, counts.
_SQL = re.compile(
    r"""(?P<quoted> \b[rR]'[^']*' | \b[rR]"[^"]*" | '(?:\\.|[^'\\])*' | "(?:\\.|[^"\\])*" | `[^`]*` )
      | (?P<space> (?: \s+ | --[^\n]* | /\*(?!\+).*?\*/ )+ )""",
    re.VERBOSE | re.DOTALL,
)


def normal_sql(text: str) -> str:
    """A query without comments and layout: two that are equal so give the same rows."""
    return _SQL.sub(lambda found: found.group("quoted") or " ", text).strip()


# --- functions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FunctionText:
    """A function for the chain: its source, its digest, and the digest that earlier versions would have recorded."""

    source: str
    digest: str
    first_digest: str | None = None


def require_source(step: str, function: Callable[..., Any], version: str | None) -> None:
    """Refuse a function whose source is not available, unless a `version` says when it changes."""
    if version is None:
        _source(step, function)


def function_text(step: str, function: Callable[..., Any], version: str | None) -> FunctionText:
    """A function's source, and a digest of all that its result depends on: see `form.py`.

    With a `version` that alone decides, and a function without source is no trouble. What cannot be followed is said
    once.
    """
    try:
        source = _source(step, function)
    except InvalidStep:
        if version is not None:
            return FunctionText(f"# {_named(function)} (no source)", "")
        raise
    form = form_of(function)
    if version is None:
        _say_unfollowed(step, form.unfollowed)
    return FunctionText(source, hashlib.sha256(form.text.encode()).hexdigest(), first_digest(function))


def source_and_digest(step: str, function: Callable[..., Any], version: str | None) -> tuple[str, str]:
    """A function's source and its digest."""
    text = function_text(step, function, version)
    return text.source, text.digest


def _source(step: str, function: Callable[..., Any]) -> str:
    plain = plain_function(function)
    try:
        if plain is None:
            raise NoSource("it is not a function of Python's")
        return Sources().text(plain.__code__)
    except NoSource as reason:
        raise InvalidStep(
            f"step '{step}': the source of its function {_named(function)} is not available ({reason}), so that a "
            "change of it could not be noticed. It was not added.",
            hint='give version="1", and another one whenever the function changes.',
        ) from None


def _named(function: Callable[..., Any]) -> str:
    return str(getattr(plain_function(function) or function, "__qualname__", function))


_said: set[tuple[str, str]] = set()


def _say_unfollowed(step: str, unfollowed: Mapping[str, str]) -> None:
    """Warn of what a change could go unnoticed in, once in a process."""
    fresh = {name: what for name, what in unfollowed.items() if (step, name) not in _said}
    if not fresh:
        return
    _said.update((step, name) for name in fresh)
    listed = ", ".join(f"{name} ({what})" for name, what in fresh.items())
    log.warning(
        "step '%s' uses what cannot be followed, so that a change there is not noticed as a changed definition: %s. "
        'Give version="1", and another one whenever one of these changes.',
        step,
        listed,
    )
