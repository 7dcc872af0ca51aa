"""Whether two slices hold the same records: their logical hash does not say everything about NULLs.

The hash writes a NULL as one zero byte, in the row of values that it makes of a column, so that `[NULL, 1]` and
`[256, NULL]` are the same to it. Where the NULLs are, at every depth, is what it does not say: two slices with equal
hashes and NULLs in the same places hold the same values, bit by bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

from seamark.ledger.verify.files import FileBytes
from seamark.ledger.verify.unpacking import check_footer, rows_at_a_time


def places_of_nulls(path: Path) -> str:
    """A digest of where the NULLs of a slice are, at every depth; raises what a strange file makes of its reader."""
    digests: dict[str, hashlib._Hash] = {}
    with path.open("rb") as opened:
        data = FileBytes(opened, path.stat().st_size)
        check_footer(data)
        file = pq.ParquetFile(path)
        for batch in file.iter_batches(rows_at_a_time(data, file), use_threads=False):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                for depth, valid in enumerate(_validity(column)):
                    place = f"{name}\0{depth}"
                    digests.setdefault(place, hashlib.sha3_256()).update(valid.tobytes())
    whole = hashlib.sha3_256()
    for place, digest in sorted(digests.items()):
        whole.update(place.encode() + digest.digest())
    return whole.hexdigest()


def _validity(array: pa.Array) -> Iterator[np.ndarray]:
    """For each value, and for each one inside it, a byte that says whether it is there."""
    yield np.asarray(array.is_valid()).astype(np.uint8)
    if pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _validity(child)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        yield from _validity(array.flatten())
