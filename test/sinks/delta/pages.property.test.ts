/** Our own pages against hyparquet-writer, which writes the same values in its straightforward way: one reader, the same rows. */
import * as fc from 'fast-check'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import { describe, expect, test } from 'vitest'
import { parseExact } from '../../../src/offsets.ts'
import { t } from '../../../src/schema.ts'
import type { ByteSpans, Field, RowBatch, Schema } from '../../../src/schema.ts'
import { decodeDataFiles } from '../../../src/sinks/delta/data-file.ts'
import { deltaPacked, PageBytes } from '../../../src/sinks/delta/page-bytes.ts'
import { parquetWriter } from '../../../src/sinks/delta/parquet.ts'
import { parquetSchemaOf } from '../../../src/sinks/delta/schema.ts'
import { FileStatistics } from '../../../src/sinks/delta/stats.ts'
import { freshStore, never, readParquet } from '../../support/delta-table.ts'

const int64 = fc.oneof(
  fc.bigInt({ min: -5n, max: 5n }),
  fc.bigInt({ min: 1_790_000_000_000_000n, max: 1_790_000_100_000_000n }),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
)
const bytes = fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ minLength: 300, maxLength: 400 }))
const text = fc.oneof(
  fc.constantFrom('', 'a', 'b'),
  fc.string({ maxLength: 60 }),
  fc.string({ unit: 'grapheme', maxLength: 30 }),
  fc.constantFrom('\ud800', 'x\udc00y', '\uffff', '\u{10ffff}', '\u007f\u0080')
)

const kinds = {
  string: { field: t.string, value: text },
  binary: { field: t.binary, value: bytes },
  int: { field: t.int, value: fc.oneof(fc.constant(7), fc.integer()) },
  date: { field: t.date, value: fc.integer({ min: -100_000, max: 100_000 }) },
  long: { field: t.long, value: int64 },
  timestamp: { field: t.timestamp, value: int64 },
  double: { field: t.double, value: fc.double() },
  boolean: { field: t.boolean, value: fc.boolean() },
  list: { field: t.array(t.int), value: fc.array(fc.integer(), { maxLength: 3 }) },
} as const satisfies Record<string, { field: Field<unknown>; value: fc.Arbitrary<unknown> }>

/** A column's values: a few repeated in turn, with nulls of a pattern, so that many rows cost little. */
const column = fc.constantFrom(...Object.keys(kinds)).chain((kind) =>
  fc.record({
    field: fc.constant(kinds[kind as keyof typeof kinds].field as Field<unknown>),
    nullable: fc.boolean(),
    values: fc.array(kinds[kind as keyof typeof kinds].value as fc.Arbitrary<unknown>, { minLength: 1, maxLength: 12 }),
    /** Every so many-th row is null; 0 for none. */
    nulls: fc.constantFrom(0, 0, 1, 2, 9, 1500),
    /** Texts get the row's number, so that they do not repeat. */
    isUnique: fc.boolean(),
    isTyped: fc.boolean(),
  })
)
type Column = typeof column extends fc.Arbitrary<infer T> ? T : never

function valuesOf({ field, nullable, values, nulls, isUnique }: Column, rows: number): unknown[] {
  return Array.from({ length: rows }, (_, i) => {
    if (nullable && nulls > 0 && i % nulls === nulls - 1) return null
    const value = values[(i * 7) % values.length]
    return isUnique && field.type.kind === 'string' ? `${String(value)}${i}` : value
  })
}

/** The batch in the form that a fast reader has: bytes as places in one buffer, numbers in typed arrays. */
function packed(columns: readonly Column[], values: readonly unknown[][], rows: number): RowBatch {
  const forms = columns.map(({ field, isTyped }, i) => {
    const own = values[i] ?? []
    if (!isTyped || own.includes(null)) return field.type.kind === 'binary' && isTyped ? spansOf(own) : own
    switch (field.type.kind) {
      case 'binary':
        return spansOf(own)
      case 'int':
        return Int32Array.from(own as number[])
      case 'long':
      case 'timestamp':
        return BigInt64Array.from(own as bigint[])
      default:
        return own
    }
  })
  return { length: rows, columns: values, packed: forms }
}

function spansOf(values: readonly unknown[]): ByteSpans {
  const all = values as readonly (Uint8Array | null)[]
  const cells = new Int32Array(3 * all.length + 1)
  let at = 5
  for (const [i, one] of all.entries()) {
    cells.set([at, one === null ? -1 : one.length], 3 * i + 1)
    at += one?.length ?? 0
  }
  return {
    bytes: Buffer.concat([Buffer.alloc(5), ...all.map((one) => one ?? new Uint8Array())]),
    cells,
    first: 1,
    stride: 3,
    length: all.length,
  }
}

async function ours(schema: Schema, batches: readonly RowBatch[]) {
  const store = await freshStore()
  const writer = parquetWriter({ store, key: 'f', schema, clock: { now: () => 0 } }, never)
  for (const batch of batches) await writer.write(batch)
  const { detail } = await writer.commit()
  const body = await store.get('f', never)
  return { rows: body === null ? [] : await readParquet(body), stats: decodeDataFiles(detail)[0]?.stats }
}

async function straightforward(schema: Schema, values: readonly unknown[][], rows: number) {
  const stats = new FileStatistics(schema)
  const wellFormed = values.map((all) => all.map((one) => (typeof one === 'string' ? one.toWellFormed() : one)))
  stats.add(rows, wellFormed)
  const writer = new ByteWriter()
  const parquet = new ParquetWriter({ writer, schema: parquetSchemaOf(schema), codec: 'UNCOMPRESSED' })
  const columnData = Object.keys(schema).map((name, i) => ({
    name,
    data: wellFormed[i] ?? [],
    encoding: 'PLAIN' as const,
  }))
  await parquet.write({ columnData, rowGroupSize: 1_000_000 })
  await parquet.finish()
  return { rows: await readParquet(writer.getBytes()), stats: stats.toJson() }
}

const plainStats = (json: string | undefined) => {
  const stats = parseExact(json ?? '') as Record<string, unknown>
  return JSON.stringify(stats, (_key, value: unknown) =>
    typeof value === 'bigint' ? String(value) : Object.is(value, -0) ? 0 : value
  )
}

test(
  'random columns of every type, nulls and forms are read back as hyparquet-writer wrote them',
  { timeout: 120_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(column, { minLength: 1, maxLength: 5 }),
        fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1000, max: 3000 })),
        fc.integer({ min: 1, max: 4 }),
        async (columns, rows, batches) => {
          const schema = Object.fromEntries(columns.map((c, i) => [`c${i}`, c.nullable ? c.field : c.field.notNull()]))
          const all = columns.map((c) => valuesOf(c, rows * batches))
          const split = Array.from({ length: batches }, (_, n) => {
            const part = all.map((values) => values.slice(n * rows, (n + 1) * rows))
            return packed(columns, part, rows)
          })
          const [written, wanted] = [await ours(schema, split), await straightforward(schema, all, rows * batches)]
          expect(written.rows).toEqual(wanted.rows)
          expect(plainStats(written.stats)).toBe(plainStats(wanted.stats))
        }
      ),
      { numRuns: 150 }
    )
  }
)

const many = (n: number, of: (i: number) => string | null) => Array.from({ length: n }, (_, i) => of(i))

describe('texts', () => {
  const readBack = async (texts: readonly (string | null)[]) => {
    const { rows } = await ours({ s: t.string }, [{ length: texts.length, columns: [texts] }])
    return rows.map((row) => row['s'] ?? null)
  }

  test.for<[string, (string | null)[]]>([
    [
      'that repeat at first and then do not: the dictionary ends where it is full',
      many(90_000, (i) => (i % 11 === 0 ? null : i < 2000 ? `t${i % 3}` : `text ${i}`)),
    ],
    ['that are too long for a dictionary', many(3000, (i) => (i < 1100 ? `t${i % 3}` : `${i}`.padEnd(900, 'x')))],
    [
      'that do not repeat at first and then do',
      many(5000, (i) => (i % 5 === 0 ? null : i < 1500 ? `text ${i}` : 'same')),
    ],
    ['longer than a page', ['a', 'é'.repeat(2 ** 20), 'b', 'x'.repeat(2 ** 21), null, 'c']],
    ['of which few are long', many(1500, (i) => `${i} `.repeat(i % 700 === 1 ? 200_000 : 1))],
  ])('%s', async ([, texts]) => expect(await readBack(texts)).toEqual(texts))

  test('of one value take no room', async () => {
    const store = await freshStore()
    const writer = parquetWriter({ store, key: 'f', schema: { s: t.string, i: t.int }, clock: { now: () => 0 } }, never)
    await writer.write({ length: 50_000, columns: [many(50_000, () => 'topic'), new Int32Array(50_000).fill(3)] })
    expect((await writer.commit()).bytes).toBeLessThan(1000)
  })
})

describe('bytes', () => {
  test('longer than a page, alone and among others', async () => {
    const all = [
      Buffer.alloc(3),
      Buffer.alloc(2 ** 21, 1),
      null,
      Buffer.alloc(900_000, 2),
      Buffer.alloc(900_000, 3),
      Buffer.alloc(0),
    ]
    const { rows } = await ours({ b: t.binary }, [{ length: all.length, columns: [all] }])
    const plain = all.map((one) => (one === null ? null : new Uint8Array(one)))
    expect(rows.map((row) => row['b'] ?? null)).toEqual(plain)
  })
})

/** Reads the delta form by the specification, with bigints. */
function unpacked(page: Uint8Array): bigint[] {
  let at = 0
  const varint = (): bigint => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = page[at++] ?? 0
      value |= BigInt(byte & 127) << shift
      if (byte < 128) return value
    }
  }
  const zigzag = (): bigint => {
    const raw = varint()
    return (raw >> 1n) ^ -(raw & 1n)
  }
  const [block, miniblocks, count] = [Number(varint()), Number(varint()), Number(varint())]
  const values = [zigzag()]
  while (values.length < count) {
    const least = zigzag()
    const widths = [...page.subarray(at, (at += miniblocks))]
    for (const width of widths) {
      const bits = [...page.subarray(at, at + (width * block) / miniblocks / 8)].map((byte) => BigInt(byte))
      const needed = values.length < count
      if (needed) at += bits.length
      const all = bits.reduce((sum, byte, i) => sum | (byte << BigInt(8 * i)), 0n)
      for (let k = 0; k < block / miniblocks && values.length < count; k++)
        values.push((values.at(-1) ?? 0n) + least + ((all >> BigInt(k * width)) & ((1n << BigInt(width)) - 1n)))
    }
  }
  if (at !== page.length) throw new Error(`${page.length - at} bytes are left`)
  return values
}

describe('differences of whole numbers', () => {
  test('are packed as the format says, or left alone', () => {
    const steps = fc.oneof(
      fc.bigInt({ min: 0n, max: 1n }),
      fc.bigInt({ min: -3n, max: 1000n }),
      fc.bigInt({ min: -(2n ** 31n), max: 2n ** 31n }),
      fc.bigInt({ min: -(2n ** 52n), max: 2n ** 52n })
    )
    fc.assert(
      fc.property(int64, fc.array(fc.array(steps, { maxLength: 150 }), { maxLength: 4 }), (first, blocks) => {
        const values = [first]
        for (const step of blocks.flat()) values.push(BigInt.asIntN(64, (values.at(-1) ?? 0n) + step))
        const page = deltaPacked(BigInt64Array.from(values), values.length)
        const differences = values.slice(1).map((value, i) => value - (values[i] ?? 0n))
        const isTooLarge = differences.some((d) => d >= 2n ** 51n || d <= -(2n ** 51n))
        const least = differences.reduce((a, b) => (a < b ? a : b), 0n)
        const isWide = differences.some((d) => d - least >= 2n ** 32n)
        expect(page === null ? (isTooLarge || isWide ? values : null) : unpacked(page.content)).toEqual(values)
      }),
      { numRuns: 300 }
    )
  })

  test('of consecutive numbers take five bytes for 128', () => {
    const page = deltaPacked(
      BigInt64Array.from({ length: 12_801 }, (_, i) => 2n ** 50n + BigInt(i)),
      12_801
    )
    expect(page?.content.length).toBeLessThan(520)
  })

  test('bits of every width come out as they went in', () => {
    for (let width = 1; width <= 32; width++) {
      const values = Int32Array.from({ length: 40 }, (_, i) =>
        width === 32 ? i * 99_999_989 : (i * 99_999_989) % 2 ** width
      )
      const page = new PageBytes()
      page.bits(values, 3, 37, 40, width)
      const all = [...page.content].reduce((sum, byte, i) => sum | (BigInt(byte) << BigInt(8 * i)), 0n)
      const found = Array.from({ length: 40 }, (_, i) =>
        Number(BigInt.asIntN(32, (all >> BigInt(i * width)) & ((1n << BigInt(width)) - 1n)))
      )
      expect(found).toEqual([...values.slice(3, 37), 0, 0, 0, 0, 0, 0])
    }
  })
})
