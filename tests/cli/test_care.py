"""`verify`, `fold` and `gc`."""

import os

import pytest

from seamark import DataStore


@pytest.fixture
def store(project):
    with DataStore(f"sqlite:///{project / 'seamark.db'}", project / "warehouse") as opened:
        yield opened


def flip_a_bit(path, place=-5):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))


# --- verify -----------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C27")
def test_verify_a_clean_project(call, project):
    told = call("verify", folder=project)
    assert (told.code, told.out) == (0, "✓ 11 blocks of 3 tables: files, chains and control database agree\n")

    one = call("verify", "posts", "--json")
    expected = {"ok": True, "tables": ["posts"], "blocks": 3, "skipped": [], "findings": []}
    assert (one.code, one.document) == (0, expected | {"replayed": None, "not_replayable": None})
    assert call("verify", "profiles", "--json").document["blocks"] == 0


@pytest.mark.scenario("C27")
def test_verify_names_a_flipped_bit_in_a_slice(call, project, store):
    block = store.control.index.blocks("posts")[0]
    flip_a_bit(project / "warehouse" / "posts" / "data" / block.slice_hash, place=40)

    told = call("verify", folder=project)
    assert told.code == 1
    assert f"posts block {block.hash[:13]}  physical hash" in told.out
    assert f"expected  {block.slice_hash}" in told.out

    as_json = call("verify", "posts", "--json")
    assert as_json.code == 1
    assert as_json.document["ok"] is False
    finding = as_json.document["findings"][0]
    assert (finding["table"], finding["block"], finding["kind"]) == ("posts", block.hash, "physical hash")
    assert call("verify", "clicks").code == 0


@pytest.mark.scenario("C27")
@pytest.mark.parametrize("place", range(0, 160, 8))
def test_verify_names_a_flipped_bit_in_the_schema_block_though_the_pipeline_needs_it(call, project, store, place):
    block = store.control.index.blocks("posts", kinds=["SetDataSchema"])[0]
    flip_a_bit(project / "warehouse" / "posts" / "blocks" / block.hash, place=-1 - place)

    for arguments in (["verify"], ["verify", "posts"]):
        told = call(*arguments, "--json", folder=project)
        assert told.code == 1
        assert {(finding["table"], finding["block"]) for finding in told.document["findings"]} >= {
            ("posts", block.hash)
        }


@pytest.mark.scenario("C4")
def test_a_pipeline_that_raises_fails_verify_too_when_nothing_is_damaged(call, project):
    file = project / "pipeline.py"
    file.write_text(file.read_text() + "1 / 0\n")
    told = call("verify", folder=project)
    assert (told.code, told.out) == (1, "")
    assert "ZeroDivisionError" in told.err


# --- fold -------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C26")
def test_fold_names_what_it_folded_and_what_it_skipped(call, project, spark):
    told = call("fold", "posts", "feed", folder=project)
    assert told.code == 0
    assert told.out.splitlines() == [
        "✓ posts folded: 3 records, Delta version 0",
        "· feed skipped: it has no records",
    ]

    document = call("fold", "--json").document
    assert [(report["table"], report["records"]) for report in document["folded"]] == [("clicks", 6)]
    assert {report["table"]: report["reason"] for report in document["skipped"]} == {
        "feed": "it has no records",
        "posts": "it is folded up to its head",
        "profiles": "it has no records",
    }
    assert {table["waiting"] for table in call("ls", "--json").document["tables"]} == {0}


@pytest.mark.scenario("C26")
def test_fold_with_one_wrong_name_folds_nothing(call, project):
    assert call("fold", "posts", "psots", folder=project).code == 2
    assert not (project / "warehouse" / "posts" / "rows").exists()


# --- gc ---------------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("C26")
def test_a_dry_run_of_gc_lists_what_gc_removes(call, project):
    orphan = project / "warehouse" / "posts" / "data" / ("f1620" + "0" * 64)
    orphan.write_bytes(b"nobody's")
    os.utime(orphan, (1_600_000_000, 1_600_000_000))

    would = call("gc", "--dry-run", "--json", folder=project).document
    assert would == {
        "dry_run": True,
        "count": 1,
        "bytes": 8,
        "removed": [{"path": f"posts/data/{orphan.name}", "size": 8}],
    }
    assert orphan.exists()
    assert "Would remove 1 file, 8 bytes." in call("gc", "--dry-run").out

    did = call("gc")
    assert "Removed 1 file, 8 bytes." in did.out
    assert not orphan.exists()
    assert call("gc").out == "Nothing to remove.\n"
    assert call("verify").code == 0


@pytest.mark.scenario("C26")
def test_gc_leaves_alone_what_is_younger_than_the_grace(call, project):
    orphan = project / "warehouse" / "posts" / "data" / ("f1620" + "0" * 64)
    orphan.write_bytes(b"nobody's")

    assert call("gc", "--grace", "1d", folder=project).out == "Nothing to remove.\n"
    assert orphan.exists()
    assert call("gc", "--grace", "0s", "--json").document["count"] == 1


def test_gc_of_a_project_that_was_never_written(call, empty_project):
    assert call("gc", folder=empty_project).out == "Nothing to remove.\n"
