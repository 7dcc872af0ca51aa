"""`heads`, `verify --expect`, `verify --rows`, and `verify` of a store that refuses to be opened."""

import json
import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.cli import open_store


def change(project, statement, *values):
    with sqlite3.connect(project / "seamark.db") as connection:
        connection.execute(statement, values)
    connection.close()


def rewrite(project, name):
    """Make a table's chain anew, with its rows in the database: everything fits."""
    for table in ("block", "table_head"):
        change(project, f"DELETE FROM {table} WHERE table_name = ?", name)
    (project / "warehouse" / name).rename(project / "away")
    with open_store(project) as store:
        moments = pa.array([1_700_000_000_000_000], pa.timestamp("us", tz="UTC"))
        store.table(name, "url string, at timestamp", event_time="at").append(pa.table({"url": ["x"], "at": moments}))


def kinds(told):
    return {(finding["table"], finding["kind"]) for finding in told.document["findings"]}


# --- heads and --expect -----------------------------------------------------------------------------------------------


@pytest.mark.scenario("L67")
def test_heads_prints_each_table_and_the_hash_of_its_newest_block(call, project):
    with open_store(project) as store:
        heads = {name: head for name, head in store.heads().items() if head.block_hash}

    told = call("heads", folder=project)
    assert (told.code, told.out) == (0, "".join(f"{name} {head.block_hash}\n" for name, head in sorted(heads.items())))

    as_json = call("heads", "--json").document["heads"]
    assert [(line["table"], line["head"], line["sequence"]) for line in as_json] == [
        (name, head.block_hash, head.sequence) for name, head in sorted(heads.items())
    ]


@pytest.mark.scenario("L67")
@pytest.mark.parametrize("how", [[], ["--json"]])
def test_verify_expect_takes_what_heads_printed_and_finds_a_store_that_was_rewritten(call, project, tmp_path, how):
    written = tmp_path / "heads.txt"
    written.write_text(call("heads", *how, folder=project).out)
    assert call("verify", "--expect", str(written)).code == 0
    rewrite(project, "clicks")
    assert call("verify").code == 0

    told = call("verify", "--expect", str(written), "--json")

    assert (told.code, kinds(told)) == (1, {("clicks", "expected head")})
    shown = call("verify", "clicks", "--expect", str(written))
    assert shown.code == 1
    assert "expected head" in shown.out
    assert call("verify", "posts", "--expect", str(written)).code == 0


@pytest.mark.scenario("L67")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("", "no expected heads"),
        ("posts", "not a table and a hash"),
        ("posts x", "not a hash"),
    ],
)
def test_expected_heads_that_are_none_are_refused(call, project, tmp_path, text, words):
    file = tmp_path / "heads.txt"
    if text is not None:
        file.write_text(text)
    told = call("verify", "--expect", str(file), folder=project)
    assert told.code == 2
    assert words in told.err
    assert "seamark heads > heads.txt" in told.err


# --- the base ---------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("L62")
def test_verify_rows_finds_a_row_of_the_base_that_is_not_the_logs(call, blog, spark):
    assert call("fold", "posts", folder=blog).code == 0
    (base,) = (blog / "warehouse" / "posts" / "rows").glob("*.parquet")
    for checksum in base.parent.glob(".*.crc"):
        checksum.unlink()
    rows = pq.read_table(base)
    others = pa.array(["forged", *rows.column("content").to_pylist()[1:]])
    pq.write_table(rows.set_column(rows.column_names.index("content"), "content", others), base)
    assert call("verify").code == 0

    told = call("verify", "--rows", "--json")

    assert (told.code, kinds(told)) == (1, {("posts", "rows")})
    assert "forged" in told.document["findings"][0]["found"]
    assert "forged" not in call("show", "posts").out  # the base is not read any more


# --- stores that refuse to be opened ----------------------------------------------------------------------------------


REFUSALS = {
    "a head that was made up": ("UPDATE table_head SET head_hash = 'f1620' || data_block", "missing block"),
    "a head set back": (
        "UPDATE table_head SET sequence = 2, head_hash = "
        "(SELECT hash FROM block WHERE table_name = 'clicks' AND sequence = 2)", "head row",
    ),
    "a commit time that is none": ("UPDATE table_head SET system_time = 'noon'", "head row"),
}  # fmt: skip


@pytest.mark.scenario("L63")
@pytest.mark.parametrize("what", REFUSALS)
def test_a_store_that_refuses_to_be_opened_is_verified_all_the_same(call, project, what):
    statement, kind = REFUSALS[what]
    change(project, f"{statement} WHERE table_name = 'clicks'")
    assert call("ls", folder=project).code == 1

    told = call("verify", "--json")

    assert told.code == 1
    assert ("clicks", kind) in kinds(told)
    assert {table for table, _ in kinds(told)} == {"clicks"}
    assert call("verify").out.count("clicks") > 0


def garbage(project):
    (project / "seamark.db").write_bytes(b"not a database" * 100)


def no_version(project):
    change(project, "DELETE FROM seamark_schema")


def no_table(project):
    change(project, "DROP TABLE transform_meta")


@pytest.mark.scenario("L66")
@pytest.mark.parametrize("broken", [garbage, no_version, no_table])
def test_a_control_database_that_cannot_be_used_is_an_error_with_a_hint_and_no_trace(call, project, broken):
    broken(project)
    told = call("verify", "--json", folder=project)
    assert told.code == 1
    error = json.loads(told.out)["error"]
    assert "control database" in error["message"]
    assert error["hint"]
    assert "Traceback" not in told.err


@pytest.mark.scenario("L67")
def test_verify_says_what_else_it_has_compared(call, project):
    heads = project / "heads.txt"
    heads.write_text(call("heads", folder=project).out)
    agree = "✓ 11 blocks of 3 tables: files, chains and control database agree"
    assert call("verify", "--expect", str(heads)).out == f"{agree}; 3 expected heads found\n"
    assert call("verify", "--rows").out == f"{agree}; the rows of bases are those of the log\n"
