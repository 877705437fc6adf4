import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { admitOffsets, offsetsWithin, rateLimit, unlimited } from '../src/admission.ts'
import { MAX_INT64, entriesOf, offsetAt, offsetsOf, offsetsToJson, sameOffsets } from '../src/offsets.ts'
import type { MinimumLimit, ReadLimit } from '../src/admission.ts'
import type { PartitionOffsets } from '../src/offsets.ts'

type Stored = Record<string, Record<string, string>>
interface Case {
  kind: string
  limit: string
  start: Stored
  latest: Stored
  earliestOfNew: Stored
  end: Stored
}

const golden = JSON.parse(readFileSync(new URL('spark/admission.json', import.meta.url), 'utf8')) as { cases: Case[] }

const mapOf = (stored: Stored): PartitionOffsets =>
  offsetsOf(
    Object.entries(stored).flatMap(([topic, partitions]) =>
      Object.entries(partitions).map(([p, offset]) => ({ topic, partition: Number(p), offset: BigInt(offset) }))
    )
  )

/** Offsets of topic t, by partition. */
const offsets = (...values: (number | bigint)[]): PartitionOffsets =>
  offsetsOf(values.map((value, partition) => ({ topic: 't', partition, offset: BigInt(value) })))
const none: PartitionOffsets = new Map()
const capped = (maxOffsets: bigint): ReadLimit => ({ min: null, maxOffsets })
const valuesOf = (map: PartitionOffsets): number[] => entriesOf(map).map((e) => Number(e.offset))

describe("the limit gives what Spark's own code gives", () => {
  test('all 300 cases are there', () => expect(golden.cases).toHaveLength(300))

  test.each(golden.cases.map((c, i) => [i, c.kind, c] as const))('case %i, %s', (_i, _kind, c) => {
    const end = rateLimit(BigInt(c.limit), mapOf(c.start), mapOf(c.latest), mapOf(c.earliestOfNew))
    expect(offsetsToJson(end)).toBe(offsetsToJson(mapOf(c.end)))
  })
})

describe('shares from zero', () => {
  const share = (limit: bigint, ...sizes: (number | bigint)[]): number[] =>
    valuesOf(rateLimit(limit, offsets(...sizes.map(() => 0)), offsets(...sizes), none))

  test.each([
    [10n, [101, 11, 1], [8, 1, 1]],
    [10n, [93, 10, 0], [9, 1, 0]],
    [20n, [21, 11, 1], [12, 6, 1]],
    [1n, [5, 5], [1, 1]],
    [7n, [3, 3, 3], [2, 2, 2]],
  ])('limit %d over %j', (limit, sizes, shares) => {
    expect(share(limit, ...sizes)).toEqual(shares)
  })

  test('X1 29 of 100 at limit 100 is floored to 28, and twenty of 1 at limit 5 are 20', () => {
    expect(share(100n, 29, 71)).toEqual([28, 71])
    expect(share(5n, ...Array<number>(20).fill(1))).toEqual(Array(20).fill(1))
  })

  test('B01 (a) quiet partitions move by one', () => {
    expect(share(100n, 1000, 10, 3)).toEqual([98, 1, 1])
  })

  test('B01 (b) a cap below the number of partitions moves each by one', () => {
    expect(share(3n, ...Array<number>(8).fill(100))).toEqual(Array(8).fill(1))
  })

  test('B01 (c) shares are rounded down', () => {
    expect(share(10n, 25, 25, 25)).toEqual([3, 3, 3])
  })

  test('B01 (a) run to the end reads all 1013 offsets, none twice', () => {
    const latest = offsets(1000, 10, 3)
    let start = offsets(0, 0, 0)
    let total = 0
    for (let batch = 0; batch < 50; batch++) {
      const admission = admitOffsets({ start, latest, earliestOfNew: none, limit: capped(100n), fresh: false })
      if (admission.kind !== 'admit') break
      for (const { offset, ...tp } of entriesOf(admission.end)) {
        const step = Number(offset - (offsetAt(start, tp) ?? 0n))
        expect(step).toBeGreaterThanOrEqual(0)
        total += step
      }
      start = admission.end
    }
    expect(total).toBe(1013)
    expect(sameOffsets(start, latest)).toBe(true)
  })

  test('24 partitions of 9,000,000 at 2,000,000 take 83,333 each', () => {
    expect(share(2_000_000n, ...Array<number>(24).fill(9_000_000))).toEqual(Array(24).fill(83_333))
  })
})

describe('the edges of the limit', () => {
  test('K6 B41 a cap of 2^63-1 from offset 5 does not overflow', () => {
    expect(valuesOf(rateLimit(MAX_INT64, offsets(5), offsets(10), none))).toEqual([10])
  })

  test('K6 an end near 2^63-1 does not overflow either', () => {
    const end = rateLimit(MAX_INT64, offsets(MAX_INT64 - 10n, 0), offsets(MAX_INT64, MAX_INT64), none)
    expect(entriesOf(end).map((e) => e.offset)).toEqual([MAX_INT64, MAX_INT64])
  })

  test('a shrunk partition gets its lower end as it is', () => {
    expect(valuesOf(rateLimit(10n, offsets(5, 0), offsets(0, 4), none))).toEqual([0, 4])
  })

  test('a new partition counts from its earliest offset, one without any gets its end', () => {
    const latest = offsets(100, 200, 300)
    const earliestOfNew = offsetsOf([{ topic: 't', partition: 1, offset: 100n }])
    expect(valuesOf(rateLimit(10n, offsets(0), latest, earliestOfNew))).toEqual([5, 105, 300])
  })

  test('every partition with backlog moves, none passes its end, and only those raised to one exceed the cap', () => {
    const sizes = fc.array(fc.bigInt({ min: -5n, max: 10n ** 12n }), { minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(sizes, fc.bigInt({ min: 1n, max: 10n ** 12n }), (given, limit) => {
        const latest = offsets(...given.map((size) => size + 5n))
        const end = rateLimit(limit, offsets(...given.map(() => 5n)), latest, none)
        const steps = entriesOf(end).map((e) => e.offset - 5n)
        given.forEach((size, p) =>
          expect(steps[p]).toSatisfy((s: bigint) => (size > 0n ? s >= 1n && s <= size : s === size))
        )
        const shared = steps.filter((step) => step > 1n).reduce((sum, step) => sum + step, 0n)
        expect(shared <= limit).toBe(true)
      })
    )
  })
})

describe('new data means that the maps differ', () => {
  const admit = (start: PartitionOffsets, latest: PartitionOffsets, fresh = false) => {
    const admission = admitOffsets({ start, latest, earliestOfNew: none, limit: unlimited, fresh })
    return admission.kind === 'admit' ? offsetsToJson(admission.end) : admission.kind
  }

  test('without a limit everything is taken', () =>
    expect(admit(offsets(1, 2), offsets(9, 2))).toBe('{"t":{"0":9,"1":2}}'))
  test('equal maps are no new data', () => expect(admit(offsets(1, 2), offsets(1, 2))).toBe('noNewData'))
  test('a lower end is', () => expect(admit(offsets(5), offsets(3))).toBe('{"t":{"0":3}}'))
  test('a vanished partition is', () => expect(admit(offsets(5, 5), offsets(5))).toBe('{"t":{"0":5}}'))
  test('an empty new partition is', () => expect(admit(offsets(5), offsets(5, 0))).toBe('{"t":{"0":5,"1":0}}'))
  test('an empty end counts as no offset', () => {
    expect(admit(offsets(5), none)).toBe('noNewData')
    expect(admit(none, none, true)).toBe('noNewData')
  })
  test('a fresh query makes its first batch without data', () => {
    expect(admit(offsets(5), offsets(5), true)).toBe('{"t":{"0":5}}')
  })

  test('under a limit, the batch ends where the limit says', () => {
    const start = offsets(0, 0, 0)
    const latest = offsets(101, 11, 1)
    expect(admitOffsets({ start, latest, earliestOfNew: none, limit: capped(10n), fresh: false })).toEqual({
      kind: 'admit',
      end: offsets(8, 1, 1),
    })
  })
})

describe('a minimum', () => {
  const min = (given: Partial<MinimumLimit>): ReadLimit => ({
    min: { offsets: 15n, maxDelayMs: 5000, lastPassMs: 100_000, nowMs: 101_000, ...given },
    maxOffsets: null,
  })
  const decide = (
    start: PartitionOffsets,
    latest: PartitionOffsets,
    given: Partial<MinimumLimit> = {},
    { maxOffsets = null, fresh = false }: { maxOffsets?: bigint | null; fresh?: boolean } = {}
  ) => {
    const limit = { ...min(given), maxOffsets }
    const admission = admitOffsets({ start, latest, earliestOfNew: none, limit, fresh })
    if (admission.kind === 'admit') return valuesOf(admission.end)
    return admission.kind === 'delay' ? Number(admission.pending) : admission.kind
  }

  test('fewer offsets wait, until the delay is over', () => {
    expect(
      admitOffsets({ start: offsets(5, 5), latest: offsets(12, 12), earliestOfNew: none, limit: min({}), fresh: false })
    ).toEqual({
      kind: 'delay',
      pending: 14n,
      untilMs: 105_000,
    })
  })

  test('so many are enough', () => {
    expect(decide(offsets(5, 5), offsets(13, 12))).toEqual([13, 12])
  })

  test('what was lost counts against what came', () => {
    expect(decide(offsets(50, 5), offsets(40, 20))).toBe(5)
    expect(decide(offsets(50, 5), offsets(40, 30))).toEqual([40, 30])
  })

  test('a new partition counts from 0, a vanished one not at all', () => {
    expect(decide(offsets(5), offsets(5, 15))).toEqual([5, 15])
    expect(decide(offsets(0, 0), offsets(14))).toBe(14)
  })

  test.each([
    [104_999, 1],
    [105_000, [6]],
    [200_000, [6]],
  ])('1 offset at %d: %j', (nowMs, decision) => {
    expect(decide(offsets(5), offsets(6), { nowMs })).toEqual(decision)
  })

  test('the time since the last check that passed counts, not since the last batch', () => {
    expect(decide(offsets(5), offsets(5), { nowMs: 105_000 })).toBe('noNewData')
    expect(decide(offsets(5), offsets(5), { nowMs: 104_999 })).toBe(0)
  })

  test('the first check of all passes', () => {
    expect(decide(offsets(5), offsets(6), { lastPassMs: null })).toEqual([6])
    expect(decide(offsets(5), offsets(5), { lastPassMs: null })).toBe('noNewData')
  })

  test('a clock that was set back delays by the count alone', () => {
    expect(decide(offsets(5), offsets(6), { nowMs: 0 })).toBe(1)
    expect(decide(offsets(5), offsets(20), { nowMs: 0 })).toEqual([20])
  })

  test('without a delay every check passes', () => {
    expect(decide(offsets(5), offsets(6), { maxDelayMs: 0, nowMs: 100_000 })).toEqual([6])
  })

  test('what passes is cut by the maximum', () => {
    expect(decide(offsets(0, 0, 0), offsets(21, 11, 1), {}, { maxOffsets: 20n })).toEqual([12, 6, 1])
    expect(decide(offsets(12, 6, 1), offsets(21, 11, 1), {}, { maxOffsets: 20n })).toBe(14)
  })

  test('a batch of any kind waits, the first one too', () => {
    expect(decide(offsets(5), offsets(3))).toBe(-2)
    expect(decide(offsets(5), offsets(6), {}, { fresh: true })).toBe(1)
  })

  test('waits exactly while the sum is below it and the delay is not over, whatever the maps are', () => {
    const values = fc.array(fc.nat(100), { maxLength: 6 })
    const time = fc.nat(10_000)
    fc.assert(
      fc.property(values, values, fc.bigInt({ min: 1n, max: 200n }), time, time, (a, b, least, since, maxDelayMs) => {
        const limit = min({ offsets: least, maxDelayMs, lastPassMs: 50_000, nowMs: 50_000 + since })
        const admission = admitOffsets({
          start: offsets(...a),
          latest: offsets(...b),
          earliestOfNew: none,
          limit,
          fresh: false,
        })
        const pending = b.reduce((sum, until, p) => sum + until - (a[p] ?? 0), 0)
        expect(admission.kind === 'delay').toBe(since < maxDelayMs && pending < Number(least))
      })
    )
  })
})

describe('a cap in bytes', () => {
  const mega = 1024n * 1024n

  test.each([
    [64n * mega, [{ offsets: 1000n, bytes: 1000n * 1024n }], 65_536n],
    [1000n, [{ offsets: 3n, bytes: 10n }], 300n], // rounded down
    [
      100n,
      [
        { offsets: 10n, bytes: 1000n },
        { offsets: 90n, bytes: 1000n },
      ],
      5n,
    ], // each offset counts, not each batch
    [
      1000n,
      [
        { offsets: 100n, bytes: 10_000n },
        { offsets: 100n, bytes: 0n },
      ],
      20n,
    ], // offsets without a record count as well
    [5n, [{ offsets: 10n, bytes: 1000n }], 1n], // never nothing
    [MAX_INT64, [{ offsets: 10n, bytes: 1n }], MAX_INT64],
  ])('%d bytes after %o are %d offsets', (maxBytes, recent, cap) => {
    expect(offsetsWithin(maxBytes, recent)).toBe(cap)
  })

  test.each([
    [64n * mega, 64n],
    [mega - 1n, 1n],
    [1n, 1n],
  ])('%d bytes without history are %d offsets, each as large as brokers let it be', (maxBytes, cap) => {
    expect(offsetsWithin(maxBytes, [])).toBe(cap)
    expect(offsetsWithin(maxBytes, [{ offsets: 0n, bytes: 0n }])).toBe(cap)
    expect(offsetsWithin(maxBytes, [{ offsets: 500n, bytes: 0n }])).toBe(cap)
  })

  test('as many offsets as it gives hold no more than the cap on average', () => {
    const positive = fc.bigInt({ min: 1n, max: 10n ** 15n })
    fc.assert(
      fc.property(positive, positive, positive, (maxBytes, total, bytes) => {
        const cap = offsetsWithin(maxBytes, [{ offsets: total, bytes }])
        expect(cap === 1n || cap * bytes <= maxBytes * total).toBe(true)
      })
    )
  })
})
