import { describe, expect, test } from 'vitest'
import { decodeRecords } from '../../src/kafka/record-batch.ts'
import { RecordScratch } from '../../src/kafka/record-reader.ts'
import { MAX_INT64 } from '../../src/offsets.ts'
import { decodeAll, offsetsOfRows, plainContext, textsOf } from '../support/decoded-records.ts'
import { DEFAULT_TIMESTAMP, codecNames, varint } from '../support/record-batch-encoder.ts'
import type { TestRecord } from '../support/record-batch-encoder.ts'
import { batchAt, numbered, refusal, values } from '../support/wire-batches.ts'

const offsetsFrom = (from: bigint, until: bigint): bigint[] =>
  Array.from({ length: Number(until - from) }, (_, i) => from + BigInt(i))

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

  test('a cut-off batch after batches before the asked-for offset counts as the first', () => {
    const bytes = Buffer.concat([batchAt(0n, numbered(2)), batchAt(2n, numbered(2)).subarray(0, 30)])
    expect(decodeAll(bytes, { from: 3n }).end).toMatchObject({ nextOffset: 3n, completeBatches: 0 })
    expect(decodeAll(bytes, { from: 1n }).end).toMatchObject({ nextOffset: 2n, completeBatches: 1 })
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

test('batches are read over one another; an empty one of a codec leaves the answer as it is', () => {
  const empty = batchAt(0n, [], { codec: 'zstd', compressed: Buffer.alloc(0), lastOffsetDelta: 4 })
  const large = batchAt(5n, [{ value: 'x'.repeat(200_000) }])
  const zipped = batchAt(6n, [{ value: 'y'.repeat(200_000) }], { codec: 'zstd' })
  const answer = Buffer.concat([empty, large, zipped, batchAt(7n, numbered(3))])
  const decoded = decodeAll(answer, {}, { ...plainContext, scratch: new RecordScratch() })
  expect(decoded.rows).toEqual(decodeAll(answer).rows)
  expect(offsetsOfRows(decoded)).toEqual([5n, 6n, 7n, 8n, 9n])
})
