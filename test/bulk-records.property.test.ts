/** Records in bulk are the records one by one: in the decoder, as bronze rows, in the hash, and in a Delta file. */
import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeRecords } from '../src/kafka/record-batch.ts'
import { bronzeRows, bronzeSchemaFor } from '../src/mapping.ts'
import { MAX_INT64 } from '../src/offsets.ts'
import type { RecordBatch } from '../src/ports.ts'
import { RecordHash } from '../src/record-hash.ts'
import { viewsOf } from '../src/schema.ts'
import { parquetWriter } from '../src/sinks/delta/parquet.ts'
import { plainContext } from './support/decoded-records.ts'
import { freshStore, never, readParquet } from './support/delta-table.ts'
import { codecNames, encodeBatch } from './support/record-batch-encoder.ts'
import type { TestRecord } from './support/record-batch-encoder.ts'
import { rowsOf } from './support/row-batches.ts'

const bytesOrNull = fc.option(
  fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.integer({ min: 16_380, max: 16_390 }).map((n) => new Uint8Array(n).fill(n))
  ),
  { freq: 4 }
)
const milliseconds = fc.oneof(
  fc.bigInt({ min: 1_790_899_200_000n, max: 1_790_899_300_000n }),
  fc.bigInt({ min: -5n, max: 5n }),
  fc.bigInt({ min: 2n ** 42n - 3n, max: 2n ** 42n + 3n }),
  fc.bigInt({ min: -(2n ** 53n), max: 2n ** 53n })
)
const record = fc.record({
  key: bytesOrNull,
  value: bytesOrNull,
  headers: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    { weight: 1, arbitrary: fc.array(fc.tuple(fc.string(), bytesOrNull), { maxLength: 3 }) }
  ),
  timestamp: milliseconds,
  hole: fc.nat({ max: 2 }),
})
const wireBatch = fc.record({
  records: fc.array(record, { minLength: 1, maxLength: 10 }),
  codec: fc.constantFrom(...codecNames),
  baseOffset: fc.oneof(
    fc.constant(0n),
    fc.bigInt({ min: 2n ** 52n - 5n, max: 2n ** 52n + 5n }),
    fc.bigInt({ min: 0n, max: 2n ** 63n - 100n })
  ),
  logAppendTime: fc.option(milliseconds, { freq: 3, nil: undefined }),
  skip: fc.nat({ max: 3 }),
})

/** Batches as the decoder gives them, the first records of each left out. */
function decoded({
  records,
  codec,
  baseOffset,
  logAppendTime,
  skip,
}: typeof wireBatch extends fc.Arbitrary<infer T> ? T : never): RecordBatch[] {
  let delta = -1
  const placed: TestRecord[] = records.map((r) => ({ ...r, delta: (delta += 1 + r.hole) }))
  const bytes = encodeBatch({
    baseOffset,
    records: placed,
    codec,
    ...(logAppendTime !== undefined && { logAppendTime }),
  })
  return [...decodeRecords(bytes, { from: baseOffset + BigInt(Math.min(skip, delta)), until: MAX_INT64 }, plainContext)]
}

/** The same batch without its bulk form. */
const oneByOne = (batch: RecordBatch): RecordBatch => ({
  topic: batch.topic,
  partition: batch.partition,
  length: batch.length,
  timestampType: batch.timestampType,
  offset: (i) => batch.offset(i),
  timestamp: (i) => batch.timestamp(i),
  key: (i) => batch.key(i),
  value: (i) => batch.value(i),
  headers: (i) => batch.headers(i),
})

const each = <T>(batch: RecordBatch, of: (i: number) => T): T[] => Array.from({ length: batch.length }, (_, i) => of(i))

test('the decoder gives the same records in bulk', () => {
  fc.assert(
    fc.property(wireBatch, (wire) => {
      for (const batch of decoded(wire)) {
        const { bulk } = batch
        if (bulk === undefined) throw new Error('there is no bulk form')
        expect([...bulk.offsets].slice(0, batch.length)).toEqual(each(batch, (i) => batch.offset(i)))
        expect([...bulk.timestamps].slice(0, batch.length)).toEqual(each(batch, (i) => batch.timestamp(i)))
        expect(viewsOf(bulk.keys)).toEqual(each(batch, (i) => batch.key(i)))
        expect(viewsOf(bulk.values)).toEqual(each(batch, (i) => batch.value(i)))
        expect(bulk.hasHeaders).toBe(each(batch, (i) => batch.headers(i)).some((headers) => headers !== null))
      }
    }),
    { numRuns: 500 }
  )
})

/** What the work gives, or what it is refused with. */
function outcome<T>(work: () => T): T | string {
  try {
    return work()
  } catch (error) {
    return String(error)
  }
}

test('bronze rows are the same, refused timestamps too', () => {
  fc.assert(
    fc.property(wireBatch, fc.boolean(), (wire, includeHeaders) => {
      const schema = bronzeSchemaFor(includeHeaders)
      for (const batch of decoded(wire)) {
        const seen = (one: RecordBatch) =>
          outcome(() => {
            const rows = bronzeRows(includeHeaders)(one)
            return { rows: rowsOf(schema, rows), lengths: rows.columns.map((column) => column.length) }
          })
        expect(seen(batch)).toEqual(seen(oneByOne(batch)))
      }
    }),
    { numRuns: 500 }
  )
})

test('one maker of bronze rows serves batches of several partitions and lengths', () => {
  const toRows = bronzeRows(false)
  const batch = (length: number, partition: number): RecordBatch => {
    const records = Array.from({ length }, () => ({ key: null, value: null, headers: [], timestamp: 1n, hole: 0 }))
    const [one] = decoded({ records, codec: 'none', baseOffset: 7n, logAppendTime: undefined, skip: 0 })
    if (one === undefined) throw new Error('there is no batch')
    return Object.assign(oneByOne(one), { partition, bulk: one.bulk })
  }
  for (const [records, partition] of [
    [3, 1],
    [2, 1],
    [5, 1],
    [2, 2],
    [1, 1],
  ] as const) {
    const rows = rowsOf(bronzeSchemaFor(false), toRows(batch(records, partition)))
    expect(rows.map((row) => [row['topic'], row['partition'], row['offset']])).toEqual(
      Array.from({ length: records }, (_, i) => ['orders', partition, 7n + BigInt(i)])
    )
  }
})

/** The hash by its definition: one byte string after the other, and SHA-256 over all. */
function definedHash(batches: readonly RecordBatch[]): string {
  const parts: Buffer[] = []
  const number = (bytes: number, value: bigint) => {
    const buffer = Buffer.alloc(bytes)
    if (bytes === 8) buffer.writeBigInt64BE(value)
    else buffer.writeInt32BE(Number(value))
    parts.push(buffer)
  }
  const sized = (bytes: Uint8Array | null) => {
    number(4, BigInt(bytes?.length ?? -1))
    parts.push(Buffer.from(bytes ?? []))
  }
  for (const batch of batches)
    for (let i = 0; i < batch.length; i++) {
      number(8, batch.offset(i))
      number(8, batch.timestamp(i))
      sized(batch.key(i))
      sized(batch.value(i))
      const headers = batch.headers(i)
      number(4, BigInt(headers?.length ?? -1))
      for (const { key, value } of headers ?? []) {
        sized(Buffer.from(key))
        sized(value)
      }
    }
  return createHash('sha256').update(Buffer.concat(parts)).digest('hex')
}

test('the hash is that of the definition, in bulk and one by one', () => {
  fc.assert(
    fc.property(fc.array(wireBatch, { maxLength: 8 }), (wires) => {
      const batches = wires.flatMap(decoded)
      const hashOf = (all: readonly RecordBatch[]) => {
        const hash = new RecordHash()
        for (const batch of all) hash.update(batch)
        return { digest: hash.digest(), bytes: hash.bytes }
      }
      const bytes = batches.flatMap((b) => each(b, (i) => (b.key(i)?.length ?? 0) + (b.value(i)?.length ?? 0)))
      const wanted = { digest: definedHash(batches), bytes: bytes.reduce((sum, n) => sum + n, 0) }
      expect(hashOf(batches)).toEqual(wanted)
      expect(hashOf(batches.map(oneByOne))).toEqual(wanted)
    }),
    { numRuns: 200 }
  )
})

/** Milliseconds that a Date of JavaScript can hold. */
const MAX_DATE = 8_640_000_000_000_000n

test('a Delta file holds what the records hold', async () => {
  const wires = fc.array(wireBatch, { minLength: 1, maxLength: 6 })
  await fc.assert(
    fc.asyncProperty(wires, fc.boolean(), async (all, includeHeaders) => {
      const batches = all
        .flatMap(decoded)
        .filter((b) => each(b, (i) => b.timestamp(i)).every((ms) => ms <= MAX_DATE && ms >= -MAX_DATE))
      fc.pre(batches.length > 0)
      const schema = bronzeSchemaFor(includeHeaders)
      const store = await freshStore()
      const writer = parquetWriter({ store, key: 'f', schema, clock: { now: () => 0 } }, never)
      const toRows = bronzeRows(includeHeaders)
      for (const batch of batches) await writer.write(toRows(batch))
      await writer.commit()
      const rows = await readParquet((await store.get('f', never)) ?? new Uint8Array())
      const plain = (bytes: Uint8Array | null) => (bytes === null ? null : new Uint8Array(bytes))
      const wanted = batches.flatMap((b) =>
        each(b, (i) => ({
          key: plain(b.key(i)),
          value: plain(b.value(i)),
          topic: b.topic,
          partition: b.partition,
          offset: b.offset(i),
          timestamp: b.timestamp(i) * 1000n,
          timestampType: b.timestampType,
          ...(includeHeaders && {
            headers: b.headers(i)?.map(({ key, value }) => ({ key, value: plain(value) })) ?? null,
          }),
        }))
      )
      // The reader has dates for timestamps, and undefined for a list that is null.
      const micros = rows.map(({ timestamp, headers, ...row }) => ({
        ...row,
        timestamp: timestamp instanceof Date ? BigInt(timestamp.getTime()) * 1000n : timestamp,
        ...(includeHeaders && { headers: headers ?? null }),
      }))
      expect(micros).toEqual(wanted)
    }),
    { numRuns: 60 }
  )
})
