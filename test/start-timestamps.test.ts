/** Starts by timestamp: the sets, the match, and what becomes of a partition without one. */
import { describe, expect, test } from 'vitest'
import { parseTimestamps, resolveOffsets, timestampsToMatch } from '../src/offset-range-limit.ts'
import type { NoMatchStrategy, OffsetRangeLimit } from '../src/offset-range-limit.ts'
import { offsetsFromJson, offsetsToJson } from '../src/offsets.ts'

const assigned = [0, 1, 2].map((partition) => ({ topic: 't', partition }))
const limitOf = (json: string, noMatch: NoMatchStrategy = 'error'): OffsetRangeLimit => ({
  kind: 'timestamps',
  timestamps: parseTimestamps(json),
  noMatch,
})
const globalOf = (timestamp: bigint, noMatch: NoMatchStrategy = 'error'): OffsetRangeLimit => ({
  kind: 'globalTimestamp',
  timestamp,
  noMatch,
})

describe('what is asked for', () => {
  test('the map as it is, or the one timestamp for each partition; nothing for offsets', () => {
    const json = '{"t":{"0":1000,"1":2000,"2":9007199254740993}}'
    const textOf = (limit: OffsetRangeLimit) => offsetsToJson(timestampsToMatch(limit, assigned) ?? new Map())
    expect(textOf(limitOf(json))).toBe(json)
    expect(textOf(globalOf(1500n))).toBe('{"t":{"0":1500,"1":1500,"2":1500}}')
    expect(timestampsToMatch({ kind: 'latest' }, assigned)).toBeNull()
    expect(timestampsToMatch({ kind: 'specific', positions: new Map() }, assigned)).toBeNull()
  })

  test.each([
    ['K142', '{"t":{"0":1,"1":1}}', { specified: 't-0, t-1', missing: 't-2', extra: 'none' }],
    ['K143', '{"t":{"0":1,"1":1,"2":1,"3":1}}', { missing: 'none', extra: 't-3' }],
    ['B07 (d)', '{"t":{"0":1,"2":1}}', { missing: 't-1' }],
    ['another topic', '{"u":{"0":1}}', { missing: 't-0, t-1, t-2', extra: 'u-0' }],
  ])('%s: %s names other partitions than there are', (_id, json, sets) => {
    expect(() => timestampsToMatch(limitOf(json), assigned)).toThrow(
      expect.objectContaining({
        name: 'KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED',
        parameters: expect.objectContaining({ position: 'start', assigned: 't-0, t-1, t-2', ...sets }),
      })
    )
  })
})

describe('where it starts', () => {
  const observed = {
    assigned,
    earliest: offsetsFromJson('{"t":{"0":0,"1":0,"2":0}}'),
    latest: offsetsFromJson('{"t":{"0":3,"1":2,"2":9}}'),
  }
  const startOf = (limit: OffsetRangeLimit, matched: string): string =>
    offsetsToJson(resolveOffsets(limit, { ...observed, matched: offsetsFromJson(matched) }))
  const all = '{"t":{"0":2000,"1":2000,"2":2000}}'

  test.each([limitOf(all), globalOf(2000n), globalOf(2000n, 'latest')])('at each match', (limit) => {
    expect(startOf(limit, '{"t":{"0":1,"1":0,"2":8}}')).toBe('{"t":{"0":1,"1":0,"2":8}}')
  })

  test.each([limitOf(all), globalOf(2000n)])('B08 without a match an error that names partition and time', (limit) => {
    expect(() => startOf(limit, '{"t":{"0":1}}')).toThrow(
      'No offset matched from request of topic-partition t-1 and timestamp 2000; topic-partition t-2 and timestamp 2000.'
    )
  })

  test.each([limitOf(all, 'latest'), globalOf(2000n, 'latest')])(
    'B08 or, with the strategy latest, at its end: never at 0',
    (limit) => {
      expect(startOf(limit, '{"t":{"0":1,"2":8}}')).toBe('{"t":{"0":1,"1":2,"2":8}}')
    }
  )

  test('a match that lies beyond the end found before is the start: the record came in between', () => {
    expect(startOf(globalOf(2000n, 'latest'), '{"t":{"0":1,"1":2,"2":11}}')).toBe('{"t":{"0":1,"1":2,"2":11}}')
  })

  test('a partition that vanished meanwhile has no start and is no error', () => {
    const gone = {
      ...observed,
      latest: offsetsFromJson('{"t":{"0":3,"2":9}}'),
      matched: offsetsFromJson('{"t":{"0":1,"2":8}}'),
    }
    expect(offsetsToJson(resolveOffsets(globalOf(2000n), gone))).toBe('{"t":{"0":1,"2":8}}')
  })
})
