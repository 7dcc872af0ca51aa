"""Column definitions, read without Spark, mean what Spark says they mean."""

import pytest

from seamark.errors import InvalidSchema
from seamark.tables.schema.ddl import parse_columns
from seamark.tables.schema.types import spark_type

SAME = [
    "id long",
    "id bigint, name string",
    "id: long, name: string",
    "ID Long Not Null, Name STRING",
    "a boolean, b byte, c tinyint, d short, e smallint, f int, g integer",
    "a float, b real, c double, d decimal, e dec(5), f numeric(38,18), g decimal(10, 2)",
    "a string, b binary, c date, d timestamp, e timestamp_ntz, f timestamp_ltz",
    "tags array<string>, deep array<array<decimal(3,1)>>",
    "s struct<x:int,y:array<string>>",
    "s struct<x: int, y: struct<z: date NOT NULL>>",
    "`odd name` int, `back``tick` string, `comma,` long",
    "x int COMMENT 'it is, \"so\"', y string NOT NULL COMMENT 'b'",
    "`größe` double, _x int, x1 int",
    "  spaced   \n long\t,\n other  string  ",
    "date date, timestamp timestamp, string string",
    "array array<int>, struct struct<struct:int>, comment int, not_null int",
]


@pytest.mark.parametrize("text", SAME)
def test_a_definition_reads_as_spark_reads_it(spark, text):
    from pyspark.sql.types import StructType

    theirs = StructType.fromDDL(text)
    ours = parse_columns(text)

    assert [c.name for c in ours] == theirs.names
    assert [c.nullable for c in ours] == [f.nullable for f in theirs.fields]
    assert [spark_type(c.type) for c in ours] == [f.dataType for f in theirs.fields]


UNSUPPORTED = [
    "map<string,int>",
    "interval day to second",
    "array<map<int,int>>",
    "interval year",
    "variant",
    "time(6)",
    "void",
]


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_a_type_that_spark_has_and_a_table_has_not_ends_where_spark_ends_it(spark, kind):
    from pyspark.sql.types import StructType

    text = f"a int, x {kind} COMMENT 'c', y long"
    assert StructType.fromDDL(text).names == ["a", "x", "y"]
    ours = parse_columns(text)
    assert [c.name for c in ours] == ["a", "x", "y"]
    assert ours[1].type is None
    assert ours[1].written == kind


WRONG = [
    "",
    "id",
    "id long name string",
    "id long,, x int",
    "id decimal(39,1)",
    "id decimal(5,6)",
    "x array<int",
    "x array int",
    "a-b int",
    "x int NOT",
]


@pytest.mark.parametrize("text", WRONG)
def test_what_spark_refuses_is_refused(spark, text):
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if text:
        with pytest.raises(PySparkException):
            StructType.fromDDL(text)
    with pytest.raises(InvalidSchema):
        parse_columns(text)


def test_letters_of_any_script_need_no_quotes():
    assert [c.name for c in parse_columns("größe double, имя string")] == ["größe", "имя"]


def test_char_and_varchar_are_strings():
    assert [str(c.type) for c in parse_columns("a varchar(10), b char(3)")] == ["string", "string"]
