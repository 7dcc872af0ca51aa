"""The pure decisions of a run: batches, all keys or changes, ranges of keys, keys and checkpoints as text. No Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.pending import NOON, waiting

from seamark.control import FailedKey, Mode, Position
from seamark.steps.past.checkpoint import Checkpoint, RangeMark, ReadAt, decode
from seamark.steps.rows.keys import columns_of, key_texts, keys_of
from seamark.steps.rows.scope import AllKeys, KeyRange, KeyValues, cut_into_ranges, filter_rows, rest_of_ranges
from seamark.steps.standing.pins import Pending, Taken
from seamark.tables.ordering import comparable, distinct
from seamark.transforms.keys.batches import ALL_KEYS_FLOOR, all_keys_because, cut_batches

pendings = st.lists(
    st.tuples(st.lists(st.integers(1, 9), max_size=6), st.integers(0, 6), st.integers(0, 2)).map(
        lambda drawn: (drawn[0], min(drawn[1], len(drawn[0])), drawn[2])
    ),
    max_size=3,
).map(lambda tables: [waiting(f"t{n}", sizes, done=done, quiet=q) for n, (sizes, done, q) in enumerate(tables)])


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("X54")
@given(pendings, st.integers(1, 30))
def test_batches_take_every_waiting_record_once_in_whole_blocks_and_no_more_than_fit(pending, batch_rows):
    batches = cut_batches(pending, batch_rows)

    for entry in pending:
        pieces = [piece for batch in batches for piece in batch if piece.table == entry.table]
        assert [block for piece in pieces for block in piece.blocks] == list(entry.blocks)
        if pieces:
            assert (pieces[0].after, pieces[-1].upto) == (entry.after, entry.pin.offset)
            assert (pieces[-1].end_hash, pieces[-1].end_sequence) == (entry.pin.block_hash, entry.pin.sequence)
        assert all(one.upto == other.after for one, other in pairwise(pieces))
        assert all(piece.upto == piece.blocks[-1].last_offset for piece in pieces)
    for batch in batches:
        blocks = [block for piece in batch for block in piece.blocks]
        assert sum(piece.records for piece in batch) <= batch_rows or len(blocks) == 1


@given(pendings, st.integers(1, 30))
def test_what_fits_into_one_batch_is_one_batch(pending, batch_rows):
    records = sum(entry.records for entry in pending)
    batches = cut_batches(pending, batch_rows)
    assert len(batches) == 0 if records == 0 else len(batches) >= 1
    if 0 < records <= batch_rows:
        assert len(batches) == 1


@pytest.mark.scenario("X54")
def test_five_blocks_of_a_hundred_changes_and_a_profile_in_batches_of_two_hundred_records():
    posts, profiles = waiting("posts", [1000, 200, 200, 200, 200, 200], done=1), waiting("profiles", [3, 2], done=1)

    batches = cut_batches([posts, profiles], 200)

    assert [[(piece.table, piece.after, piece.upto) for piece in batch] for batch in batches] == [
        [("posts", 999, 1199)],
        [("posts", 1199, 1399)],
        [("posts", 1399, 1599)],
        [("posts", 1599, 1799)],
        [("posts", 1799, 1999)],
        [("profiles", 2, 4)],
    ]
    assert cut_batches([waiting("posts", [500])], 200) == [(waiting("posts", [500]).whole(),)]


# --- all keys, or by changes ------------------------------------------------------------------------------------------


def concerns_one(_: Pending) -> bool:
    return False


def test_why_a_run_goes_through_all_keys():
    posts, profiles = waiting("posts", [5, 2], done=1), waiting("profiles", [3], done=1)
    reset = replace(posts, position=Position("step", "posts", None, None, None, None, generation=1))

    assert all_keys_because([waiting("posts", [5]), waiting("profiles", [])], concerns_one, 5) == "first run"
    assert all_keys_because([posts, profiles], concerns_one, 8) is None
    assert (
        all_keys_because([reset, profiles], concerns_one, 8) == "no position on posts: it was reset or is a new input"
    )
    assert (
        all_keys_because([posts, profiles], lambda entry: entry.table == "posts", 8)
        == "'posts' changed, which concerns every key"
    )
    assert all_keys_because([posts, profiles], lambda entry: entry.table == "profiles", 8) is None  # nothing new


def test_more_waiting_records_than_rows_are_gone_through_by_all_keys():
    many = waiting("posts", [1, ALL_KEYS_FLOOR + 1], done=1)
    assert all_keys_because([many], concerns_one, 10) == (
        f"{ALL_KEYS_FLOOR + 1} records wait, more than the inputs have rows (10)"
    )
    assert all_keys_because([many], concerns_one, ALL_KEYS_FLOOR + 1) is None


# --- ranges of keys ---------------------------------------------------------------------------------------------------

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
    pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(20, 5): st.decimals(
        allow_nan=False, allow_infinity=False, places=5, min_value=-(10**14), max_value=10**14
    ),
}


@st.composite
def key_tables(draw: Any, columns: int = 2) -> pa.Table:
    kinds = [draw(st.sampled_from(list(KINDS))) for _ in range(draw(st.integers(1, columns)))]
    rows = draw(st.integers(0, 8))
    values = [draw(st.lists(st.none() | KINDS[kind], min_size=rows, max_size=rows)) for kind in kinds]
    arrays = [pa.array(column, kind) for column, kind in zip(values, kinds, strict=True)]
    return pa.Table.from_arrays(arrays, names=[f"k{n}" for n in range(len(kinds))])


def in_order(keys: pa.Table) -> list[tuple[Any, ...]]:
    """The distinct keys, sorted as Spark sorts them."""
    rows = dict(zip(comparable(keys), zip(*[column.to_pylist() for column in keys.columns], strict=True), strict=True))
    return [rows[key] for key in sorted(rows)]


@given(key_tables(), st.integers(1, 4))
@example(pa.table({"k0": pa.array([None, 0.0, -0.0], pa.float32())}), 1)
def test_ranges_part_the_keys_each_into_one_of_them(keys, size):
    bounds = in_order(keys)[size - 1 : -1 : size]
    ranges = cut_into_ranges(keys.column_names, bounds)

    assert len(ranges) == len(bounds) + 1
    assert [sum(held) for held in zip(*[scope.holds(keys) for scope in ranges], strict=True)] == [1] * keys.num_rows
    assert all(distinct(filter_rows(scope, keys)).num_rows <= size for scope in ranges if bounds)


@given(key_tables(), st.integers(1, 4), st.integers(1, 4), st.data())
def test_the_rest_of_the_ranges_holds_exactly_the_keys_after_the_bound(keys, size, other_size, data):
    """The keys may be cut anew when a pass goes on: the bound that was reached need not be one of today's."""
    if keys.num_rows == 0:
        return
    reached = data.draw(st.sampled_from(in_order(keys)))
    ranges = cut_into_ranges(keys.column_names, in_order(keys)[other_size - 1 : -1 : other_size])

    left = rest_of_ranges(ranges, reached)

    done = KeyRange(tuple(keys.column_names), None, reached).holds(keys)
    times = [sum(held) for held in zip(*[scope.holds(keys) for scope in left], strict=True)] or [0] * keys.num_rows
    assert times == [0 if is_done else 1 for is_done in done]
    assert left[-1].upto is None  # keys that come later belong to the last range


@given(key_tables())
def test_scopes_agree_about_what_they_hold(keys):
    assert AllKeys().holds(keys) == [True] * keys.num_rows
    half = KeyValues(distinct(keys.slice(0, keys.num_rows // 2)))
    assert half.holds(keys) == [key in set(comparable(half.values)) for key in comparable(keys)]
    assert filter_rows(half, keys).num_rows == sum(half.holds(keys))


# --- keys as text -----------------------------------------------------------------------------------------------------


@given(key_tables())
def test_keys_come_back_from_their_texts(keys):
    types = {field.name: field.type for field in keys.schema}
    texts = key_texts(keys)

    back = keys_of(texts, keys.column_names, types)

    assert back.schema == keys.schema
    assert comparable(back) == comparable(keys)
    assert all(columns_of(text) == tuple(keys.column_names) for text in texts)
    assert key_texts(back) == texts


@given(key_tables())
def test_equal_keys_have_equal_texts_and_others_have_not(keys):
    assert len(set(key_texts(keys))) == len(set(comparable(keys)))


def test_texts_of_keys_read_well():
    keys = pa.table(
        {
            "day": pa.array([date(2024, 2, 29), None]),
            "at": pa.array([NOON, None], pa.timestamp("us", "UTC")),
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(6, 2)),
            "raw": pa.array([b"\x00\xff", None]),
            "x": pa.array([float("nan"), -0.0]),
            "name": pa.array(["Zoë", None]),
        }
    )
    assert key_texts(keys) == [
        '{"day":"2024-02-29","at":"2024-05-01T12:00:00+00:00","price":"1.50","raw":"AP8=","x":"nan","name":"Zoë"}',
        '{"day":null,"at":null,"price":null,"raw":null,"x":0.0,"name":null}',
    ]
    assert key_texts(pa.table({"": pa.nulls(2)}).select([]))[:1] in ([], ["{}"])


# --- checkpoints ------------------------------------------------------------------------------------------------------

offsets = st.none() | st.integers(0, 2**62)
reads = st.builds(ReadAt, st.text("0123456789abcdef", min_size=1, max_size=8), st.integers(0, 2**40), offsets)
by_table = st.dictionaries(st.sampled_from(["posts", "profiles", "tags"]), reads)
texts_of_keys = key_tables().map(lambda keys: tuple(dict.fromkeys(key_texts(keys))))
plain_bounds = st.none() | st.tuples(st.none() | st.integers() | st.text(max_size=3) | st.booleans())
failures = st.builds(
    FailedKey,
    st.just("step"),
    st.just('{"post_id":13}'),
    st.floats(0, 2e9),
    st.text(max_size=20),
    st.integers(1, 99),
    st.none() | st.floats(0, 2e9),
    st.none() | st.just('{"posts":4}'),
)


@given(
    st.builds(
        Checkpoint,
        step=st.just("step"),
        mode=st.sampled_from(Mode),
        read=by_table,
        taken=st.dictionaries(st.sampled_from(["posts", "profiles"]), st.tuples(offsets, offsets)),
        keys=texts_of_keys,
        range=st.none()
        | st.builds(
            RangeMark, st.just(("k",)), plain_bounds, plain_bounds, by_table, st.booleans(), st.integers(0, 99)
        ),
        failed=st.lists(failures, max_size=2).map(tuple),
        skipped=texts_of_keys,
        selected_at=st.none() | st.dictionaries(st.sampled_from(["posts", "profiles"]), offsets),
        part=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    )
)
def test_a_checkpoint_comes_back_as_it_was_and_is_written_the_same_again(checkpoint):
    data = checkpoint.encode()
    assert decode(data) == checkpoint
    assert decode(data).encode() == data
    assert checkpoint.as_part(2, 3).part == (2, 3)


def test_a_piece_of_an_input_without_records_has_none():
    assert Taken("posts", None, None, (), "hash", 1).records == 0
