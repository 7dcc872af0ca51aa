from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import types
import typing
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum

import flatbuffers
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seamark import ledger
from seamark.errors import InvalidIdentifier, MalformedBlock, UnsupportedBlockVersion
from seamark.ledger import AddData, Block, writer
from seamark.ledger.wire import TABLES, Kind

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
REFUSALS = (MalformedBlock, UnsupportedBlockVersion, InvalidIdentifier)


# --- every kind of event ----------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
HASHES = st.binary(min_size=32, max_size=32).map(lambda digest: "f1620" + digest.hex())
IDS = st.binary(min_size=32, max_size=32).map(lambda key: "did:odf:fed01" + key.hex())
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
SCALARS = {
    Kind.HASH: HASHES,
    Kind.DATASET_ID: IDS,
    Kind.BYTES: st.binary(max_size=20),
    Kind.STRING: TEXT,
    Kind.STRINGS: st.lists(TEXT, max_size=3).map(tuple),
    Kind.UINT64: st.integers(0, 2**64 - 1) | st.just(0),
    Kind.UINT32: st.integers(0, 2**32 - 1),
    Kind.INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.BOOL: st.booleans(),
    Kind.TIMESTAMP: TIMES,
    Kind.EXTRA: st.dictionaries(TEXT, JSON, max_size=3),
}
SIMPLE_TYPES = [cls for cls in TABLES if cls.__name__.startswith("DataType") and not TABLES[cls]]


def _instances(draw, cls, depth):
    values = {}
    for field in TABLES[cls]:
        value = _field_value(draw, field, depth)
        if value is not None:
            values[field.name] = value
    return cls(**values)


def _field_value(draw, field, depth):
    if not field.required and draw(st.booleans()):
        return None
    if field.kind in SCALARS:
        return draw(SCALARS[field.kind])
    if field.kind in (Kind.ENUM16, Kind.ENUM32):
        return draw(st.sampled_from(list(field.of[0])))
    members = field.of
    if depth > 4 and SIMPLE_TYPES[0] in members:  # types hold types: an end must come
        members = SIMPLE_TYPES
    if field.kind in (Kind.TABLE, Kind.UNION):
        return _instances(draw, draw(st.sampled_from(members)), depth + 1)
    count = draw(st.integers(0, 2))
    return tuple(_instances(draw, draw(st.sampled_from(members)), depth + 1) for _ in range(count))


EVENT_KINDS = next(field for field in TABLES[Block] if field.name == "event").of


@st.composite
def blocks(draw, kinds=EVENT_KINDS):
    event = _instances(draw, draw(st.sampled_from(kinds)), 0)
    return Block(draw(TIMES), draw(st.none() | HASHES), draw(SCALARS[Kind.UINT64]), event)


@pytest.mark.parametrize("kind", EVENT_KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_event_comes_back_as_it_went(kind, data):
    block = data.draw(blocks([kind]))
    encoded = ledger.encode(block)
    assert ledger.decode(encoded) == block
    assert ledger.encode(ledger.decode(encoded)) == encoded


def test_all_thirteen_events_and_all_types_are_laid_out():
    assert len(EVENT_KINDS) == 13
    assert typing.get_args(ledger.MetadataEvent) == EVENT_KINDS
    assert len([cls for cls in TABLES if cls.__name__.startswith("DataType")]) == 24


@pytest.mark.parametrize("cls", sorted(TABLES, key=lambda cls: cls.__name__), ids=lambda cls: cls.__name__)
def test_the_layout_has_every_field_of_its_class(cls):
    hints = typing.get_type_hints(cls)
    assert {field.name for field in TABLES[cls]} == {field.name for field in dataclasses.fields(cls)}
    for field in TABLES[cls]:
        optional = type(None) in typing.get_args(hints[field.name])
        assert field.required != optional, f"{cls.__name__}.{field.name}"
        if field.kind in (Kind.ENUM16, Kind.ENUM32):
            assert issubclass(field.of[0], IntEnum)
        if field.kind in (Kind.UNION, Kind.TABLE):
            named = hints[field.name]
            members = typing.get_args(named) if isinstance(named, types.UnionType) else (named,)
            assert set(field.of) == set(members) - {type(None)}


# --- details of the canonical form ------------------------------------------------------------------------------------


@pytest.mark.scenario("L3")
def test_offset_zero_is_not_the_same_as_none():
    none, zero = Block(NOON, None, 1, AddData(prev_offset=None)), Block(NOON, None, 1, AddData(prev_offset=0))
    assert ledger.encode(none) != ledger.encode(zero)
    assert ledger.decode(ledger.encode(none)).event.prev_offset is None
    assert ledger.decode(ledger.encode(zero)).event.prev_offset == 0


def test_extra_is_compact_json_with_sorted_keys():
    extra = {"b.org/x": {"z": 1, "a": "ü"}, "a.org/y": [True, None]}
    data = ledger.encode(Block(NOON, None, 0, AddData(extra=extra)))
    assert '{"a.org/y":[true,null],"b.org/x":{"a":"ü","z":1}}'.encode() in data
    assert ledger.decode(data).event.extra == extra


@pytest.mark.parametrize(
    ("value", "prepend"),
    [
        (ledger.DataTypeTime(ledger.TimeUnit.SECOND), "PrependInt16Slot"),
        (ledger.DataTypeBinary(0), "PrependUint64Slot"),
    ],
)
def test_an_optional_zero_is_written_in_the_width_of_its_field(value, prepend):
    builder = flatbuffers.Builder(64)
    builder.StartObject(1)
    getattr(builder, prepend)(0, 0, None)
    builder.Finish(builder.EndObject())
    assert writer.table(value) == bytes(builder.Output())


def test_an_empty_extra_is_not_the_same_as_none():
    assert ledger.decode(ledger.encode(Block(NOON, None, 0, AddData(extra={})))).event.extra == {}


def test_a_time_of_another_zone_is_the_same_moment():
    here = NOON.astimezone(timezone(timedelta(hours=5)))
    assert ledger.encode(Block(here, None, 0, AddData())) == ledger.encode(Block(NOON, None, 0, AddData()))


def test_hashes_in_another_base_are_the_same_block():
    text = ledger.multihash(b"prev")
    other = ledger.multibase_encode(ledger.hash_to_bytes(text), "z")
    assert ledger.encode(Block(NOON, other, 1, AddData())) == ledger.encode(Block(NOON, text, 1, AddData()))


@pytest.mark.parametrize(
    "block",
    [
        Block(datetime(2020, 1, 1), None, 0, AddData()),
        Block(NOON, None, -1, AddData()),
        Block(NOON, None, 2**64, AddData()),
        Block(NOON, None, "1", AddData()),
        Block(NOON, None, 0, None),
        Block(NOON, None, 0, ledger.OffsetInterval(0, 1)),
        Block(NOON, None, 0, AddData(new_data="file")),
        Block(NOON, None, 0, AddData(extra={"a": float("nan")})),
        Block(NOON, None, 0, AddData(extra=[1])),
        Block(NOON, None, 0, ledger.SetInfo("\ud800")),
        Block(NOON, None, 0, ledger.SetInfo(7)),
        Block(NOON, None, 0, ledger.SetInfo(keywords="word")),
        Block(NOON, None, 0, ledger.Seed("did:odf:fed01" + "00" * 32, 7)),
    ],
)
def test_what_does_not_fit_is_refused_when_written(block):
    with pytest.raises(MalformedBlock, match="cannot be written"):
        ledger.encode(block)


def test_types_cannot_lie_in_one_another_without_end():
    data_type = ledger.DataTypeInt64()
    for _ in range(100):
        data_type = ledger.DataTypeList(data_type)
    schema = ledger.DataSchema((ledger.DataField("deep", data_type),))
    with pytest.raises(MalformedBlock, match="deeper than 64"):
        ledger.encode(Block(NOON, None, 0, ledger.SetDataSchema(schema)))


# --- bytes from elsewhere ---------------------------------------------------------------------------------------------


@given(blocks(), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_damaged_bytes_are_a_block_or_refused(block, rng):
    whole = ledger.encode(block)
    for _ in range(12):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 4, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        _block_or_refused(bytes(data))
    for cut in rng.sample(range(len(whole)), 4):
        _block_or_refused(whole[:cut])


def test_every_single_byte_can_be_damaged():
    sql = ledger.TransformSql("spark", queries=(ledger.SqlQueryStep(None, "SELECT 1"),))
    inputs = (ledger.TransformInput("posts", "a"), ledger.TransformInput("profiles"))
    whole = ledger.encode(Block(NOON, ledger.multihash(b"prev"), 117, ledger.SetTransform(inputs, sql)))
    for position in range(len(whole)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            _block_or_refused(whole[:position] + bytes([value]) + whole[position + 1 :])
        _block_or_refused(whole[:position])


@given(st.binary(max_size=200))
def test_garbage_is_refused(data):
    with pytest.raises(REFUSALS):
        ledger.decode(data)


def _block_or_refused(data):
    with contextlib.suppress(REFUSALS):
        assert isinstance(ledger.decode(data), Block)


def test_a_small_block_cannot_unfold_into_a_huge_one():
    """Vectors whose items are all one and the same table, in many levels."""
    builder = flatbuffers.Builder(4096)

    def vector_of(offset, count):
        builder.StartVector(4, count, 4)
        for _ in range(count):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()

    def struct_type(fields):
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, fields, 0)
        return builder.EndObject()

    def field(kind, data_type):
        name = builder.CreateString("f")
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(0, name, 0)
        builder.PrependUint8Slot(1, kind, 0)
        builder.PrependUOffsetTRelativeSlot(2, data_type, 0)
        return builder.EndObject()

    builder.StartObject(0)
    inner = field(2, builder.EndObject())
    for _ in range(20):
        inner = field(21, struct_type(vector_of(inner, 20)))
    schema = struct_type(vector_of(inner, 1))
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, schema, 0)
    event = builder.EndObject()
    builder.StartObject(5)
    builder.Prep(4, 16)
    for number in (0, 0, 1, 2020):
        builder.PrependUint32(number)
    builder.PrependStructSlot(0, builder.Offset(), 0)
    builder.PrependUint8Slot(3, 10, 0)
    builder.PrependUOffsetTRelativeSlot(4, event, 0)
    builder.Finish(builder.EndObject())

    with pytest.raises(MalformedBlock, match="again and again"):
        ledger.decode(writer.manifest(bytes(builder.Output())))


@pytest.mark.parametrize(
    ("year", "day", "second", "nanosecond"),
    [(0, 1, 0, 0), (10_000, 1, 0, 0), (2020, 0, 0, 0), (2020, 367, 0, 0), (2019, 366, 0, 0), (2020, 1, 86_400, 0)],
)
def test_times_that_there_are_not_are_refused(year, day, second, nanosecond):
    data = ledger.encode(Block(NOON, None, 0, AddData()))
    noon = (2020).to_bytes(4, "little") + b"\1\0\0\0" + (43_200).to_bytes(4, "little") + bytes(4)
    other = year.to_bytes(4, "little") + day.to_bytes(2, "little") + b"\0\0" + second.to_bytes(4, "little")
    with pytest.raises(MalformedBlock):
        ledger.decode(data.replace(noon, other + nanosecond.to_bytes(4, "little")))


def test_nanoseconds_are_cut_off_when_read():
    data = ledger.encode(Block(NOON.replace(microsecond=5), None, 0, AddData()))
    assert ledger.decode(data.replace((5000).to_bytes(4, "little"), (5999).to_bytes(4, "little"))) == ledger.decode(
        data
    )


def test_a_text_that_is_said_to_be_longer_than_the_block_is_refused():
    data = ledger.encode(Block(NOON, None, 0, ledger.SetInfo("description")))
    longer = data.replace(b"\x0b\0\0\0description", b"\xff\0\0\0description")
    assert longer != data
    with pytest.raises(MalformedBlock, match="255 bytes are said to be"):
        ledger.decode(longer)


@pytest.mark.parametrize("text", ["[]", "7", '{"a":NaN}', '{"a":', "[" * 200_000])
def test_extra_must_be_a_json_object(text):
    extra = {"k": "x" * len(text)}
    written = json.dumps(extra, separators=(",", ":"))
    whole = ledger.encode(Block(NOON, None, 0, AddData(extra=extra)))
    data = whole.replace(written.encode(), text.ljust(len(written)).encode())
    assert data != whole
    with pytest.raises(MalformedBlock, match="extra is not"):
        ledger.decode(data)


def test_the_order_of_random_keys_does_not_matter():
    keys = [f"k{number}" for number in range(20)]
    shuffled = random.Random(1).sample(keys, 20)
    one, other = ({"x": dict.fromkeys(names, 1)} for names in (keys, shuffled))
    assert ledger.encode(Block(NOON, None, 0, AddData(extra=one))) == ledger.encode(
        Block(NOON, None, 0, AddData(extra=other))
    )
