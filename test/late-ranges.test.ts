import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { needsSplit, splitLateRanges } from '../src/late-ranges.ts'
import type { LateRange } from '../src/late-ranges.ts'
import { offsetsOf } from '../src/offsets.ts'
import { splitRanges } from '../src/ranges.ts'

type Bound = number | 'earliest' | 'latest'

const boundOf = <W extends 'earliest' | 'latest'>(bound: number | W): bigint | W =>
  typeof bound === 'number' ? BigInt(bound) : bound

/** One range for each partition of a topic, as written, and the numbers that Kafka has for the words. */
function bounds(...partitions: readonly (readonly [number | 'earliest', number | 'latest', number, number])[]) {
  const ranges: LateRange[] = partitions.map(([from, until], partition) => ({
    topic: 't',
    partition,
    from: boundOf(from),
    until: boundOf(until),
    isFinal: true,
  }))
  const numbers = (end: 2 | 3) =>
    offsetsOf(partitions.map((p, partition) => ({ topic: 't', partition, offset: BigInt(p[end]) })))
  return { ranges, numbers: { from: numbers(2), until: numbers(3) } }
}

/** `0 [earliest,1)` for each piece, with `!` where it ends its partition. */
const shown = (pieces: readonly LateRange[]): string[] =>
  pieces.map((p) => `${p.partition} [${p.from},${p.until})${p.isFinal ? '!' : ''}`)

const split = (
  { ranges, numbers }: ReturnType<typeof bounds>,
  minPartitions: number | null,
  max: bigint | null = null
) => shown(splitLateRanges(ranges, numbers, { minPartitions, maxRecordsPerPartition: max }))

describe('pieces of a bounded read', () => {
  test('K137 numbers are cut as they are', () => {
    expect(split(bounds([1, 4, 1, 4]), 3)).toEqual(['0 [1,2)', '0 [2,3)', '0 [3,4)!'])
  })

  test('K138 the outer ends keep their words', () => {
    expect(split(bounds(['earliest', 'latest', 0, 4]), 3)).toEqual(['0 [earliest,1)', '0 [1,2)', '0 [2,latest)!'])
  })

  test('K140 of several partitions, those that are not cut keep their words', () => {
    const both = bounds(['earliest', 'latest', 0, 100], ['earliest', 3, 0, 3])
    expect(split(both, 4)).toEqual(['0 [earliest,33)', '0 [33,66)', '0 [66,latest)!', '1 [earliest,3)!'])
  })

  test('K141 the same with numbers', () => {
    expect(split(bounds([0, 100, 0, 100], [0, 3, 0, 3]), 4)).toEqual([
      '0 [0,33)',
      '0 [33,66)',
      '0 [66,100)!',
      '1 [0,3)!',
    ])
  })

  test('a partition that is empty by the numbers is left out, one without numbers stays as it is', () => {
    const { ranges, numbers } = bounds(['earliest', 'latest', 5, 5], ['earliest', 'latest', 0, 2], [0, 'latest', 0, 0])
    const known = {
      ...numbers,
      until: offsetsOf([0, 1].map((partition) => ({ topic: 't', partition, offset: partition === 0 ? 5n : 2n }))),
    }
    expect(shown(splitLateRanges(ranges, known, { minPartitions: 4, maxRecordsPerPartition: null }))).toEqual([
      '1 [earliest,1)',
      '1 [1,latest)!',
      '2 [0,latest)!',
    ])
  })

  test('pieces by numbers are those of the splitter', () => {
    const sizes = fc.array(fc.tuple(fc.nat(50), fc.nat(500)), { minLength: 1, maxLength: 5 })
    fc.assert(
      fc.property(
        sizes,
        fc.integer({ min: 1, max: 12 }),
        fc.option(fc.bigInt(1n, 100n)),
        (ends, minPartitions, max) => {
          const { ranges, numbers } = bounds(...ends.map(([a, n]) => ['earliest', 'latest', a, a + n] as const))
          const options = { minPartitions, maxRecordsPerPartition: max }
          const bound = splitLateRanges(ranges, numbers, options).map(({ topic, partition, from, until }) => ({
            topic,
            partition,
            from: from === 'earliest' ? BigInt(ends[partition]?.[0] ?? -1) : from,
            until: until === 'latest' ? BigInt((ends[partition]?.[0] ?? 0) + (ends[partition]?.[1] ?? 0)) : until,
          }))
          const whole = ends.map(([a, n], partition) => ({
            topic: 't',
            partition,
            from: BigInt(a),
            until: BigInt(a + n),
          }))
          expect(bound).toEqual(splitRanges(whole, options))
        }
      )
    )
  })
})

describe('whether there is a split is decided by the words', () => {
  const needed = (
    from: Bound & (number | 'earliest'),
    until: Bound & (number | 'latest'),
    min: number | null,
    max: bigint | null
  ) => needsSplit(bounds([from, until, 0, 0]).ranges, { minPartitions: min, maxRecordsPerPartition: max })

  test.each([
    ['earliest', 'latest', null, 1n, false], // X13: -1 - -2 = 1
    ['earliest', 'latest', 1, 1n, false],
    ['earliest', 'latest', 2, null, true],
    [0, 'latest', null, 1n, false],
    ['earliest', 10, null, 11n, true], // 10 - -2 = 12
    ['earliest', 10, null, 12n, false],
    [5, 10, null, 4n, true],
    [5, 10, null, 5n, false],
    [5, 10, null, null, false],
  ] as const)(
    'X13 [%s, %s) with minPartitions %s and maxRecordsPerPartition %s: %s',
    (from, until, min, max, isNeeded) => {
      expect(needed(from, until, min, max)).toBe(isNeeded)
    }
  )
})
