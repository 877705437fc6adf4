/** Files of our own pages, as large as they get in practice, against the same rows written plainly by hyparquet-writer. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import { expect, test } from 'vitest'
import { t } from '../../src/schema.ts'
import type { Schema } from '../../src/schema.ts'
import { parquetSchemaOf } from '../../src/sinks/delta/schema.ts'
import { readersPython } from '../support/delta-reader.ts'
import { batchOf, freshStore, never, openSink, stage } from '../support/delta-table.ts'

const run = promisify(execFile)

const schema = {
  key: t.binary,
  value: t.binary,
  topic: t.string.notNull(),
  few: t.string,
  turned: t.string,
  unique: t.string,
  none: t.string,
  partition: t.int,
  number: t.int,
  offset: t.long.notNull(),
  wild: t.long,
  at: t.timestamp,
  amount: t.double,
  day: t.date,
  flag: t.boolean,
  tags: t.array(t.string),
} as const satisfies Schema

const rows = 230_000

/** Numbers that look random and are the same each time. */
const mixed = (i: number): number => Math.imul(Math.imul(i ^ 0x9e3779b9, 0x85ebca6b) ^ (i >>> 13), 0xc2b2ae35)

const valueAt: { readonly [K in keyof typeof schema]: (i: number) => unknown } = {
  key: (i) => (i % 3 === 0 ? null : Buffer.from(`c${mixed(i) & 0xffff}`)),
  value: (i) => (i % 50_000 === 7 ? Buffer.alloc(1_300_000, i) : Buffer.from(`{"id":${i},"n":${mixed(i)}}`)),
  topic: () => 'orders',
  few: (i) => (i % 7 === 0 ? null : `état ${mixed(i) & 15}`),
  turned: (i) => (i < 130_000 ? `same ${i & 7}` : `row ${i}`),
  unique: (i) => (i % 1000 === 0 ? null : `order-${i}-${mixed(i).toString(16)}`),
  none: () => null,
  partition: () => 3,
  number: (i) => (i % 5 === 0 ? null : mixed(i)),
  offset: (i) => 2n ** 62n + BigInt(i + (i >> 9)),
  wild: (i) => (i % 11 === 0 ? null : (BigInt(mixed(i)) << 31n) ^ BigInt(mixed(i + 1))),
  at: (i) => (i % 100_000 > 60_000 ? null : 1_790_899_200_123_000n + BigInt((mixed(i) & 1023) * 1000)),
  amount: (i) => (i % 13 === 0 ? null : mixed(i) / 64),
  day: (i) => (i % 17 === 0 ? null : mixed(i) >> 16),
  flag: (i) => (i % 4 === 0 ? null : (mixed(i) & 1) === 1),
  tags: (i) => (i % 6 === 0 ? null : Array.from({ length: i % 3 }, (_, k) => `tag ${k}`)),
}

/** Every column of both files by pyarrow, as DuckDB sees it, and as delta-rs does; prints what differs. */
const comparison = `
import os, sys, json, duckdb, pyarrow.parquet as pq
from deltalake import DeltaTable
table, ours, plain = sys.argv[1:]
a, b = pq.read_table(ours), pq.read_table(plain)
delta = DeltaTable(table).to_pyarrow_table()
different = [n for n in a.schema.names if not a.column(n).equals(b.column(n))]
different += ["delta-rs " + n for n in a.schema.names if not delta.column(n).cast(b.column(n).type).equals(b.column(n))]
for name in a.schema.names:
    left, right = [f'''(select row_number() over () r, "{name}" as c from read_parquet('{f}'))''' for f in (ours, plain)]
    if duckdb.sql(f"select count(*) from {left} x join {right} y using (r) where x.c is distinct from y.c").fetchall()[0][0] != 0:
        different.append("DuckDB " + name)
    if duckdb.sql(f"select count(*) from read_parquet('{ours}')").fetchall()[0][0] != a.num_rows: different.append("DuckDB rows")
filters = [duckdb.sql(f'''select count(*) from read_parquet('{f}') where few = 'état 3' and number > 100 and turned >= 'same' and "at" is not null''').fetchall()[0][0] for f in (ours, plain)]
meta = pq.ParquetFile(ours).metadata
encodings = {meta.schema.column(i).path: sorted({e for g in range(meta.num_row_groups) for e in meta.row_group(g).column(i).encodings}) for i in range(meta.num_columns)}
print(json.dumps({"rows": [a.num_rows, b.num_rows, delta.num_rows], "different": different, "filters": filters, "groups": meta.num_row_groups, "encodings": encodings}), flush=True)
os._exit(0)
`

test(
  'B31 B41: pyarrow, DuckDB and delta-rs read our pages as those of another writer',
  { timeout: 120_000 },
  async () => {
    const store = await freshStore()
    const sink = openSink(store, schema)
    const columns = Object.values(valueAt).map((of) => Array.from({ length: rows }, (_, i) => of(i)))
    const message = await stage(sink, batchOf('q1', 0), columns)
    await sink.commit(batchOf('q1', 0), [message], never)
    const writer = new ByteWriter()
    const parquet = new ParquetWriter({ writer, schema: parquetSchemaOf(schema), codec: 'UNCOMPRESSED' })
    const columnData = Object.keys(schema).map((name, i) => ({
      name,
      data: columns[i] ?? [],
      encoding: 'PLAIN' as const,
    }))
    await parquet.write({ columnData, rowGroupSize: rows })
    await parquet.finish()
    const plain = join(store.root, '..', 'plain.parquet')
    await writeFile(plain, writer.getBytes())
    const ours = join(store.root, message.objects[0] ?? '')
    const { stdout } = await run(readersPython, ['-c', comparison, store.root, ours, plain])
    const seen = JSON.parse(stdout)
    expect(seen).toMatchObject({ rows: [rows, rows, rows], different: [], groups: 3 })
    expect(seen.filters[0]).toBe(seen.filters[1])
    expect(seen.filters[0]).toBeGreaterThan(0)
    expect(seen.encodings).toMatchObject({
      value: ['PLAIN'],
      topic: ['PLAIN', 'RLE_DICTIONARY'],
      turned: ['PLAIN', 'RLE_DICTIONARY'],
      offset: ['DELTA_BINARY_PACKED'],
      wild: ['PLAIN'],
    })
  }
)
