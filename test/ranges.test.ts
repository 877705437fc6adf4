import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { nameOf } from '../src/offsets.ts'
import { sizeOf, splitRanges } from '../src/ranges.ts'
import type { OffsetRange } from '../src/ranges.ts'

interface StoredRange {
  topic: string
  partition: number
  from: string
  until: string
}
interface Case {
  minPartitions: number | null
  maxRecordsPerPartition: string | null
  ranges: StoredRange[]
  pieces: StoredRange[]
}

const golden = JSON.parse(readFileSync(new URL('spark/ranges.json', import.meta.url), 'utf8')) as { cases: Case[] }

const rangeOf = ({ topic, partition, from, until }: StoredRange): OffsetRange => ({
  topic,
  partition,
  from: BigInt(from),
  until: BigInt(until),
})

describe("pieces are those of Spark's own code, in its order", () => {
  test('all 400 cases are there', () => expect(golden.cases).toHaveLength(400))

  test.each(golden.cases.map((c, i) => [i, c] as const))('case %i', (_i, c) => {
    const pieces = splitRanges(c.ranges.map(rangeOf), {
      minPartitions: c.minPartitions,
      maxRecordsPerPartition: c.maxRecordsPerPartition === null ? null : BigInt(c.maxRecordsPerPartition),
    })
    expect(pieces).toEqual(c.pieces.map(rangeOf))
  })
})

/** `1-5 1-21`: ranges [1,5) of t-0 and [1,21) of t-1; pieces of one partition are joined by `,`. */
const ranges = (text: string): OffsetRange[] =>
  text.split(' ').flatMap((pieces, partition) =>
    pieces.split(',').map((piece) => {
      const [from = '', until = ''] = piece.split('-')
      return { topic: 't', partition, from: BigInt(from), until: BigInt(until) }
    })
  )

const split = (
  text: string,
  minPartitions: number | null,
  maxRecordsPerPartition: bigint | null = null
): OffsetRange[] => splitRanges(ranges(text), { minPartitions, maxRecordsPerPartition })

/** Numbers of pieces by partition. */
const counts = (pieces: readonly OffsetRange[]): number[] =>
  [...Map.groupBy(pieces, nameOf).values()].map((ofPartition) => ofPartition.length)

describe('without splitting', () => {
  test('K88 one range for each partition', () => {
    expect(split('1-2 1-2 1-2', null)).toEqual(ranges('1-2 1-2 1-2'))
  })
  test('K89 an empty range is dropped', () => {
    expect(split('1-2 1-1', null)).toEqual(ranges('1-2'))
  })
  test('K90 as many as minPartitions stay as they are', () => {
    expect(split('1-2 1-2 1-2', 3)).toEqual(ranges('1-2 1-2 1-2'))
  })
  test('K96 fewer than the partitions: nothing is split', () => {
    expect(split('1-5 1-21', 1)).toEqual(ranges('1-5 1-21'))
  })
  test('a negative range is dropped, whatever is asked for', () => {
    const negative: OffsetRange = { topic: 't', partition: 1, from: 5n, until: 3n }
    for (const minPartitions of [null, 1, 4])
      expect(splitRanges([...ranges('1-2'), negative], { minPartitions, maxRecordsPerPartition: 10n })).toEqual(
        ranges('1-2')
      )
  })
})

describe('minPartitions', () => {
  test.each([
    ['K92', '1-5', 4, '1-2,2-3,3-4,4-5'],
    ['K93', '1-5 1-21', 4, '1-5 1-7,7-14,14-21'],
    ['K95', '1-2 1-1001', 4, '1-2 1-334,334-667,667-1001'],
    ['K97', '1-11', 3, '1-4,4-7,7-11'],
    ['K99', '0-10 0-10 0-1', 6, '0-3,3-6,6-10 0-3,3-6,6-10 0-1'],
    ['K101', '0-500 0-12000 0-15001', 6, '0-500 0-6000,6000-12000 0-5000,5000-10000,10000-15001'],
    ['K102', '0-1 0-1 0-10000', 6, '0-1 0-1 0-2500,2500-5000,5000-7500,7500-10000'],
    ['B15 (a)', '0-29 0-29 0-29', 4, '0-29 0-29 0-29'],
    ['B15 (c)', '5-7', 5, '5-6,6-7'],
    ['more than there are offsets', '0-7', 20, '0-1,1-2,2-3,3-4,4-5,5-6,6-7'],
  ])('%s', (_id, given, minPartitions, pieces) => {
    expect(split(given, minPartitions)).toEqual(ranges(pieces))
  })

  test('K94 empty ranges are left out, the rest is split', () => {
    const [, ...pieces] = ranges('0-0 1-6,6-11,11-16,16-21')
    expect(split('1-1 1-21', 4)).toEqual(pieces)
  })
  test('K98 an extra empty partition changes nothing', () => {
    expect(split('1-5 1-21 1-1', 4)).toEqual(split('1-5 1-21', 4))
    expect(split('1-5 1-21 1-1', 4)).toEqual(ranges('1-5 1-7,7-14,14-21'))
  })
  test('K100 three large ranges: pieces of 5000', () => {
    const pieces = split('0-10000 0-15000 0-20000', 9)
    expect(counts(pieces)).toEqual([2, 3, 4])
    expect(new Set(pieces.map(sizeOf))).toEqual(new Set([5000n]))
  })
  test('B15 (b) one of 1000 and nine of 10 at 20: eleven pieces of the large one', () => {
    const pieces = split(['0-1000', ...Array<string>(9).fill('0-10')].join(' '), 20)
    expect(pieces.slice(0, 11).map(sizeOf)).toEqual([90n, ...Array<bigint>(10).fill(91n)])
    expect(counts(pieces)).toEqual([11, ...Array<number>(9).fill(1)])
  })
  test('B15 (d) sizes 100, 0, 1 at 4', () => {
    expect(split('0-100 0-0 0-1', 4).map(sizeOf)).toEqual([33n, 33n, 34n, 1n])
  })
  test('B15 (e) as many as the partitions with data: no split', () => {
    expect(split('0-100 0-0 0-1', 2).map(sizeOf)).toEqual([100n, 1n])
  })
})

describe('maxRecordsPerPartition', () => {
  test.each([
    ['K103', '1-5 1-2', 4n, null, '1-5 1-2'],
    ['K103', '1-6', 4n, null, '1-3,3-6'],
    ['K104', '1-40 1-50 1-60', 20n, null, '1-20,20-40 1-17,17-33,33-50 1-20,20-40,40-60'],
    ['K105', '1-40', 20n, 1, '1-20,20-40'],
    ['K106', '1-40', 20n, 4, '1-10,10-20,20-30,30-40'],
  ])('%s', (_id, given, maxRecords, minPartitions, pieces) => {
    expect(split(given, minPartitions, maxRecords)).toEqual(ranges(pieces))
  })

  test('with minPartitions: six pieces and one', () => {
    expect(counts(split('0-101 0-10', 8, 50n))).toEqual([6, 1])
  })

  test('X14 a partition with one small piece is not split further in any of its pieces', () => {
    // 5 of maximum 3 is cut into 2 and 3; at minPartitions 3 the share of 2 rounds to one piece, that of 3 to two.
    expect(split('0-5', 3, 3n)).toEqual(ranges('0-2,2-5'))
  })
})

test('B15 pieces are contiguous, disjoint, not empty, and cover exactly the ranges that are not empty', () => {
  const given = fc
    .array(
      fc.tuple(
        fc.bigInt({ min: 0n, max: 2n ** 60n }),
        fc.oneof(fc.bigInt({ min: -3n, max: 40n }), fc.bigInt({ min: 0n, max: 10n ** 6n }))
      ),
      {
        maxLength: 12,
      }
    )
    .map((list) => list.map(([from, size], partition) => ({ topic: 't', partition, from, until: from + size })))
  const minPartitions = fc.option(fc.integer({ min: 1, max: 60 }))
  const maxRecords = fc.option(fc.bigInt({ min: 1000n, max: 10n ** 6n }))
  fc.assert(
    fc.property(given, minPartitions, maxRecords, (all, min, max) => {
      const pieces = splitRanges(all, { minPartitions: min, maxRecordsPerPartition: max })
      const whole = all.filter((range) => sizeOf(range) > 0n)
      const byPartition = Map.groupBy(pieces, nameOf)
      expect([...byPartition.keys()]).toEqual(whole.map(nameOf))
      for (const range of whole) {
        let position = range.from
        for (const piece of byPartition.get(nameOf(range)) ?? []) {
          expect(piece.from).toBe(position)
          expect(sizeOf(piece) > 0n && (max === null || sizeOf(piece) <= max)).toBe(true)
          position = piece.until
        }
        expect(position).toBe(range.until)
      }
    })
  )
})
