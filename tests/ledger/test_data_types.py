from __future__ import annotations

import pytest

from seamark.ledger import (
    DataField,
    DataTypeBinary,
    DataTypeDecimal,
    DataTypeDuration,
    DataTypeInt64,
    DataTypeList,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTime,
    DataTypeTimestamp,
    TimeUnit,
    same_type,
    type_text,
)


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (DataTypeInt64(), "Int64"),
        (DataTypeOption(DataTypeInt64()), "Option<Int64>"),
        (DataTypeList(DataTypeString()), "List<String>"),
        (DataTypeList(DataTypeString(), 3), "List<String, 3>"),
        (DataTypeMap(DataTypeString(), DataTypeInt64()), "Map<String, Int64>"),
        (DataTypeStruct((DataField("a", DataTypeInt64()),)), "Struct<a: Int64>"),
        (DataTypeDecimal(10, 2), "Decimal(10, 2)"),
        (DataTypeBinary(), "Binary"),
        (DataTypeBinary(16), "Binary(16)"),
        (DataTypeTimestamp(), "Timestamp(MILLISECOND, UTC)"),
        (DataTypeTime(TimeUnit.SECOND), "Time(SECOND)"),
        (DataTypeDuration(), "Duration(MILLISECOND)"),
    ],
)
def test_types_read_as_people_write_them(data_type, text):
    assert type_text(data_type) == text


def test_a_default_may_be_left_out_or_written():
    assert same_type(DataTypeTimestamp(), DataTypeTimestamp(TimeUnit.MILLISECOND, "UTC"))
    assert same_type(DataTypeList(DataTypeTime()), DataTypeList(DataTypeTime(TimeUnit.MILLISECOND)))
    assert not same_type(DataTypeTimestamp(), DataTypeTimestamp(TimeUnit.SECOND))
    assert not same_type(DataTypeTimestamp(), DataTypeTimestamp(timezone="Europe/Berlin"))


def test_attributes_deep_within_a_type_do_not_matter():
    one, other = (DataTypeStruct((DataField("a", DataTypeInt64(), extra),)) for extra in (None, {"x.org/y": 1}))
    assert same_type(one, other)
    assert not same_type(one, DataTypeStruct((DataField("b", DataTypeInt64()),)))
