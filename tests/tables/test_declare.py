"""Declaring a table: names, keys and types that cannot be, and opening one again."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from seamark.errors import ConfigError, InvalidSchema, InvalidTableName, SchemaChangeRefused


@pytest.mark.scenario("T39")
@pytest.mark.parametrize(
    "name",
    [
        "offset",
        "op",
        "system_time",
        "event_time",
        "OFFSET",
        "Op",
        "System_Time",
        "_offset",
        "_deleted",
        "_part",
        "_owner",
    ],
)
def test_names_that_are_seamarks_own(dry, name):
    with pytest.raises(InvalidSchema, match=rf"table 't': the column name '{name}' is reserved"):
        dry.table("t", f"id long, {name} long", key="id")


@pytest.mark.scenario("T39")
def test_names_that_spark_cannot_tell_apart(dry):
    with pytest.raises(InvalidSchema, match=r"table 't': columns 'Name' and 'name' are equal but for case"):
        dry.table("t", "id long, Name string, name string")


@pytest.mark.scenario("T39")
@pytest.mark.parametrize("name", ["first name", "a.b", "back`tick", "a;b", "a=b", "f(x)", "a\nb", ""])
def test_names_that_could_be_written_and_never_folded(dry, name):
    """Delta refuses these signs, and Spark's way to Arrow loses its way on dots: better now than at the first fold."""
    with pytest.raises(InvalidSchema, match=r"table 't': the column name .* Nothing was declared"):
        dry.table("t", pa.schema([("id", pa.int64()), (name, pa.string())]), key="id")
    with pytest.raises(InvalidSchema, match=r"table 't': the column name .* Nothing was declared"):
        dry.table(
            "t", pa.schema([("id", pa.int64()), ("s", pa.list_(pa.list_(pa.struct([(name, pa.int64())]))))]), key="id"
        )


@pytest.mark.scenario("T39")
def test_a_key_that_is_no_column(dry):
    with pytest.raises(InvalidSchema, match=r"table 't': its key names column 'post_id'.*did you mean 'postid'"):
        dry.table("t", "postid long", key="post_id")
    with pytest.raises(InvalidSchema, match="its key names a column twice: id, id"):
        dry.table("t", "id long", key=["id", "id"])
    with pytest.raises(InvalidSchema, match=r"key column 'tags' .*array<string> NOT NULL, which has no order"):
        dry.table("t", "tags array<string>", key="tags")


@pytest.mark.scenario("T39")
def test_an_event_time_that_is_no_time(dry):
    with pytest.raises(InvalidSchema, match=r"its event time names column 'when'"):
        dry.table("t", "at timestamp", event_time="when")
    with pytest.raises(InvalidSchema, match=r"its event time 'at' has type string"):
        dry.table("t", "at string", event_time="at")


@pytest.mark.scenario("T40")
@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/tmp/x",
        "a\0b",
        "a\nb",
        "a\\b",
        ".hidden",
        "C:x",
        "orders 2020",
        "a*b",
        "x[1]",
        None,
        7,
    ],
)
def test_names_that_would_leave_the_warehouse(dry, tmp_path, name):
    def listing():
        return sorted(str(path) for folder in (tmp_path, tmp_path.parent) for path in folder.iterdir())

    before = listing()
    with pytest.raises(InvalidTableName, match=r"cannot be a table's name. Nothing was declared"):
        dry.table(name, "id long", key="id")
    assert listing() == before


@pytest.mark.scenario("T41")
def test_declaring_again_opens_the_table(dry, open_store, arrow, no_spark):
    posts = dry.table("posts", "post_id long, content string", key="post_id")
    posts.upsert(arrow(posts, (1, "hello")))
    other = open_store(spark=no_spark)

    again = other.table("posts", "post_id bigint, content string", key=["post_id"])
    assert again.head == posts.head

    with pytest.raises(SchemaChangeRefused, match=r"table 'posts'.*its key is \(post_id\), not \(content\)"):
        other.table("posts", "post_id long, content string", key="content")
    with pytest.raises(SchemaChangeRefused, match=r"its key is \(post_id\), not \(none\)"):
        other.table("posts", "post_id long, content string")
    assert posts.head == again.head


@pytest.mark.scenario("T42")
@pytest.mark.parametrize(
    "kind",
    [
        "map<string,int>",
        "interval day to second",
        "interval",
        "array<map<int,int>>",
        "struct<a:map<int,int>>",
        "variant",
        "void",
    ],
)
def test_types_that_cannot_be_hashed(dry, kind):
    with pytest.raises(InvalidSchema) as error:
        dry.table("t", f"id long, x {kind}, y string", key="id")
    assert f"table 't': column 'x' has type {kind}, which a table cannot hold" in str(error.value)


@pytest.mark.scenario("T42")
def test_the_same_of_an_arrow_or_a_spark_schema(dry):
    from pyspark.sql import types as spark

    with pytest.raises(InvalidSchema, match=r"column 'm' has type map<string, int32"):
        dry.table("t", pa.schema([("m", pa.map_(pa.string(), pa.int32()))]))
    with pytest.raises(InvalidSchema, match=r"column 'm' has type map<string,int>"):
        dry.table("t", spark.StructType().add("m", spark.MapType(spark.StringType(), spark.IntegerType())))


def test_a_schema_may_be_text_or_arrow_or_spark(dry):
    from pyspark.sql import types as spark

    text = dry.table("a", "id long NOT NULL, at timestamp, tags array<string>, n decimal(5,2)")
    arrow = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("at", pa.timestamp("ns", tz="Europe/Paris")),
            ("tags", pa.large_list(pa.large_string())),
            ("n", pa.decimal128(5, 2)),
        ]
    )
    struct = spark.StructType(
        [
            spark.StructField("id", spark.LongType(), False),
            spark.StructField("at", spark.TimestampType()),
            spark.StructField("tags", spark.ArrayType(spark.StringType())),
            spark.StructField("n", spark.DecimalType(5, 2)),
        ]
    )
    assert dry.table("b", arrow).schema == dry.table("c", struct).schema == text.schema
    assert text.schema.spark() == struct


@pytest.mark.parametrize(
    "text", ["", "id", "id long,", "id long name string", "id decimal(50)", "id long NOT", "1d long"]
)
def test_definitions_that_cannot_be_read(dry, text):
    with pytest.raises(InvalidSchema, match=r"column definition"):
        dry.table("t", text)


def test_a_table_without_columns(dry):
    with pytest.raises(InvalidSchema):
        dry.table("t", pa.schema([]))


def test_a_watermark_is_a_moment(dry):
    clicks = dry.table("clicks", "url string")
    with pytest.raises(InvalidSchema, match="a watermark is a datetime, not '2020'"):
        clicks.set_watermark("2020")
    clicks.set_watermark(datetime(2020, 1, 1, tzinfo=UTC))
    assert clicks.head.sequence == 2


def test_a_block_must_have_room_for_a_correction(open_store):
    with pytest.raises(ConfigError, match="block_rows"):
        open_store(block_rows=1)
