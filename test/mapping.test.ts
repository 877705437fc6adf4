/** Records to rows, and the hash over records. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isSluiceError } from '../src/errors.ts'
import type { SluiceError } from '../src/errors.ts'
import { fromJson } from '../src/formats/json.ts'
import { bronzeRows, bronzeSchemaFor, mappedRows, mappingDigest } from '../src/mapping.ts'
import type { KafkaRecord, Mapper } from '../src/mapping.ts'
import type { Header, RecordBatch } from '../src/ports.ts'
import { RecordHash } from '../src/record-hash.ts'
import { t } from '../src/schema.ts'
import type { RowBatch, Schema } from '../src/schema.ts'
import { rowsOf, rowBatchOf } from './support/row-batches.ts'

interface TestRecord {
  readonly offset?: bigint | undefined
  readonly timestamp?: bigint | undefined
  readonly key?: Uint8Array | null | undefined
  readonly value?: Uint8Array | null | undefined
  readonly headers?: readonly Header[] | null | undefined
}

const bytes = (text: string): Uint8Array => Buffer.from(text)

/** A batch of these records; offsets count from 10 where none is given. */
function batchOf(records: readonly TestRecord[], topic = 'orders'): RecordBatch {
  const at = (i: number): TestRecord => {
    const record = records[i]
    if (record === undefined) throw new Error(`there is no record ${i}`)
    return record
  }
  return {
    topic,
    partition: 3,
    length: records.length,
    timestampType: 1,
    offset: (i) => at(i).offset ?? BigInt(10 + i),
    timestamp: (i) => at(i).timestamp ?? 1_790_899_200_123n,
    key: (i) => at(i).key ?? null,
    value: (i) => at(i).value ?? null,
    headers: (i) => at(i).headers ?? null,
  }
}

function refusal(of: () => unknown): SluiceError {
  try {
    of()
  } catch (error) {
    if (isSluiceError(error)) return error
    throw error
  }
  throw new Error('nothing was refused')
}

describe('bronze rows', () => {
  it('K26 null, empty and bytes stay three things in keys and values', () => {
    const [none, empty, some] = [null, bytes(''), bytes('\0\xff')]
    const records = [none, empty, some].flatMap((key) => [none, empty, some].map((value) => ({ key, value })))
    const rows = rowsOf(bronzeSchemaFor(false), bronzeRows(false)(batchOf(records)))
    expect(rows.map(({ key, value }) => ({ key, value }))).toEqual(records)
  })

  it('have topic, partition, offset, timestamp in microseconds and its kind, exactly', () => {
    const rows = rowsOf(
      bronzeSchemaFor(false),
      bronzeRows(false)(batchOf([{ offset: 2n ** 53n + 1n }, { offset: 2n ** 63n - 1n, timestamp: -1n }], '__proto__'))
    )
    const common = { key: null, value: null, topic: '__proto__', partition: 3, timestampType: 1 }
    expect(rows).toEqual([
      { ...common, offset: 9007199254740993n, timestamp: 1_790_899_200_123_000n },
      { ...common, offset: 9223372036854775807n, timestamp: -1000n },
    ])
  })

  const headers = [
    { key: 'a', value: bytes('1') },
    { key: 'b', value: null },
    { key: 'a', value: bytes('') },
    { key: '10', value: bytes('x') },
    { key: '2', value: bytes('y') },
  ]

  it('with includeHeaders keep headers as an ordered list; null where there is none', () => {
    const schema = bronzeSchemaFor(true)
    expect(Object.keys(schema).at(-1)).toBe('headers')
    const rows = rowsOf(schema, bronzeRows(true)(batchOf([{ headers }, { headers: null }])))
    expect(rows.map((row) => row['headers'])).toEqual([headers, null])
  })

  it('without includeHeaders have no such column', () => {
    const rows = bronzeRows(false)(batchOf([{ headers }]))
    expect(Object.keys(bronzeSchemaFor(false))).not.toContain('headers')
    expect(rows.columns).toHaveLength(Object.keys(bronzeSchemaFor(false)).length)
  })

  it('of no record are no rows', () => expect(bronzeRows(true)(batchOf([]))).toMatchObject({ length: 0 }))

  const max = (2n ** 63n - 1n) / 1000n
  it.each([max, -max, 0n, -1n])('hold a timestamp of %d ms', (timestamp) => {
    const [row] = rowsOf(bronzeSchemaFor(false), bronzeRows(false)(batchOf([{ timestamp }])))
    expect(row?.['timestamp']).toBe(timestamp * 1000n)
  })

  it.each([max + 1n, -max - 1n, 1_790_899_200_123_000_000n])(
    'K28 a timestamp of %d ms is refused by its record',
    (ms) => {
      const records = [{}, { offset: 77n, timestamp: ms }]
      for (const toRows of [bronzeRows(false), mappedRows({ at: t.timestamp }, (r) => ({ at: r.timestamp }), false)]) {
        const error = refusal(() => toRows(batchOf(records)))
        expect(error).toMatchObject({
          name: 'KAFKA_MALFORMED_RECORD_TIMESTAMP',
          parameters: { topic: 'orders', partition: 3, offset: '77', timestamp: String(ms) },
        })
        expect(error.message).toMatch(new RegExp(`${ms} ms of orders-3 at offset 77`))
      }
    }
  )
})

describe('mapped rows', () => {
  const schema = { id: t.string.notNull(), offset: t.long }
  const run = (map: (record: KafkaRecord) => unknown, records: readonly TestRecord[] = [{}, {}, {}]): RowBatch =>
    mappedRows(schema, map as Mapper<Schema>, false)(batchOf(records)) // some return what no type allows

  it('come in schema order, whatever the order of the row', () => {
    const rows = run((r) => ({ offset: r.offset, id: `${r.topic}-${r.partition}` }))
    expect(rows).toEqual(
      rowBatchOf([
        ['orders-3', 'orders-3', 'orders-3'],
        [10n, 11n, 12n],
      ])
    )
  })

  it('are one, several or none for a record', () => {
    const several = [
      [],
      null,
      [
        { id: 'a', offset: 1n },
        { id: 'b', offset: 2n },
      ],
    ]
    let call = 0
    expect(run(() => several[call++])).toEqual(
      rowBatchOf([
        ['a', 'b'],
        [1n, 2n],
      ])
    )
    expect(run(() => null)).toEqual(rowBatchOf([[], []]))
  })

  it('have null for what a row leaves out, and nothing of what the schema does not have', () => {
    expect(run(() => ({ id: 'a', other: 1 }), [{}])).toEqual(rowBatchOf([['a'], [null]]))
  })

  it('see each record as Kafka holds it; headers only with includeHeaders', () => {
    const headers = [{ key: 'h', value: null }]
    const record = { offset: 5n, timestamp: 7n, key: bytes(''), value: null, headers }
    const seen: unknown[] = []
    const map: Mapper<Schema> = (r) => {
      seen.push({ ...r })
      return null
    }
    for (const includeHeaders of [false, true]) mappedRows(schema, map, includeHeaders)(batchOf([record]))
    const expected = { ...record, timestamp: 7000n, topic: 'orders', partition: 3, timestampType: 1 }
    expect(seen).toEqual([{ ...expected, headers: null }, expected])
  })

  it('may copy the record into the row', () => {
    const map = mappedRows(bronzeSchemaFor(true), (r) => ({ ...r }), true)
    const batch = batchOf([{ key: bytes('k'), headers: [] }, { value: bytes('v') }])
    const bronze = rowsOf(bronzeSchemaFor(true), bronzeRows(true)(batch))
    expect(rowsOf(bronzeSchemaFor(true), map(batch))).toEqual(bronze)
  })

  const failing: [string, (record: KafkaRecord) => unknown, string][] = [
    [
      'throws',
      () => {
        throw new Error('no such field')
      },
      'no such field',
    ],
    [
      'throws a text',
      () => {
        throw 'plain'
      },
      'plain',
    ],
    ['returns undefined', () => undefined, 'undefined'],
    ['returns a number', () => 5, 'number'],
    ['returns a text', () => 'row', 'string'],
    ['returns a promise', async () => ({ id: 'a', offset: 1n }), 'promise'],
    ['returns a list with null', () => [{ id: 'a', offset: 1n }, null], 'null'],
    ['returns a list with a number', () => [5], 'number'],
    ['returns a list of lists', () => [[{ id: 'a', offset: 1n }]], 'list'],
    ['returns a list of promises', () => [Promise.resolve({ id: 'a', offset: 1n })], 'promise'],
  ]
  it.each(failing)('of a mapping that %s are refused by the record', (_what, map, reason) => {
    const error = refusal(() => run((r) => (r.offset === 11n ? map(r) : null)))
    expect(error).toMatchObject({
      name: 'MAPPING_FAILED',
      retryable: false,
      parameters: { topic: 'orders', partition: 3, offset: '11' },
    })
    expect(error.message).toMatch(/on orders-3 at offset 11: .*return null for records to drop/)
    expect(error.message).toContain(reason)
  })

  it('of a mapping that meets a broken record in mode FAILFAST name the record', () => {
    const parse = fromJson({ id: t.string }, { mode: 'FAILFAST' })
    const error = refusal(() =>
      run(() => {
        parse(bytes('{"id":'))
        return null
      })
    )
    expect(error).toMatchObject({ name: 'MAPPING_FAILED', parameters: { topic: 'orders', partition: 3 } })
    expect(isSluiceError(error.cause, 'MALFORMED_RECORD_IN_PARSING')).toBe(true)
  })

  it('of a mapping that fails keep its own error as the cause', () => {
    const cause = new TypeError('x is not a function')
    const error = refusal(() =>
      run(() => {
        throw cause
      })
    )
    expect(error.cause).toBe(cause)
  })
})

describe('the hash over records', () => {
  const hashOf = (...batches: (readonly TestRecord[])[]): string => {
    const hash = new RecordHash()
    for (const batch of batches) hash.update(batchOf(batch))
    return hash.digest()
  }
  const h = (key: string, value: string | null = null): Header => ({ key, value: value === null ? null : bytes(value) })

  it.each<[string, TestRecord[], TestRecord[]]>([
    ['a null and an empty key', [{ key: null }], [{ key: bytes('') }]],
    ['a null and an empty value', [{ value: null }], [{ value: bytes('') }]],
    ['key and value changed places', [{ key: bytes('a') }], [{ value: bytes('a') }]],
    [
      'where key ends and value begins',
      [{ key: bytes('ab'), value: bytes('c') }],
      [{ key: bytes('a'), value: bytes('bc') }],
    ],
    ['another offset', [{ offset: 1n }], [{ offset: 2n }]],
    ['another timestamp', [{ timestamp: 1n }], [{ timestamp: 2n }]],
    ['no headers and an empty list', [{ headers: null }], [{ headers: [] }]],
    ['the order of headers', [{ headers: [h('a'), h('b')] }], [{ headers: [h('b'), h('a')] }]],
    ['a null and an empty header value', [{ headers: [h('a')] }], [{ headers: [h('a', '')] }]],
    ['where a header key ends', [{ headers: [h('ab', 'c')] }], [{ headers: [h('a', 'bc')] }]],
    ['one record less', [{}, {}], [{}]],
    [
      'a byte far inside of a large value',
      [{ value: Buffer.alloc(100_000) }],
      [{ value: Buffer.alloc(100_000).fill(1, 99_999) }],
    ],
  ])('tells %s apart', (_what, a, b) => {
    expect(hashOf(a)).toMatch(/^[0-9a-f]{64}$/)
    expect(hashOf(a)).not.toBe(hashOf(b))
  })

  // Lengths around those at which the hash's buffer is flushed or passed by.
  const anyBytes = fc.oneof(
    fc.uint8Array({ maxLength: 8 }),
    fc
      .constantFrom(16_383, 16_384, 16_385, 65_536)
      .chain((n) => fc.nat(255).map((fill) => new Uint8Array(n).fill(fill)))
  )
  const anyRecord: fc.Arbitrary<TestRecord> = fc.record({
    offset: fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
    timestamp: fc.bigInt({ min: -1n, max: 2n ** 62n }),
    key: fc.option(anyBytes),
    value: fc.option(anyBytes),
    headers: fc.option(
      fc.array(fc.record({ key: fc.string({ maxLength: 4 }), value: fc.option(anyBytes) }), { maxLength: 3 })
    ),
  })
  const anyRecords = fc.array(anyRecord, { maxLength: 8 })
  const canonical = (records: readonly TestRecord[]): string =>
    JSON.stringify(records, (_key, v: unknown) =>
      typeof v === 'bigint' ? `${v}n` : v instanceof Uint8Array ? Buffer.from(v).toString('hex') : v
    )

  it('differs for different records', () => {
    fc.assert(
      fc.property(anyRecords, anyRecords, (a, b) => {
        expect(hashOf(a) === hashOf(b)).toBe(canonical(a) === canonical(b))
      })
    )
  })

  it('differs where one field of one record does', () => {
    fc.assert(
      fc.property(
        anyRecords,
        fc.nat(),
        anyRecord,
        fc.constantFrom('offset', 'timestamp', 'key', 'value', 'headers'),
        (a, at, other, field) => {
          fc.pre(a.length > 0)
          const b = a.with(at % a.length, { ...a[at % a.length], [field]: other[field as keyof TestRecord] })
          expect(hashOf(a) === hashOf(b)).toBe(canonical(a) === canonical(b))
        }
      )
    )
  })

  it('is the same however the broker framed the records', () => {
    fc.assert(
      fc.property(anyRecords, fc.array(fc.nat(8), { maxLength: 4 }), (records, cuts) => {
        const bounds = [0, ...cuts.map((c) => Math.min(c, records.length)).toSorted((x, y) => x - y), records.length]
        const pieces = bounds.slice(1).map((end, i) => records.slice(bounds[i], end))
        expect(hashOf(...pieces)).toBe(hashOf(records))
      })
    )
  })

  it('counts the bytes of keys and values', () => {
    const hash = new RecordHash()
    hash.update(batchOf([{ key: bytes('ab'), value: Buffer.alloc(70_000), headers: [h('x', 'y')] }, {}]))
    expect(hash.bytes).toBe(70_002)
  })
})

describe('the digest of a mapping', () => {
  it('is that of its source text', () => {
    const one: Mapper<Schema> = (r) => ({ a: r.key })
    const same: Mapper<Schema> = (r) => ({ a: r.key })
    const other: Mapper<Schema> = (r) => ({ a: r.value })
    expect(mappingDigest(one)).toBe(mappingDigest(same))
    expect(new Set([one, other, null].map(mappingDigest)).size).toBe(3)
  })
})
