"""Prints the rows of a Parquet file twice, as one JSON line each: as pyarrow reads them and as DuckDB does.

Arguments: the file, and the columns by commas. Bytes are base64, 64-bit numbers and timestamps (microseconds) digits.
"""

import base64
import json
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq


def plain(value):
    """The JSON form of a value."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


file, columns = sys.argv[1], sys.argv[2].split(",")
table = pq.read_table(file, columns=columns)
kinds = {name: table.schema.field(name).type for name in columns}
exact = {name for name, kind in kinds.items() if pa.types.is_int64(kind) or pa.types.is_timestamp(kind)}


def column(name):
    """A column by pyarrow; timestamps by their number."""
    values = table[name].cast(pa.int64()) if pa.types.is_timestamp(kinds[name]) else table[name]
    return [None if v is None else str(v) if name in exact else plain(v) for v in values.to_pylist()]


def expression(name):
    """The same in DuckDB's words."""
    if pa.types.is_timestamp(kinds[name]):
        return f'epoch_us("{name}")::varchar'
    return f'"{name}"::varchar' if name in exact else f'"{name}"'


duck = duckdb.sql(f"select {', '.join(map(expression, columns))} from '{file}'").fetchall()
print(json.dumps([dict(zip(columns, row)) for row in zip(*map(column, columns))]))
print(json.dumps([dict(zip(columns, map(plain, row))) for row in duck]))
