"""The shape of a step: what each input has to do with the keys, decided once, when the step is declared. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from seamark.errors import InvalidStep, UnknownColumn, did_you_mean
from seamark.tables.read.source import TableSource
from seamark.tables.schema.types import spark_name


@dataclass(frozen=True)
class Input:
    """One argument of a step's function."""

    source: TableSource
    required: bool = False
    join_keys: tuple[tuple[str, str], ...] = ()  # (column of the primary, column of this table)

    @property
    def table(self) -> str:
        """The table's name."""
        return self.source.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns."""
        return self.source.schema.names

    @property
    def is_reference(self) -> bool:
        """Whether rows are looked up by the primary's columns."""
        return bool(self.join_keys)

    @property
    def is_looked_up_by_key(self) -> bool:
        """Whether a value that is looked up has one row at the most."""
        key = self.source.schema.key
        return bool(key) and set(key) <= {theirs for _, theirs in self.join_keys}

    def part_of(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Those of some key columns that this table has."""
        return tuple(name for name in keys if name in self.columns)


@dataclass(frozen=True)
class Shape:
    """Inputs, outputs and transform keys of a step, and what follows from them.

    A step is recomputed in groups: `group_of` says, for an input, by which columns a change there is taken further.
    Usually these are the transform keys. Where inputs have only part of them, an outer join may tie rows together that
    share that part, so the group is what overlapping inputs have in common.
    """

    step: str
    inputs: tuple[Input, ...]
    outputs: tuple[TableSource, ...]
    keys: tuple[str, ...]

    @cached_property
    def primary(self) -> Input:
        """The first input that is not looked up: references are joined to its columns."""
        return next(i for i in self.inputs if not i.is_reference)

    @cached_property
    def plain(self) -> tuple[Input, ...]:
        """The inputs that are not looked up."""
        return tuple(i for i in self.inputs if not i.is_reference)

    @cached_property
    def references(self) -> tuple[Input, ...]:
        """The inputs that are looked up."""
        return tuple(i for i in self.inputs if i.is_reference)

    @cached_property
    def sources(self) -> dict[str, TableSource]:
        """The tables that are read, each once, in declared order."""
        return {i.table: i.source for i in self.inputs}

    @cached_property
    def looked_up(self) -> tuple[str, ...]:
        """The transform keys that only references have: a sum of posts by `profiles.region`."""
        return tuple(name for name in self.keys if not any(name in i.columns for i in self.plain))

    @cached_property
    def group(self) -> tuple[str, ...]:
        """The columns by which all keys are cut into ranges of groups; empty if there is one group only."""
        if self.looked_up:
            return self.keys
        return next((group for i in self.plain if (group := self.group_of(i))), ())

    def group_of(self, changed: Input) -> tuple[str, ...]:
        """The key columns by which a change in an input is taken further; empty if it concerns every key."""
        if self.looked_up:
            return self.keys if changed is self.primary or changed.is_reference else ()
        if changed.is_reference:
            return self.group_of(self.primary)
        group = changed.part_of(self.keys)
        for other in self.plain:
            shared = other.part_of(group)
            if shared:
                group = shared
        return group

    @cached_property
    def shares_all_keys(self) -> bool:
        """Whether each plain input has all transform keys, so that a row for another key is a mistake.

        Where keys are looked up a row belongs to one key, unless its reference has several rows for a value.
        """
        if self.looked_up:
            return not self.fans_out
        return all(set(i.part_of(self.keys)) == set(self.keys) for i in self.plain)

    @cached_property
    def fans_out(self) -> bool:
        """Whether a row of the primary may belong to several keys: a reference that has them is joined by less than
        its own key. Then the function gets all rows that belong to a key, and gives rows for other keys, too."""
        homes = [self.home_reference(name) for name in self.looked_up]
        return any(not home.is_looked_up_by_key for home in homes)

    @cached_property
    def key_types(self) -> dict[str, pa.DataType]:
        """The types of the transform keys, as the first input that has them says."""
        return {name: self._home(name).source.schema.column(name).type for name in self.keys}

    def home_reference(self, name: str) -> Input:
        """The reference that a looked-up key comes from."""
        return next(i for i in self.references if name in i.columns)

    def _home(self, name: str) -> Input:
        return next(i for i in (*self.plain, *self.references) if name in i.columns)


def make_shape(step: str, inputs: Sequence[Input], outputs: Sequence[TableSource], keys: Sequence[str] | None) -> Shape:
    """The shape of a step, or an error that names what does not fit together."""
    if not inputs or not outputs:
        missing = "inputs" if not inputs else "outputs"
        raise InvalidStep(f"step '{step}' has no {missing}. It was not added.", hint=f"give {missing}=[…].")
    plain = [i for i in inputs if not i.is_reference]
    if not plain:
        raise InvalidStep(
            f"step '{step}': every input has join_keys, so nothing is left to join them to. It was not added.",
            hint="give the table whose columns the join_keys name as a plain input.",
        )
    _check_outputs(step, inputs, outputs)
    for reference in inputs:
        _check_join(step, plain[0], reference, [i for i in inputs if i.is_reference and i is not reference])
    chosen = _default_keys(plain[0], outputs) if keys is None else tuple(keys)
    _check_keys(step, inputs, outputs, chosen)
    return Shape(step, tuple(inputs), tuple(outputs), chosen)


def _default_keys(primary: Input, outputs: Sequence[TableSource]) -> tuple[str, ...]:
    shared = [name for name in outputs[0].schema.key if all(name in o.schema.key for o in outputs)]
    return tuple(name for name in shared if name in primary.columns)


def _check_outputs(step: str, inputs: Sequence[Input], outputs: Sequence[TableSource]) -> None:
    names = [output.name for output in outputs]
    for output in outputs:
        if not output.schema.key:
            raise InvalidStep(
                f"step '{step}' writes '{output.name}', which has no key. It was not added.",
                hint="rows that are derived are corrected and retracted: declare the table with a key.",
            )
        if names.count(output.name) > 1:
            raise InvalidStep(f"step '{step}' has the output '{output.name}' twice. It was not added.")
        if any(output.name == i.table for i in inputs):
            raise InvalidStep(
                f"step '{step}' reads and writes '{output.name}': a cycle of one. It was not added.",
                hint="write to another table.",
            )


def _check_join(step: str, primary: Input, reference: Input, others: Sequence[Input]) -> None:
    doubled = [theirs for _, theirs in reference.join_keys]
    twice = next((name for name in doubled if doubled.count(name) > 1), None)
    if twice is not None:
        raise InvalidStep(
            f"transform '{step}' joins several columns of '{primary.table}' to '{reference.table}.{twice}'. "
            "It was not added.",
            hint="give the table once for each of the columns: then each is looked up by itself.",
        )
    for mine, theirs in reference.join_keys:
        if mine not in primary.columns:
            hop = next((i.table for i in others if mine in i.columns), None)
            hint = did_you_mean(mine, list(primary.columns), f"Columns of '{primary.table}'")
            if hop:
                hint = (
                    f"'{mine}' is a column of '{hop}', itself a reference: make a step that joins '{primary.table}' "
                    f"with '{hop}' first, and read its output here. {hint}"
                )
            raise UnknownColumn(
                f"transform '{step}' joins on column '{mine}', which table '{primary.table}' does not have. "
                "It was not added.",
                hint=hint,
            )
        if theirs not in reference.columns:
            raise UnknownColumn(
                f"transform '{step}' joins on column '{theirs}', which table '{reference.table}' does not have. "
                "It was not added.",
                hint=did_you_mean(theirs, list(reference.columns), f"Columns of '{reference.table}'"),
            )
        one, other = primary.source.schema.column(mine).type, reference.source.schema.column(theirs).type
        if not _comparable(one, other):
            raise InvalidStep(
                f"transform '{step}' joins '{primary.table}.{mine}', {spark_name(one)}, with "
                f"'{reference.table}.{theirs}', {spark_name(other)}: their values do not compare. It was not added.",
                hint="give both columns one type.",
            )


def _comparable(one: pa.DataType, other: pa.DataType) -> bool:
    # A moment and a wall clock are not among these: whether they are equal depends on the session's time zone. Nor are
    # whole numbers and floats: two of the former may equal the same one of the latter.
    return one == other or any(kind(one) and kind(other) for kind in (is_exact_number, pa.types.is_floating))


def is_exact_number(kind: pa.DataType) -> bool:
    """Whether a type holds whole numbers or decimals, which compare with each other by their value."""
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _check_keys(step: str, inputs: Sequence[Input], outputs: Sequence[TableSource], keys: Sequence[str]) -> None:
    if len(set(keys)) != len(keys):
        raise InvalidStep(f"step '{step}' names a transform key twice: {', '.join(keys)}. It was not added.")
    for name in keys:
        homes = [i for i in inputs if name in i.columns]
        if not homes:
            known = list(dict.fromkeys(column for i in inputs for column in i.columns))
            raise UnknownColumn(
                f"step '{step}': no input has the transform key '{name}'. It was not added.",
                hint=did_you_mean(name, known, "Columns of the inputs"),
            )
        _check_key_types(step, name, homes, outputs)


def _check_key_types(step: str, name: str, homes: Sequence[Input], outputs: Sequence[TableSource]) -> None:
    plain = [i for i in homes if not i.is_reference] or list(homes)
    types: Mapping[str, pa.DataType] = {i.table: i.source.schema.column(name).type for i in plain}
    first = plain[0]
    for output in outputs:
        if name not in output.schema.key:
            raise InvalidStep(
                f"step '{step}': its transform key '{name}' is not in the key of output '{output.name}' "
                f"({', '.join(output.schema.key)}). It was not added.",
                hint="rows are found again by their transform keys: put them into the output's key, or give "
                "transform_keys=[…] with columns that are there.",
            )
        types = {**types, output.name: output.schema.column(name).type}
    for table, found in types.items():
        if found != types[first.table]:
            raise InvalidStep(
                f"step '{step}': the transform key '{name}' is {spark_name(types[first.table])} in '{first.table}' and "
                f"{spark_name(found)} in '{table}'. It was not added.",
                hint="give it one type in all tables.",
            )
