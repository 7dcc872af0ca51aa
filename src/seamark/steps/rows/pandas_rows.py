"""Arrow rows as pandas frames, each value as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """Rows as a pandas frame; whole numbers stay whole where some are NULL, and timestamps keep their zone.

    Inside arrays and structs, for which pandas has no types, whole numbers beside NULLs are Python ints and NULLs are
    None: as floats, large numbers would change.
    """
    import pandas as pd

    nullable = {pa.int8(): pd.Int8Dtype(), pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype()}
    nullable |= {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = rows.to_pandas(integer_object_nulls=True)
    for name in rows.column_names:
        column = rows.column(name)
        if column.null_count and column.type in nullable:
            frame[name] = pd.array(column.to_pylist(), dtype=nullable[column.type])
    return frame
