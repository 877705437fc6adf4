/** Random records through encoder and decoder, and damaged bytes: nothing but the two refusals, never a wrong record. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSluiceError } from '../../src/errors.ts'
import { MAX_DECOMPRESSED_BYTES } from '../../src/kafka/codecs.ts'
import { RecordScratch } from '../../src/kafka/record-reader.ts'
import { MAX_INT64 } from '../../src/offsets.ts'
import { decodeAll, hex, plainContext } from '../support/decoded-records.ts'
import type { Decoded, DecodedRow } from '../support/decoded-records.ts'
import {
  codecNames,
  compress,
  encodeBatch,
  encodeMarker,
  encodeRecord,
  sealed,
} from '../support/record-batch-encoder.ts'
import type { TestBatch, TestRecord } from '../support/record-batch-encoder.ts'

const bytesOrNull = fc.option(
  fc.uint8Array({ maxLength: 200 }).map((b) => Buffer.from(b)),
  { freq: 4 }
)
const record = fc.record({
  key: bytesOrNull,
  value: bytesOrNull,
  headers: fc.array(fc.tuple(fc.string({ unit: 'grapheme', maxLength: 8 }), bytesOrNull), { maxLength: 4 }),
  timestamp: fc.oneof(
    fc.bigInt({ min: 1790899200000n, max: 1790899300000n }),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
  ),
  /** Offsets to skip before this record. */
  hole: fc.nat({ max: 2 }),
})

/** A batch as it follows another: `gap` offsets after it, `tail` offsets at its end without a record. */
const batch = fc.record({
  records: fc.array(record, { maxLength: 12 }),
  codec: fc.constantFrom(...codecNames),
  gap: fc.nat({ max: 2 }),
  tail: fc.nat({ max: 2 }),
  kind: fc.constantFrom('plain', 'aborted', 'committed', 'marker'),
})

const ABORTED = 5n
const COMMITTED = 6n

/** Lays the batches out from `base`; answers their bytes, the visible rows and the offset after the last batch. */
function layOut(base: bigint, batches: readonly (typeof batch extends fc.Arbitrary<infer T> ? T : never)[]) {
  const parts: Buffer[] = []
  const rows: DecodedRow[] = []
  let next = base
  for (const { records, codec, gap, tail, kind } of batches) {
    const baseOffset = next + BigInt(gap)
    if (kind === 'marker') {
      parts.push(encodeMarker(baseOffset, COMMITTED, 'commit'))
      next = baseOffset + 1n
      continue
    }
    let delta = -1
    const placed: TestRecord[] = records.map((r) => ({ ...r, delta: (delta += 1 + r.hole) }))
    const producer =
      kind === 'plain' ? {} : { producerId: kind === 'aborted' ? ABORTED : COMMITTED, transactional: true }
    const wire: TestBatch = {
      baseOffset,
      records: placed,
      codec,
      lastOffsetDelta: Math.max(0, delta) + tail,
      ...producer,
    }
    parts.push(encodeBatch(wire))
    if (kind !== 'aborted') rows.push(...placed.map((r) => rowOf(baseOffset, r)))
    next = baseOffset + BigInt(Math.max(0, delta) + tail) + 1n
  }
  return { bytes: Buffer.concat(parts), rows, next }
}

const rowOf = (baseOffset: bigint, r: TestRecord): DecodedRow => ({
  offset: baseOffset + BigInt(r.delta ?? 0),
  timestamp: r.timestamp ?? 0n,
  key: asHex(r.key ?? null),
  value: asHex(r.value ?? null),
  headers: r.headers?.length ? r.headers.map(([key, value]) => [key, asHex(value)] as const) : null,
})

const asHex = (bytes: TestRecord['key']): string | null =>
  hex(typeof bytes === 'string' ? Buffer.from(bytes) : (bytes ?? null))

const context = { ...plainContext, abortedTransactions: [{ producerId: ABORTED, firstOffset: 0n }] }

test('what was encoded comes out: random records, codecs, holes, transactions and ranges', () => {
  const base = fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: 2n ** 63n - 10_000n }))
  fc.assert(
    fc.property(
      base,
      fc.array(batch, { maxLength: 6 }),
      fc.nat({ max: 60 }),
      fc.nat({ max: 60 }),
      (first, batches, skip, length) => {
        const { bytes, rows, next } = layOut(first, batches)
        const from = first + BigInt(skip)
        const until = from + BigInt(length)
        fc.pre(from < next)
        const decoded = decodeAll(bytes, { from, until }, context)
        expect(decoded.rows).toEqual(rows.filter((r) => r.offset >= from && r.offset < until))
        expect(decodeAll(bytes, { from, until }, { ...context, scratch: new RecordScratch() })).toEqual(decoded)
        expect(decoded.end.nextOffset >= (until < next ? until : next)).toBe(true)
        expect(decoded.end.cutOffBytes).toBe(null)
      }
    ),
    { numRuns: 300 }
  )
})

test('an answer cut anywhere gives its whole batches and the place to go on: two fetches give what one gives', () => {
  fc.assert(
    fc.property(
      fc.array(batch, { minLength: 1, maxLength: 4 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (batches, share) => {
        const { bytes, rows, next } = layOut(0n, batches)
        const first = decodeAll(bytes.subarray(0, Math.floor(share * bytes.length)), {}, context)
        const rest = first.end.nextOffset < next ? decodeAll(bytes, { from: first.end.nextOffset }, context).rows : []
        expect([...first.rows, ...rest]).toEqual(rows)
      }
    ),
    { numRuns: 100 }
  )
})

// -- damage

const sample = (codec: (typeof codecNames)[number]): Buffer => {
  const records = Array.from({ length: 6 }, (_, i) => ({
    key: `key-${i}`,
    value: 'repeat '.repeat(i + 1),
    headers: [['h', `${i}`]] as const,
    timestamp: 1790899200000n + BigInt(i),
  }))
  return encodeBatch({ baseOffset: 1000n, records, codec })
}

/** The decoded records, or null where they were refused in one of the two ways. */
function decodedOrRefused(bytes: Buffer): Decoded | null {
  try {
    return decodeAll(bytes, { from: 0n, until: MAX_INT64 })
  } catch (e) {
    if (isSluiceError(e, 'CORRUPT_RECORD_BATCH') || isSluiceError(e, 'UNSUPPORTED_RECORD_BATCH')) return null
    throw e
  }
}

describe.each(codecNames)('damaged %s batches', (codec) => {
  const bytes = sample(codec)
  const good = decodeAll(bytes)

  test('cut at every length they give no record and no error', () => {
    for (let n = 0; n < bytes.length; n++) {
      const cut = decodeAll(bytes.subarray(0, n))
      expect([cut.rows.length, cut.end.completeBatches, cut.end.nextOffset]).toEqual([0, 0, 0n])
    }
  })

  test('every flipped bit that the checksum covers is refused', () => {
    for (let bit = 8 * 16; bit < 8 * bytes.length; bit++) {
      expect(decodedOrRefused(flip(bytes, bit))).toBe(null)
    }
  })

  test('a flipped bit before the checksum’s reach never changes a record’s content', () => {
    for (let bit = 0; bit < 8 * 16; bit++) {
      const decoded = decodedOrRefused(flip(bytes, bit))
      const contents = (decoded?.rows ?? []).map((row) => ({ ...row, offset: 0n }))
      expect([[], good.rows.map((row) => ({ ...row, offset: 0n }))]).toContainEqual(contents)
      // Base offset (8 bytes) aside, nothing is changed at all.
      const nothingOrAll = decoded === null || decoded.rows.length === 0 || bit < 64 ? good.rows : decoded.rows
      expect(nothingOrAll).toEqual(good.rows)
    }
  })

  test('several random bytes changed are refused', () => {
    const change = fc.tuple(fc.integer({ min: 17, max: bytes.length - 1 }), fc.integer({ min: 1, max: 255 }))
    fc.assert(
      fc.property(fc.uniqueArray(change, { selector: ([at]) => at, minLength: 1, maxLength: 5 }), (changes) => {
        const copy = Buffer.from(bytes)
        for (const [at, mask] of changes) copy[at] = (copy[at] ?? 0) ^ mask
        expect(decodedOrRefused(copy)).toBe(null)
      }),
      { numRuns: 300 }
    )
  })

  test('changed under a right checksum they are read or refused, but nothing else happens', () => {
    const change = fc.tuple(fc.integer({ min: 21, max: bytes.length - 1 }), fc.nat({ max: 255 }))
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), (changes) => {
        const copy = Buffer.from(bytes)
        for (const [at, byte] of changes) copy[at] = byte
        expect(() => decodedOrRefused(sealed(copy))).not.toThrow()
      }),
      { numRuns: 500 }
    )
  })

  test('any bytes in the place of the compressed records are read or refused', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat({ max: 20 }), (noise, count) => {
        const wire = encodeBatch({ baseOffset: 0n, records: [], count, codec, compressed: Buffer.from(noise) })
        expect(() => decodedOrRefused(wire)).not.toThrow()
      }),
      { numRuns: 300 }
    )
  })
})

test('any bytes in the place of the records are read or refused', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat({ max: 9 }), (noise, count) => {
      const payload = Buffer.concat([encodeRecord({ value: 'x' }, 0, 0n), Buffer.from(noise)])
      const wire = encodeBatch({ baseOffset: 0n, records: [], count, lastOffsetDelta: 9, payload })
      expect(() => decodedOrRefused(wire)).not.toThrow()
    }),
    { numRuns: 2000 }
  )
})

test.each(codecNames.slice(1))('a %s batch of zeros beyond the limit is refused by name', (codec) => {
  const payload = Buffer.alloc(MAX_DECOMPRESSED_BYTES + 1)
  const compressed = compress(codec, payload)
  const run = () => decodeAll(encodeBatch({ baseOffset: 0n, records: [], count: 1, codec, compressed }))
  expect(run).toThrow(/orders-3 at offset 0 cannot be read: it decompresses to/)
})

function flip(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  const at = bit >> 3
  copy[at] = (copy[at] ?? 0) ^ (1 << (bit & 7))
  return copy
}
