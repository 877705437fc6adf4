import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { t } from '../../src/schema.ts'
import type { Schema } from '../../src/schema.ts'
import { readDelta, readersPython } from '../support/delta-reader.ts'
import {
  append,
  batchOf,
  freshStore,
  idsIn,
  logFiles,
  never,
  openSink,
  range,
  stage,
  tableAt,
  versionName,
} from '../support/delta-table.ts'

const run = promisify(execFile)

/** Runs Python with delta-rs, pyarrow and duckdb; what it prints is JSON. */
async function python<T>(code: string, ...args: string[]): Promise<T> {
  const { stdout } = await run(readersPython, ['-c', code, ...args])
  return JSON.parse(stdout) as T
}

const idsOf = async (uri: string): Promise<number[]> =>
  (await readDelta(uri)).rows.map((row) => Number(row['id'])).toSorted((a, b) => a - b)

const allTypes = {
  s: t.string,
  i: t.int.notNull(),
  l: t.long,
  d: t.double,
  b: t.boolean,
  bin: t.binary,
  ts: t.timestamp,
  dt: t.date,
  headers: t.array(t.struct({ key: t.string, value: t.binary })),
  st: t.struct({ x: t.int, y: t.string.notNull() }),
  nested: t.array(t.array(t.int)),
} as const satisfies Schema

const header = (key: string, value: string | null) => ({ key, value: value === null ? null : Buffer.from(value) })
const micros = 1_790_899_200_123_000n

const columns: readonly ArrayLike<unknown>[] = [
  ['a', '', null, '\u{1f600}\u0000\uff5e'],
  Int32Array.of(2 ** 31 - 1, -(2 ** 31), 0, 7),
  [9007199254740993n, 2n ** 63n - 1n, null, -(2n ** 63n)],
  [1.5, -0, null, NaN],
  [true, false, null, true],
  [Buffer.from([0, 255]), Buffer.alloc(0), null, Buffer.from('x')],
  [micros, micros + 456n, null, -1n],
  [0, 20_728, null, -1],
  [
    [header('a', '1'), header('b', '2'), header('a', '3'), header('10', 'x'), header('2', 'y')],
    [header('n', null), header('e', '')],
    null,
    [],
  ],
  [{ x: 1, y: 'q' }, { x: null, y: '' }, null, { x: 2, y: 'r' }],
  [[[1, null], null, []], [], null, [[2]]],
]

const base64 = (text: string) => Buffer.from(text).toString('base64')
const encoded = (key: string, value: string | null) => ({ key, value: value === null ? null : base64(value) })
const expectedRows = [
  {
    s: 'a',
    i: 2147483647,
    l: '9007199254740993',
    d: 1.5,
    b: true,
    bin: 'AP8=',
    ts: '1790899200123000',
    dt: '1970-01-01',
    headers: [encoded('a', '1'), encoded('b', '2'), encoded('a', '3'), encoded('10', 'x'), encoded('2', 'y')],
    st: { x: 1, y: 'q' },
    nested: [[1, null], null, []],
  },
  {
    s: '',
    i: -2147483648,
    l: '9223372036854775807',
    d: -0,
    b: false,
    bin: '',
    ts: '1790899200123456',
    dt: '2026-10-02',
    headers: [encoded('n', null), encoded('e', '')],
    st: { x: null, y: '' },
    nested: [],
  },
  { s: null, i: 0, l: null, d: null, b: null, bin: null, ts: null, dt: null, headers: null, st: null, nested: null },
  {
    s: '\u{1f600}\u0000\uff5e',
    i: 7,
    l: '-9223372036854775808',
    d: 'nan',
    b: true,
    bin: 'eA==',
    ts: '-1',
    dt: '1969-12-31',
    headers: [],
    st: { x: 2, y: 'r' },
    nested: [[2]],
  },
]

describe('rows as other readers see them', () => {
  test('B31 B41: delta-rs reads every value of every type, the schema and the last batch', async () => {
    const store = await freshStore()
    const sink = openSink(store, allTypes)
    await sink.commit(batchOf('q1', 0), [await stage(sink, batchOf('q1', 0), columns)], never)
    await sink.commit(batchOf('q1', 1), [], never)
    const table = await readDelta(store.root, { appId: 'q1' })
    expect(table).toMatchObject({ version: 1, transactionVersion: 1 })
    expect(table.rows).toEqual(expectedRows)
    expect(table.schema.fields.map((f) => [f.name, f.nullable])).toEqual(
      Object.entries(allTypes).map(([name, f]) => [name, f.nullable])
    )
    expect(table.history[0]).toMatchObject({ operation: 'STREAMING UPDATE' })
  })

  test('B31 B41: DuckDB and pyarrow read the data file to the same values', async () => {
    const store = await freshStore()
    const sink = openSink(store, allTypes)
    const { objects } = await stage(sink, batchOf('q1', 0), columns)
    const seen = await python<unknown[][]>(
      `
import sys, json, duckdb, pyarrow.parquet as pq, pyarrow as pa
file = sys.argv[1]
def plain(v):
    if isinstance(v, bytes): return v.hex()
    if isinstance(v, list): return [plain(x) for x in v]
    if isinstance(v, dict): return {k: plain(x) for k, x in v.items()}
    return v
table = pq.read_table(file)
arrow = [[str(r["l"]) if r["l"] is not None else None, r["s"], plain(r["bin"]), plain(r["headers"]), r["nested"]] for r in table.select(["l", "s", "bin", "headers", "nested"]).to_pylist()]
for row, us in zip(arrow, table.column("ts").cast(pa.int64()).to_pylist()): row.append(us)
duck = [[r[0], r[1], plain(r[2]), plain(r[3]), r[4], r[5]] for r in duckdb.sql(f"select l::varchar, s, bin, headers, nested, epoch_us(ts) from '{file}'").fetchall()]
print(json.dumps([arrow, duck]))
`,
      join(store.root, objects[0] ?? '')
    )
    const hex = (text: string | null) => (text === null ? null : Buffer.from(text, 'base64').toString('hex'))
    const wanted = expectedRows.map((row) => [
      row.l,
      row.s,
      hex(row.bin),
      row.headers?.map(({ key, value }) => ({ key, value: hex(value) })) ?? null,
      row.nested,
      row.ts === null ? null : Number(row.ts),
    ])
    expect(seen).toEqual([wanted, wanted])
  })

  test('many rows over several row groups and pages: DuckDB, pyarrow and delta-rs count them alike', async () => {
    const store = await freshStore()
    const headerType = t.struct({ key: t.string, value: t.binary })
    const schema = { l: t.long.notNull(), s: t.string, b: t.boolean, d: t.double, h: t.array(headerType) }
    const sink = openSink(store, schema)
    const n = 120_000
    const some = <T>(every: number, of: (i: number) => T) => range(0, n).map((i) => (i % every === 0 ? null : of(i)))
    const headers = (i: number) =>
      range(0, i % 3).map((k) => ({ key: `k${k}`, value: i % 4 === 0 ? null : Buffer.from(`value ${i}`) }))
    const message = await stage(sink, batchOf('q1', 0), [
      BigInt64Array.from(range(0, n), (i) => 2n ** 53n + BigInt(i)),
      some(7, (i) => `topic ${i % 5}`),
      some(5, (i) => i % 2 === 0),
      some(11, (i) => i / 4),
      some(4, headers),
    ])
    await sink.commit(batchOf('q1', 0), [message], never)
    const count = (keep: (i: number) => boolean) => range(0, n).filter(keep).length
    const sum = (of: (i: number) => number) => range(0, n).reduce((total, i) => total + of(i), 0)
    const wanted = [
      n,
      String(range(0, n).reduce((total, i) => total + 2n ** 53n + BigInt(i), 0n)),
      count((i) => i % 7 !== 0),
      count((i) => i % 7 !== 0 && i % 5 === 3),
      count((i) => i % 5 !== 0 && i % 2 === 0),
      sum((i) => (i % 11 === 0 ? 0 : i / 4)),
      count((i) => i % 4 !== 0),
      sum((i) => (i % 4 === 0 ? 0 : i % 3)),
      sum((i) => (i % 4 === 0 ? 0 : (i % 3) * `value ${i}`.length)),
    ]
    const seen = await python<unknown[]>(
      `
import sys, json, duckdb, pyarrow.parquet as pq
from deltalake import DeltaTable
table, file = sys.argv[1:]
query = ("select count(*), sum(l)::varchar, count(s), count(*) filter (s = 'topic 3'), count(*) filter (b), sum(d), count(h), "
  "sum(len(h)), sum(list_sum(list_transform(h, lambda x: octet_length(x.value)))) from ")
arrow = pq.read_table(file)
delta = DeltaTable(table).to_pyarrow_table()
results = [duckdb.sql(query + source).fetchall()[0] for source in (f"'{file}'", "arrow", "delta")]
print(json.dumps([[int(v) if i > 6 else v for i, v in enumerate(r)] for r in results] + [pq.ParquetFile(file).num_row_groups]))
`,
      store.root,
      join(store.root, message.objects[0] ?? '')
    )
    expect(seen).toEqual([wanted, wanted, wanted, 2])
  })

  test('statistics never hide a row from a filter', async () => {
    const store = await freshStore()
    const sink = openSink(store, { s: t.string, l: t.long, d: t.double, ts: t.timestamp, dt: t.date })
    const long = 'x'.repeat(40)
    const rows: readonly (readonly unknown[])[] = [
      ['a', 9007199254740993n, NaN, micros + 456n, 20_728],
      [long, 2n ** 63n - 1n, 1.5, micros, -1],
      [null, null, null, null, null],
    ]
    for (const [n, row] of rows.entries()) {
      const message = await stage(
        sink,
        batchOf('q1', n),
        row.map((value) => [value])
      )
      await sink.commit(batchOf('q1', n), [message], never)
    }
    const counts = await python<number[]>(
      `
import sys, json, datetime as dt
from deltalake import DeltaTable
t = DeltaTable(sys.argv[1])
us = lambda n: dt.datetime(2026, 10, 2, 0, 0, 0, n, tzinfo=dt.timezone.utc)
asked = [("s", "=", "x" * 40), ("s", ">", "x" * 39), ("l", "=", 9007199254740993), ("l", ">=", 2**63 - 1), ("d", "=", 1.5),
         ("ts", "=", us(123456)), ("ts", ">", us(123000)), ("ts", "<=", us(123000)), ("dt", "<", dt.date(1970, 1, 1))]
print(json.dumps([t.to_pyarrow_table(filters=[f]).num_rows for f in asked]))
`,
      store.root
    )
    expect(counts).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 1])
  })
})

const appendByDeltaRs = `
import sys, json, pyarrow as pa
from deltalake import write_deltalake
n = int(sys.argv[2])
write_deltalake(sys.argv[1], pa.table({"id": pa.array([n], pa.int64()), "name": pa.array(["rs"])},
  schema=pa.schema([pa.field("id", pa.int64(), nullable=sys.argv[3] == "new"), pa.field("name", pa.string())])), mode="append")
print("null")
`

describe('one table, two kinds of writers', () => {
  test('delta-rs appends after us, and we after it', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q1', 0))
    await python(appendByDeltaRs, store.root, '1000', 'ours')
    expect(await append(sink, batchOf('q1', 1))).toBe('committed')
    const table = await readDelta(store.root, { appId: 'q1' })
    expect(table).toMatchObject({ version: 2, transactionVersion: 1 })
    expect(await idsOf(store.root)).toEqual([...range(0, 20), 1000])
  })

  test('a table that delta-rs made is appended to', async () => {
    const store = await freshStore()
    await python(appendByDeltaRs, store.root, '1000', 'new')
    const sink = openSink(store)
    await sink.check('q1', { newest: null, committed: null }, never)
    await append(sink, batchOf('q1', 0))
    expect(await idsOf(store.root)).toEqual([...range(0, 10), 1000])
  })

  test('delta-rs writes while we write: every row is there once', async () => {
    const store = await freshStore()
    await append(openSink(store), batchOf('q1', 0))
    const rival = python(
      `
import sys
from deltalake import write_deltalake
import pyarrow as pa
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
for n in range(15):
  write_deltalake(sys.argv[1], pa.table({"id": [1000 + n], "name": ["rs"]}, schema=schema), mode="append")
print("null")
`,
      store.root
    )
    const state = { isWriting: true }
    const written = rival.finally(() => {
      state.isWriting = false
    })
    let newest = 0
    while (state.isWriting) await append(openSink(store), batchOf('q1', ++newest))
    await written
    expect(await readDelta(store.root, { appId: 'q1' })).toMatchObject({ transactionVersion: newest })
    expect(await idsOf(store.root)).toEqual([...range(0, (newest + 1) * 10), ...range(1000, 1015)])
    expect(await idsIn(store)).toEqual(await idsOf(store.root))
  })

  test('P15: delta-rs reads our checkpoint when the first commits are gone', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    for (const n of range(0, 12)) await append(sink, batchOf(n < 3 ? 'old' : 'q1', n))
    await sink.maintain(never)
    for (const v of range(0, 11)) await rm(join(store.root, versionName(v)))
    await append(sink, batchOf('q1', 12))
    expect(await readDelta(store.root, { appId: 'q1' })).toMatchObject({ version: 12, transactionVersion: 12 })
    expect(await readDelta(store.root, { appId: 'old' })).toMatchObject({ transactionVersion: 2 })
    expect(await idsOf(store.root)).toEqual(range(0, 130))
    await python(appendByDeltaRs, store.root, '1000', 'ours')
    expect(await append(sink, batchOf('q1', 13))).toBe('committed')
    expect(await idsOf(store.root)).toEqual([...range(0, 140), 1000])
  })

  test("we read delta-rs's checkpoint, its compaction and its clean-up", async () => {
    const store = await freshStore()
    const sink = openSink(store)
    for (const n of range(0, 5)) await append(sink, batchOf('q1', n))
    await python(
      `
import sys
from deltalake import DeltaTable
t = DeltaTable(sys.argv[1])
t.optimize.compact()
t.create_checkpoint()
print("null")
`,
      store.root
    )
    for (const v of range(0, 5)) await rm(join(store.root, versionName(v)))
    expect((await tableAt(store)).files.size).toBe(1)
    expect((await tableAt(store)).tombstones.size).toBe(5)
    expect(await append(sink, batchOf('q1', 4))).toBe('alreadyCommitted')
    for (const n of range(5, 16)) await append(sink, batchOf('q1', n))
    await sink.maintain(never)
    expect((await logFiles(store)).filter((name) => name.includes('.checkpoint.')).length).toBe(2)
    expect(await idsOf(store.root)).toEqual(range(0, 160))
    const removed = await python<string[]>(
      'import sys, json; from deltalake import DeltaTable; print(json.dumps(DeltaTable(sys.argv[1]).vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)))',
      store.root
    )
    expect(removed).toHaveLength(5)
  })
})
