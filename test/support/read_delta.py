"""Prints a Delta table as JSON lines, read by delta-rs: first the table itself, then one line a row.

Argument: a JSON object {"uri", "storageOptions", "version", "columns", "appId"}; all but the uri may be null. Without an
argument each line of the input is one, and its answer ends with an empty line; what fails answers {"error"}.
Binary is base64; int64 and decimals are strings of digits; timestamps are strings of microseconds since 1970; dates are
ISO strings; floats that JSON lacks are the strings nan, inf and -inf.
"""

import base64
import datetime
import json
import math
import os
import sys

import pyarrow as pa
from deltalake import DeltaTable


def encode(value, kind):
    """The JSON form of one value of an Arrow type."""
    if value is None:
        return None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [encode(item, kind.value_type) for item in value]
    if pa.types.is_map(kind):
        return [[encode(key, kind.key_type), encode(item, kind.item_type)] for key, item in value]
    if pa.types.is_struct(kind):
        return {field.name: encode(value[field.name], field.type) for field in kind}
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return base64.b64encode(value).decode("ascii")
    if pa.types.is_int64(kind) or pa.types.is_uint64(kind) or pa.types.is_decimal(kind):
        return str(value)
    if pa.types.is_floating(kind) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value


def columns_of(batch):
    """One list of JSON values for each column; timestamps by their number, since Python's have no exact one."""
    for column in batch.columns:
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
            yield [None if value is None else str(value) for value in micros.to_pylist()]
        else:
            yield [encode(value, column.type) for value in column.to_pylist()]


def answer(wanted):
    """Prints one table."""
    table = DeltaTable(wanted["uri"], version=wanted.get("version"), storage_options=wanted.get("storageOptions"))
    app_id = wanted.get("appId")
    about = {
        "version": table.version(),
        "transactionVersion": None if app_id is None else table.transaction_version(app_id),
        "schema": json.loads(table.schema().to_json()),
        "files": table.file_uris(),
        "history": table.history(),
    }
    print(json.dumps(about, default=str))
    data = table.to_pyarrow_dataset().to_table(columns=wanted.get("columns"))
    for batch in data.to_batches():
        for row in zip(*columns_of(batch)):
            sys.stdout.write(json.dumps(dict(zip(batch.schema.names, row))) + "\n")


if len(sys.argv) > 1:
    answer(json.loads(sys.argv[1]))
else:
    for line in sys.stdin:
        try:
            answer(json.loads(line))
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        print(flush=True)
sys.stdout.flush()
# The native libraries' threads can abort the interpreter's own orderly end.
os._exit(0)
