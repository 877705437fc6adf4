import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../src/errors.ts'
import { MAX_DECOMPRESSED_BYTES } from '../../src/kafka/codecs.ts'
import { decodeRecords } from '../../src/kafka/record-batch.ts'
import type { DecodeContext } from '../../src/kafka/record-batch.ts'
import { MAX_INT64 } from '../../src/offsets.ts'
import { decodeAll, offsetsOfRows, plainContext, textsOf } from '../support/decoded-records.ts'
import {
  DEFAULT_TIMESTAMP,
  codecNames,
  encodeBatch,
  encodeMarker,
  sealed,
  varint,
} from '../support/record-batch-encoder.ts'
import type { TestBatch, TestRecord } from '../support/record-batch-encoder.ts'

const values = (...texts: string[]): TestRecord[] => texts.map((value) => ({ value }))
const numbered = (n: number): TestRecord[] => Array.from({ length: n }, (_, i) => ({ value: `v${i}` }))
const batchAt = (baseOffset: bigint, records: readonly TestRecord[], more: Partial<TestBatch> = {}): Buffer =>
  encodeBatch({ baseOffset, records, ...more })
const transactional = (baseOffset: bigint, producerId: bigint, records: readonly TestRecord[]): Buffer =>
  batchAt(baseOffset, records, { producerId, transactional: true })

const offsetsFrom = (from: bigint, until: bigint): bigint[] =>
  Array.from({ length: Number(until - from) }, (_, i) => from + BigInt(i))

function refusal(run: () => unknown): SluiceError {
  try {
    run()
  } catch (e) {
    if (e instanceof SluiceError) return e
    throw e
  }
  throw new Error('nothing was refused')
}

describe('ranges', () => {
  test.each(codecNames)('B24 a %s batch that straddles two ranges gives each offset to one of them', (codec) => {
    const bytes = batchAt(0n, numbered(10), { codec })
    const ranges = [0n, 3n, 6n, 9n].map((from) => ({ from, until: from + 3n < 10n ? from + 3n : 10n }))
    const parts = ranges.map((range) => offsetsOfRows(decodeAll(bytes, range)))
    expect(parts).toEqual([[0n, 1n, 2n], [3n, 4n, 5n], [6n, 7n, 8n], [9n]])
    const halves = [decodeAll(bytes, { from: 0n, until: 5n }), decodeAll(bytes, { from: 5n, until: 10n })]
    expect(halves.flatMap(textsOf)).toEqual(numbered(10).map((r) => r.value))
  })

  test('the walk ends with the batch that reaches the end of the range', () => {
    const damaged = Buffer.from(batchAt(5n, values('late')))
    damaged[70] = 0xff
    const decoded = decodeAll(Buffer.concat([batchAt(0n, numbered(5)), damaged]), { until: 5n })
    expect([decoded.rows.length, decoded.end]).toEqual([5, { nextOffset: 5n, completeBatches: 1, cutOffBytes: null }])
  })

  test('a batch from beyond the range ends it: compaction took what was between', () => {
    const decoded = decodeAll(Buffer.concat([batchAt(0n, numbered(2)), batchAt(50n, numbered(2))]), { until: 10n })
    expect([offsetsOfRows(decoded), decoded.end.nextOffset]).toEqual([[0n, 1n], 50n])
  })

  test('batches before the asked-for offset are passed over, unless there are no others', () => {
    const early = batchAt(0n, numbered(2))
    const both = Buffer.concat([early, batchAt(2n, numbered(2))])
    expect(offsetsOfRows(decodeAll(both, { from: 3n }))).toEqual([3n])
    expect(refusal(() => decodeAll(early, { from: 3n }))).toMatchObject({
      name: 'CORRUPT_RECORD_BATCH',
      parameters: { topic: 'orders', partition: 3, offset: '3' },
    })
  })

  test('holes that compaction left inside a batch stay holes', () => {
    const bytes = batchAt(100n, [{ delta: 1 }, { delta: 4 }, { delta: 5 }], { lastOffsetDelta: 9 })
    expect(offsetsOfRows(decodeAll(bytes, { from: 100n }))).toEqual([101n, 104n, 105n])
    const hole = decodeAll(bytes, { from: 102n, until: 104n })
    expect([hole.rows, hole.lengths, hole.end.nextOffset]).toEqual([[], [], 110n])
  })

  test('a batch that compaction emptied advances the position', () => {
    const bytes = batchAt(7n, [], { lastOffsetDelta: 12, codec: 'gzip', compressed: Buffer.alloc(0) })
    expect(decodeAll(bytes, { from: 7n, until: 20n })).toMatchObject({ rows: [], end: { nextOffset: 20n } })
  })

  test('an empty range looks at nothing', () => {
    const end = { nextOffset: 5n, completeBatches: 0, cutOffBytes: null }
    expect(decodeAll(Buffer.from('rubbish'), { from: 5n, until: 5n })).toEqual({ rows: [], lengths: [], end })
  })

  test.each([9007199254740993n, 2n ** 62n + 1n, MAX_INT64 - 3n])('offsets are exact at %s', (base) => {
    const decoded = decodeAll(batchAt(base, values('a', 'b', 'c')), { from: base + 1n, until: MAX_INT64 })
    expect(offsetsOfRows(decoded)).toEqual([base + 1n, base + 2n])
    expect(decoded.end.nextOffset).toBe(base + 3n)
  })
})

describe('answers that the broker cut off', () => {
  const whole = batchAt(0n, numbered(3))
  const next = batchAt(3n, numbered(4))

  test.each([1, 11])('after %s bytes of the next batch its size is not known yet', (n) => {
    const { end, rows } = decodeAll(Buffer.concat([whole, next.subarray(0, n)]))
    expect([rows.length, end]).toEqual([3, { nextOffset: 3n, completeBatches: 1, cutOffBytes: 61 }])
  })

  test.each([12, 61, next.length - 1])('after %s bytes of the next batch its size is told', (n) => {
    const { end, rows } = decodeAll(Buffer.concat([whole, next.subarray(0, n)]))
    expect([rows.length, end]).toEqual([3, { nextOffset: 3n, completeBatches: 1, cutOffBytes: next.length }])
  })

  test('without one complete batch the caller can tell, and how many bytes it takes', () => {
    const { end } = decodeAll(next.subarray(0, 50), { from: 3n })
    expect(end).toEqual({ nextOffset: 3n, completeBatches: 0, cutOffBytes: next.length })
  })

  test('an empty answer is told from a cut-off one', () => {
    expect(decodeAll(Buffer.alloc(0)).end).toEqual({ nextOffset: 0n, completeBatches: 0, cutOffBytes: null })
  })
})

describe('records', () => {
  const record = (r: TestRecord) => decodeAll(batchAt(0n, [r])).rows[0]

  test('B31 null, empty and bytes stay three things in key and value', () => {
    const bytes = Buffer.from([0, 0xff])
    const pairs = [null, '', bytes].flatMap((key) => [null, '', bytes].map((value) => ({ key, value })))
    const rows = decodeAll(batchAt(0n, pairs)).rows.map(({ key, value }) => [key, value])
    const shown = [null, '', '00ff']
    expect(rows).toEqual(shown.flatMap((key) => shown.map((value) => [key, value])))
  })

  test('B31 headers keep their order, repeats and nulls; none at all is null', () => {
    const five = [
      ['a', '1'],
      ['b', '2'],
      ['a', '3'],
      ['10', 'x'],
      ['2', 'y'],
    ] as const
    expect(record({ headers: five })?.headers).toEqual([
      ['a', '31'],
      ['b', '32'],
      ['a', '33'],
      ['10', '78'],
      ['2', '79'],
    ])
    expect(
      record({
        headers: [
          ['n', null],
          ['e', ''],
          ['', 'ü'],
        ],
      })?.headers
    ).toEqual([
      ['n', null],
      ['e', ''],
      ['', 'c3bc'],
    ])
    expect(record({ headers: [] })?.headers).toBe(null)
  })

  test('header keys are UTF-8', () => {
    expect(record({ headers: [['ключ 世', 'x']] })?.headers?.[0]?.[0]).toBe('ключ 世')
  })

  test.each([0n, 1n, -1n, 2n ** 27n, -(2n ** 27n), 2n ** 31n, -(2n ** 31n) - 1n, 2n ** 33n, 2n ** 53n + 1n, 2n ** 62n])(
    'the timestamp is exact with a delta of %s',
    (delta) => {
      const timestamps = [DEFAULT_TIMESTAMP, DEFAULT_TIMESTAMP + delta]
      const decoded = decodeAll(
        batchAt(
          0n,
          timestamps.map((timestamp) => ({ timestamp }))
        )
      )
      expect(decoded.rows.map((r) => r.timestamp)).toEqual(timestamps)
    }
  )

  test('timestamps span all of int64', () => {
    const timestamps = [-(2n ** 63n), 2n ** 63n - 1n]
    for (const base of timestamps) {
      const decoded = decodeAll(batchAt(0n, [{ timestamp: base }, { timestamp: -1n }]))
      expect(decoded.rows.map((r) => r.timestamp)).toEqual([base, -1n])
    }
  })

  test('with LogAppendTime every record has the batch’s maximum', () => {
    const bytes = batchAt(0n, [{ timestamp: 5n }, { timestamp: 9n }], { logAppendTime: 1790899200123n })
    const walk = decodeRecords(bytes, { from: 0n, until: 2n }, plainContext).next()
    expect(walk.value).toMatchObject({ timestampType: 1 })
    expect(decodeAll(bytes).rows.map((r) => r.timestamp)).toEqual([1790899200123n, 1790899200123n])
    const created = decodeRecords(batchAt(0n, [{}]), { from: 0n, until: 2n }, plainContext).next()
    expect(created.value).toMatchObject({ timestampType: 0, topic: 'orders', partition: 3, length: 1, nextOffset: 1n })
  })

  test('keys and values of an uncompressed batch are views, not copies', () => {
    const bytes = batchAt(0n, values('abc'))
    const step = decodeRecords(bytes, { from: 0n, until: 1n }, plainContext).next()
    if (step.done === true) throw new Error('no batch')
    expect(step.value.value(0)?.buffer).toBe(bytes.buffer)
  })

  test('a row that does not exist is a fault of the caller', () => {
    const step = decodeRecords(batchAt(0n, values('a', 'b')), { from: 1n, until: 9n }, plainContext).next()
    if (step.done === true) throw new Error('no batch')
    const { value: batch } = step
    expect(() => batch.value(1)).toThrow(RangeError)
    expect(() => batch.offset(-1)).toThrow(RangeError)
  })

  test('a batch of 200,000 records comes out whole', () => {
    const payload = Buffer.concat(Array.from({ length: 200_000 }, (_, i) => tinyRecord(i)))
    const bytes = batchAt(10n, [], { payload, count: 200_000, lastOffsetDelta: 199_999, codec: 'zstd' })
    const step = decodeRecords(bytes, { from: 0n, until: MAX_INT64 }, plainContext).next()
    if (step.done === true) throw new Error('no batch')
    expect(step.value.length).toBe(200_000)
    expect([step.value.offset(199_999), step.value.value(199_999)]).toEqual([200_009n, Buffer.from([199_999 & 0xff])])
  })
})

/** Null key, a value of one byte, no headers. */
function tinyRecord(delta: number): Buffer {
  const fields = [Buffer.from([0, 0]), varint(delta), varint(-1), varint(1), Buffer.from([delta & 0xff]), varint(0)]
  const body = Buffer.concat(fields)
  return Buffer.concat([varint(body.length), body])
}

describe('transactions', () => {
  const committed = (aborted: DecodeContext['abortedTransactions'] = []): DecodeContext => ({
    ...plainContext,
    abortedTransactions: aborted,
  })
  const A = 11n
  const B = 12n
  const zeroKey = { key: Buffer.alloc(4), value: 'zero' }

  test('B20 the aborted records of interleaved transactions never come out, in any order of the list', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, values('a0', 'a1')),
      transactional(2n, B, values('b2')),
      encodeMarker(3n, B, 'abort'),
      transactional(4n, A, values('a4')),
      encodeMarker(5n, A, 'abort'),
      batchAt(6n, values('plain')),
    ])
    const list = [
      { producerId: B, firstOffset: 2n },
      { producerId: A, firstOffset: 0n },
    ]
    for (const aborted of [list, list.toReversed()]) {
      const decoded = decodeAll(bytes, { until: 7n }, committed(aborted))
      expect([textsOf(decoded), offsetsOfRows(decoded), decoded.end.nextOffset]).toEqual([['plain'], [6n], 7n])
    }
  })

  test('B20 aborted records with the key 00000000 are no markers', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, [zeroKey, zeroKey]),
      encodeMarker(2n, A, 'abort'),
      batchAt(3n, values('plain')),
    ])
    const decoded = decodeAll(bytes, {}, committed([{ producerId: A, firstOffset: 0n }]))
    expect(textsOf(decoded)).toEqual(['plain'])
  })

  test('B20 committed and plain records with the key 00000000 are delivered', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, [zeroKey]),
      encodeMarker(1n, A, 'commit'),
      batchAt(2n, [zeroKey]),
    ])
    expect(offsetsOfRows(decodeAll(bytes, {}, committed()))).toEqual([0n, 2n])
  })

  test('a producer’s transaction after its aborted one is delivered, and its next aborted one is not', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, values('aborted')),
      encodeMarker(1n, A, 'abort'),
      transactional(2n, A, values('committed')),
      encodeMarker(3n, A, 'commit'),
      transactional(4n, A, values('aborted')),
      encodeMarker(5n, A, 'abort'),
      transactional(6n, A, values('committed')),
    ])
    const aborted = [
      { producerId: A, firstOffset: 4n },
      { producerId: A, firstOffset: 0n },
    ]
    expect(offsetsOfRows(decodeAll(bytes, {}, committed(aborted)))).toEqual([2n, 6n])
  })

  test('a transaction that spreads over answers is dropped in each, wherever they are cut', () => {
    const batches = [
      transactional(0n, A, values('x')),
      transactional(1n, A, values('x')),
      batchAt(2n, values('plain')),
      transactional(3n, A, values('x')),
      encodeMarker(4n, A, 'abort'),
      transactional(5n, A, values('good')),
    ]
    const aborted = [{ producerId: A, firstOffset: 0n }]
    for (let cut = 0; cut <= batches.length; cut++) {
      const first = decodeAll(Buffer.concat(batches.slice(0, cut)), {}, committed(aborted))
      // The broker lists a transaction with every answer whose offsets it overlaps.
      const again = committed(first.end.nextOffset <= 4n ? aborted : [])
      const second = decodeAll(Buffer.concat(batches.slice(cut)), { from: first.end.nextOffset }, again)
      expect([...textsOf(first), ...textsOf(second)]).toEqual(['plain', 'good'])
    }
  })

  test('a commit marker of the same producer does not end its aborted transaction, other control records neither', () => {
    const control = { producerId: A, transactional: true, control: true }
    const bytes = Buffer.concat([
      transactional(0n, A, values('aborted')),
      encodeMarker(1n, A, 'commit'),
      batchAt(2n, [{ key: Buffer.from([0, 0, 0, 2]) }], control),
      batchAt(3n, [], control),
      transactional(4n, A, values('aborted')),
      encodeMarker(5n, B, 'abort'),
      transactional(6n, A, values('aborted')),
    ])
    const decoded = decodeAll(bytes, {}, committed([{ producerId: A, firstOffset: 0n }]))
    expect([decoded.rows, decoded.end.nextOffset]).toEqual([[], 7n])
  })

  test('records without the transactional bit are delivered inside an aborted transaction of their producer', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, values('aborted')),
      batchAt(1n, values('idempotent'), { producerId: A }),
    ])
    expect(textsOf(decodeAll(bytes, {}, committed([{ producerId: A, firstOffset: 0n }])))).toEqual(['idempotent'])
  })

  test('under read_uncommitted aborted records are visible, markers are not but take offsets', () => {
    const bytes = Buffer.concat([
      transactional(0n, A, values('a0', 'a1')),
      encodeMarker(2n, A, 'abort'),
      batchAt(3n, values('plain')),
      encodeMarker(4n, B, 'commit'),
    ])
    const context = { ...committed([{ producerId: A, firstOffset: 0n }]), isolationLevel: 'read_uncommitted' as const }
    const decoded = decodeAll(bytes, {}, context)
    expect([offsetsOfRows(decoded), decoded.end.nextOffset]).toEqual([[0n, 1n, 3n], 5n])
  })

  test('a range that consists of aborted records and markers has no rows and reaches its end', () => {
    const bytes = Buffer.concat([transactional(4n, A, values('x', 'y')), encodeMarker(6n, A, 'abort')])
    const decoded = decodeAll(bytes, { from: 4n, until: 7n }, committed([{ producerId: A, firstOffset: 4n }]))
    expect([decoded.rows, decoded.end]).toEqual([[], { nextOffset: 7n, completeBatches: 2, cutOffBytes: null }])
  })
})

describe('B28 codecs', () => {
  test('batches of every codec side by side in one answer all come out', () => {
    const bytes = Buffer.concat(codecNames.map((codec, i) => batchAt(BigInt(10 * i), numbered(10), { codec })))
    const decoded = decodeAll(bytes)
    expect(offsetsOfRows(decoded)).toEqual(offsetsFrom(0n, 10n * BigInt(codecNames.length)))
    expect(decoded.lengths).toEqual(codecNames.map(() => 10))
  })

  test.each([5, 6, 7])('the codec id %s is refused by name', (codecId) => {
    const error = refusal(() => decodeAll(batchAt(40n, numbered(1), { codecId })))
    expect(error.name).toBe('UNSUPPORTED_RECORD_BATCH')
    expect(error.message).toContain(
      `orders-3 at offset 40 cannot be read: its compression codec has the unknown id ${codecId}`
    )
  })
})

describe('damage', () => {
  const flipped = (bytes: Buffer, at: number): Buffer => {
    const copy = Buffer.from(bytes)
    copy[at] = (copy[at] ?? 0) ^ 1
    return copy
  }

  test('B29 a flipped value byte in the second batch: its base offset is named, none of its rows come out', () => {
    const second = batchAt(5n, numbered(5))
    const bytes = Buffer.concat([batchAt(0n, numbered(5)), flipped(second, second.length - 2)])
    const walk = decodeRecords(bytes, { from: 0n, until: 10n }, plainContext)
    expect(walk.next().value).toMatchObject({ length: 5, nextOffset: 5n })
    expect(refusal(() => walk.next())).toMatchObject({
      name: 'CORRUPT_RECORD_BATCH',
      parameters: { topic: 'orders', partition: 3, offset: '5' },
    })
    expect(walk.next()).toMatchObject({ done: true, value: undefined })
  })

  test('B29 the checksum of batches without a row to deliver is checked too', () => {
    const aborted = { ...plainContext, abortedTransactions: [{ producerId: 1n, firstOffset: 0n }] }
    const record = values('x')
    for (const batch of [
      transactional(0n, 1n, record),
      encodeMarker(0n, 1n, 'abort'),
      batchAt(0n, [], { lastOffsetDelta: 3 }),
    ]) {
      expect(refusal(() => decodeAll(flipped(batch, 30), {}, aborted)).message).toContain('checksum')
    }
  })

  const rightChecksum: readonly (readonly [string, string, Buffer])[] = [
    ['a count above the records', 'its header counts 4 records', batchAt(8n, numbered(3), { count: 4 })],
    ['a count below the records', '9 bytes follow its 2 records', batchAt(8n, numbered(3), { count: 2 })],
    ['a negative count', 'its header counts -1 records', batchAt(8n, numbered(3), { count: -1 })],
    [
      'a count that no batch of this size holds',
      'its header counts 2147483647 records',
      batchAt(8n, numbered(3), { count: 2 ** 31 - 1 }),
    ],
    ['no records but bytes', '9 bytes follow its 0 records', batchAt(8n, [], { payload: Buffer.alloc(9) })],
    [
      'records, of which compression left nothing',
      'its records take 0 bytes',
      batchAt(8n, numbered(1), { codec: 'zstd', compressed: Buffer.alloc(0) }),
    ],
    [
      'an offset delta above the last one',
      'the offset delta 2 after 1, of at most 1',
      batchAt(8n, numbered(3), { lastOffsetDelta: 1 }),
    ],
    ['a repeated offset delta', 'the offset delta 1 after 1', batchAt(8n, [{ delta: 1 }, { delta: 1 }])],
    [
      'a falling offset delta',
      'the offset delta 1 after 2',
      batchAt(8n, [{ delta: 2 }, { delta: 1 }], { lastOffsetDelta: 2 }),
    ],
    ['a negative offset delta', 'the offset delta -1', batchAt(8n, [{ delta: -1 }], { lastOffsetDelta: 0 })],
    ['a negative last offset delta', 'the last offset delta -1', batchAt(8n, [], { lastOffsetDelta: -1 })],
    ['an offset beyond int64', 'the last offset delta 1', batchAt(MAX_INT64 - 1n, numbered(2))],
    ['a record longer than the batch', 'longer than its batch', payloadBatch([100], 0, 0, 0, 1, 1, 0)],
    ['a negative record length', 'longer than its batch', payloadBatch([-1], 0, 0, 0, 1, 1, 0)],
    ['fields beyond the record', 'do not add up', payloadBatch([6], 0, 0, 0, 1, 2, 0x41, 0)],
    ['bytes after the fields', 'do not add up', payloadBatch([8], 0, 0, 0, 1, 1, 0, 0, 0)],
    ['a key length below -1', 'the length -2', payloadBatch([6], 0, 0, 0, 3, 1, 0)],
    ['a key beyond the batch', 'the length 50', payloadBatch([6], 0, 0, 0, 100, 1, 0)],
    ['a negative count of headers', 'counts -1 headers', payloadBatch([6], 0, 0, 0, 1, 1, 1)],
    ['more headers than bytes', 'end inside a record', payloadBatch([6], 0, 0, 0, 1, 1, 100)],
    ['a header with a null key', 'key of a header is null', payloadBatch([8], 0, 0, 0, 1, 1, 2, 1, 1)],
    ['a number of six bytes', 'more than 32 bits', payloadBatch([11], 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0)],
    ['a number of 33 bits', 'more than 32 bits', payloadBatch([10], 0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0)],
    ['a timestamp of eleven bytes', 'more than 64 bits', payloadBatch([16], 0, ...Array(10).fill(0x80), 0, 0, 1, 1, 0)],
    ['a timestamp of 65 bits', 'more than 64 bits', payloadBatch([15], 0, ...Array(9).fill(0x80), 2, 0, 1, 1, 0)],
    ['gzip that is none', 'gzip: incorrect header', batchAt(8n, numbered(3), { codecId: 1 })],
    ['snappy that is none', 'a snappy copy points outside', batchAt(8n, numbered(3), { codecId: 2 })],
    ['lz4 that is none', 'begin with an LZ4 frame', batchAt(8n, numbered(3), { codecId: 3 })],
    ['zstd that is none', 'zstd: ', batchAt(8n, numbered(3), { codecId: 4 })],
  ]
  test.each(rightChecksum)('%s is found though the checksum is right', (_name, reason, bytes) => {
    const error = refusal(() => decodeAll(bytes))
    expect(error.name).toBe('CORRUPT_RECORD_BATCH')
    expect(error.parameters).toMatchObject({ topic: 'orders', partition: 3, offset: String(bytes.readBigInt64BE(0)) })
    expect(error.message).toContain(reason)
  })

  test('the records that the damaged ones above start from are sound', () => {
    expect(decodeAll(payloadBatch([6], 0, 0, 0, 1, 1, 0)).rows).toHaveLength(1)
    expect(decodeAll(payloadBatch([8], 0, 0, 0x80, 0x80, 0, 1, 1, 0)).rows).toHaveLength(1)
  })

  test('a control record without a type is damage where it could end an aborted transaction', () => {
    const context = { ...plainContext, abortedTransactions: [{ producerId: 1n, firstOffset: 0n }] }
    const marker = batchAt(0n, [{ key: 'abc' }], { control: true, transactional: true, producerId: 1n })
    expect(refusal(() => decodeAll(marker, {}, context)).name).toBe('CORRUPT_RECORD_BATCH')
  })

  test.each([-1, 0, 13, 14, 48])('a length of %s is no batch', (length) => {
    const bytes = Buffer.from(batchAt(0n, numbered(1)))
    bytes.writeInt32BE(length, 8)
    expect(refusal(() => decodeAll(bytes)).name).toBe('CORRUPT_RECORD_BATCH')
  })

  test.each([[0n], [1n], [2n]])('a batch at offset %s cannot follow one that ends at offset 2', (base) => {
    const bytes = Buffer.concat([batchAt(0n, numbered(3)), batchAt(base, numbered(1))])
    expect(refusal(() => decodeAll(bytes)).message).toContain('it follows a batch that ends at offset 2')
  })

  test.each([-1, 0, 1, 3])('message format %s is refused', (magic) => {
    const bytes = sealed(Buffer.from(batchAt(6n, numbered(1))))
    bytes.writeInt8(magic, 16)
    const error = refusal(() => decodeAll(bytes))
    expect(error).toMatchObject({ name: 'UNSUPPORTED_RECORD_BATCH', parameters: { offset: '6' } })
    expect(error.message).toContain(`message format ${magic} is not supported`)
  })

  test('a batch that would decompress to more than the limit is refused, not decompressed', () => {
    const compressed = lz4Bomb(MAX_DECOMPRESSED_BYTES / (4 * 1024 * 1024) + 1)
    const error = refusal(() => decodeAll(batchAt(2n, numbered(1), { codec: 'lz4', compressed })))
    expect(error).toMatchObject({ name: 'UNSUPPORTED_RECORD_BATCH', parameters: { offset: '2' } })
    expect(error.message).toContain(`decompresses to more than ${MAX_DECOMPRESSED_BYTES} bytes`)
  })
})

/** A batch at offset 8 of one record: its length as a number, then its bytes (zigzag: 1 is -1, 2 is 1). */
const payloadBatch = ([length]: readonly [number], ...bytes: number[]): Buffer =>
  batchAt(8n, [], { payload: Buffer.concat([varint(length), Buffer.from(bytes)]), count: 1 })

/** A frame of so many compressed blocks that stand for 4 MiB each. */
function lz4Bomb(blocks: number): Buffer {
  const block = Buffer.alloc(16451, 0xff)
  const size = Buffer.alloc(4)
  size.writeUInt32LE(block.length)
  const parts = Array.from({ length: blocks }, () => [size, block]).flat()
  return Buffer.concat([Buffer.from('04224d18607073', 'hex'), ...parts, Buffer.alloc(4)])
}
