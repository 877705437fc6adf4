import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { admitOffsets, rateLimit } from '../src/admission.ts'
import { MAX_INT64, entriesOf, offsetAt, offsetsOf, offsetsToJson, sameOffsets } from '../src/offsets.ts'
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
      const admission = admitOffsets({ start, latest, earliestOfNew: none, maxOffsetsPerTrigger: 100n, fresh: false })
      if (admission.kind === 'noNewData') break
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
        const capped = steps.filter((step) => step > 1n).reduce((sum, step) => sum + step, 0n)
        expect(capped <= limit).toBe(true)
      })
    )
  })
})

describe('new data means that the maps differ', () => {
  const admit = (start: PartitionOffsets, latest: PartitionOffsets, fresh = false) => {
    const admission = admitOffsets({ start, latest, earliestOfNew: none, maxOffsetsPerTrigger: null, fresh })
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
    expect(admitOffsets({ start, latest, earliestOfNew: none, maxOffsetsPerTrigger: 10n, fresh: false })).toEqual({
      kind: 'admit',
      end: offsets(8, 1, 1),
    })
  })
})
