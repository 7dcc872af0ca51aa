from __future__ import annotations

import base64
import dataclasses
import hashlib
from datetime import UTC, datetime

import flatbuffers
import pytest

from seamark import ledger
from seamark.errors import UnsupportedBlockVersion
from seamark.ledger import AddData, Block, writer

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


# --- known answers ----------------------------------------------------------------------------------------------------


def _mh(text):
    """`mh(prev)` as the known answers write it: the hash of the letters within."""
    return ledger.multihash(text.removeprefix("mh(").removesuffix(")").encode())


def _known_event(known):
    fields = known["fields"]
    match known["event"]:
        case "AddData":
            data = fields.get("newData")
            state = fields.get("newSourceState")
            return AddData(
                prev_checkpoint=_mh(fields["prevCheckpoint"]) if "prevCheckpoint" in fields else None,
                prev_offset=fields.get("prevOffset"),
                new_data=data
                and ledger.DataSlice(
                    _mh(data["logicalHash"]),
                    _mh(data["physicalHash"]),
                    ledger.OffsetInterval(*data["offsetInterval"]),
                    data["size"],
                ),
                new_watermark=datetime.fromisoformat(fields["newWatermark"]) if "newWatermark" in fields else None,
                new_source_state=state and ledger.SourceState(state["sourceName"], state["kind"], state["value"]),
            )
        case "SetTransform":
            return ledger.SetTransform(
                tuple(ledger.TransformInput(*source) for source in fields["inputs"]),
                ledger.TransformSql(fields["engine"], query=fields["query"]),
            )
        case "SetDataSchema":
            return ledger.SetDataSchema(raw_arrow_schema=base64.b64decode(fields["rawArrowSchemaBase64"]))
        case "SetInfo":
            return ledger.SetInfo(fields["description"])
    raise AssertionError(known["event"])


def _known_block(known):
    return Block(
        datetime.fromisoformat(known.get("systemTime", "2020-01-01T12:00:00Z")),
        known.get("prevBlockHash", _mh("mh(prev)")),
        known.get("sequenceNumber", 117),
        _known_event(known),
    )


@pytest.mark.scenario("L1")
def test_known_blocks_come_out_as_written(vectors):
    for known in vectors["blocks"]:
        block = _known_block(known)
        data = ledger.encode(block)
        assert (len(data), hashlib.sha3_256(data).hexdigest()) == (known["bytes"], known["sha3_256"])
        assert ledger.block_hash(data) == "f1620" + known["sha3_256"]
        assert ledger.decode(data) == block
    assert ledger.encode(_known_block(vectors["blocks"][0])).hex() == vectors["first_block_hex"]


# --- versions ---------------------------------------------------------------------------------------------------------


def _old_block(version):
    """A block as older software wrote it: its timestamp is not aligned, and its manifest says so."""
    builder = flatbuffers.Builder(256)
    prev = builder.CreateByteVector(ledger.hash_to_bytes(_mh("prev")))
    description = builder.CreateString("foo")
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(0, description, 0)
    info = builder.EndObject()
    builder.StartObject(5)
    builder.PrependUint8Slot(3, 8, 0)
    for number, prepend in ((0, "Uint32"), (43_200, "Uint32"), (0, "Uint16"), (1, "Uint16"), (2020, "Int32")):
        for byte in reversed(number.to_bytes(2 if prepend == "Uint16" else 4, "little")):
            builder.PrependUint8(byte)
    builder.PrependStructSlot(0, builder.Offset(), 0)
    builder.PrependUOffsetTRelativeSlot(1, prev, 0)
    builder.PrependUint64Slot(2, 7, 0)
    builder.PrependUOffsetTRelativeSlot(4, info, 0)
    builder.Finish(builder.EndObject())
    return writer.manifest(bytes(builder.Output()), version)


@pytest.mark.scenario("L7")
def test_version_2_is_read_and_checked_over_its_stored_bytes(seeded):
    stored = _old_block(2)
    block = ledger.decode(stored)
    assert block == Block(NOON, _mh("prev"), 7, ledger.SetInfo("foo"))
    assert ledger.encode(block) != stored

    state = dataclasses.replace(seeded.state, head=_mh("prev"), sequence=6)
    assert ledger.check_append(state, block, ledger.block_hash(stored), data=stored).head == ledger.block_hash(stored)


@pytest.mark.scenario("L7")
def test_version_1_is_refused():
    with pytest.raises(UnsupportedBlockVersion, match="version 1; the supported versions are 2 and 3"):
        ledger.decode(_old_block(1))


@pytest.mark.scenario("L7")
def test_every_block_is_written_in_version_3():
    data = ledger.encode(Block(NOON, None, 1, AddData()))
    assert data == writer.manifest(writer.table(Block(NOON, None, 1, AddData())), 3)
    assert data != writer.manifest(writer.table(Block(NOON, None, 1, AddData())), 2)
