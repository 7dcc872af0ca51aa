"""Where rows begin in a column of lists: levels that are cut, that lie, and that would unfold to a great many."""

from __future__ import annotations

import io
import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seamark.ledger.verify.footer import row_groups
from seamark.ledger.verify.lists import row_starts, widest_batch
from seamark.ledger.verify.pages import BrokenPages, Page, pages_of
from seamark.ledger.verify.unpacking import Chunk, TooLarge, list_rows, rows_at_a_time


def varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80]) + varint(number >> 7) if number > 0x7F else bytes([number])


def packed(*levels: int) -> bytes:
    """Levels 0 and 1 bit by bit, in whole groups of eight."""
    groups = (len(levels) + 7) // 8
    return varint(groups << 1 | 1) + np.packbits(np.array(levels, np.uint8), bitorder="little").tobytes()


def repeated(level: int, times: int) -> bytes:
    return varint(times << 1) + bytes([level])


def starts_of(levels: bytes, items: int, rows: int) -> list[int]:
    """Where the rows of a column begin that has one page with these levels."""
    body = len(levels).to_bytes(4, "little") + levels
    data = pa.compress(body, codec="zstd", asbytes=True)
    page = Page(is_dictionary=False, unpacked=len(body), values=items, is_prefixed=False, start=0, packed=len(data))
    return row_starts(data, [page], "zstd", 1, rows).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_runs_of_every_kind_and_length_are_counted(seed):
    chance = random.Random(seed)
    written, levels = packed(*[0] * 8), [0] * 8
    for _ in range(10):
        if chance.random() < 0.5:
            count = 8 * chance.choice([1, 2, 9_000])  # more than are looked at together
            more = [int(bit) for bit in f"{chance.getrandbits(count):0{count}b}"]
            written += packed(*more)
        else:
            more = [chance.randint(0, 1)] * chance.choice([1, 9, 70_000])
            written += repeated(more[0], len(more))
        levels += more
    written, levels = written + packed(*[0] * 8), levels + [0] * 8
    cut = len(levels) - chance.randint(0, 7)  # the last group may have more than there are items
    wanted = [place for place, level in enumerate(levels[:cut]) if level == 0]
    assert starts_of(written, cut, len(wanted)) == [*wanted, cut]


@pytest.mark.scenario("L66")
@pytest.mark.parametrize("kind", ["bit by bit", "one run", "many runs"])
def test_levels_of_a_great_many_rows_are_given_up_before_they_are_unfolded(kind):
    items = 1 << 25
    if kind == "bit by bit":
        levels = varint(items // 8 << 1 | 1) + bytes(items // 8)
    elif kind == "one run":
        levels = repeated(0, items)
    else:
        levels = repeated(0, 900) * 40_000
    tracemalloc.start()
    with pytest.raises(BrokenPages, match="more than 1000 rows"):
        starts_of(levels, items, 1000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 32 << 20


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        (b"", "end too early"),
        (packed(0, 1, 0)[:-1], "end too early"),
        (b"\x80" * 20, "end too early"),
        (repeated(0, 0), "without an end"),
        (varint(1), "without an end"),
        (repeated(0, 2), "end too early"),
        (repeated(0, 4), "more than 3 rows"),
        (repeated(0, 1) + repeated(1, 3), "those of 1 rows, and not of 3"),
    ],
)
def test_levels_that_are_not_those_of_the_rows_are_refused(levels, told):
    with pytest.raises(BrokenPages, match=told):
        starts_of(levels, 4, 3)


def test_levels_that_are_not_written_as_runs_are_refused():
    stream = io.BytesIO()
    pq.write_table(pa.table({"x": [[1, 2], [3]]}), stream, use_dictionary=False, compression="none")
    as_runs, bit_by_bit = b"\x15\x06\x15\x06", b"\x15\x06\x15\x08"  # of the page header: how levels are written
    data = stream.getvalue()
    for written, is_read in ((data, True), (data.replace(as_runs, bit_by_bit, 1), False)):
        (column,) = row_groups(written)[0].columns
        pages = list(pages_of(written, column.start, column.size))
        if is_read:
            assert row_starts(written, pages, "", 1, 2).tolist() == [0, 2, 3]
        else:
            with pytest.raises(BrokenPages, match="in a way of long ago"):
                row_starts(written, pages, "", 1, 2)


def test_a_batch_holds_its_items_and_every_page_that_it_has_a_part_of():
    def page(values: int, unpacked: int) -> Page:
        return Page(is_dictionary=False, unpacked=unpacked, values=values, is_prefixed=False, start=0, packed=0)

    starts = np.array([0, 2, 4, 10], np.int64)
    whole = [page(4, 100), page(6, 1000)]
    assert [widest_batch(starts, whole, 1, rows) for rows in (1, 2, 3)] == [1006, 1006, 1110]
    across = [page(3, 100), page(7, 1000)]
    assert [widest_batch(starts, across, 1, rows) for rows in (1, 2, 3)] == [1102, 1104, 1110]
    assert widest_batch(starts, [page(4, 5000), page(6, 1000)], 1, 1) == 5002


@pytest.mark.scenario("L66")
def test_lists_whose_levels_would_be_too_many_to_look_at_are_refused():
    def chunk(unpacked: int) -> Chunk:
        page = Page(is_dictionary=False, unpacked=unpacked, values=1000, is_prefixed=False, start=0, packed=0)
        return Chunk("x", 8, (page, page), deepest=1)

    with pytest.raises(TooLarge, match="would unpack from 3 to 20971520 bytes, in 7 rows"):
        list_rows(b"abc", chunk(10 << 20), 7, 7, 1000)
    with pytest.raises(TooLarge, match="would unpack from 3 to 2000 bytes, in 2000000 rows"):
        list_rows(b"abc", chunk(1000), 2_000_000, 1000, 1000)


@pytest.mark.parametrize(("is_prefixed", "rows"), [(False, 100), (True, 7)])
def test_a_value_that_repeats_the_one_before_it_may_be_as_large_as_its_page(is_prefixed, rows):
    levels = repeated(0, 100)
    page = Page(
        is_dictionary=False, unpacked=10_000, values=100, is_prefixed=is_prefixed, start=0, packed=0, levels=len(levels)
    )
    assert list_rows(levels, Chunk("x", None, (page,), deepest=1), 100, 100, 100_000) == rows


@pytest.mark.scenario("L66")
def test_a_long_text_that_a_dictionary_names_in_every_list_is_read_a_few_rows_at_a_time():
    rows, long = 5000, 100_000
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * long]))
    lists = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), texts)
    stream = io.BytesIO()
    pq.write_table(pa.table({"x": lists}), stream, compression="zstd", store_schema=False)
    assert 10 < rows_at_a_time(stream.getvalue(), pq.ParquetFile(stream)) <= (16 << 20) // long
