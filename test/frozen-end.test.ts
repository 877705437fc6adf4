import { describe, expect, test } from 'vitest'
import { checkFrozenEnd } from '../src/frozen-end.ts'
import { offsetsFromJson, offsetsOf } from '../src/offsets.ts'
import type { PartitionOffsets } from '../src/offsets.ts'

const none = new Set<string>()

function check(end: string, frozen: string, latest: string, recreated: ReadonlySet<string> = none): unknown {
  const [e, f, l] = [end, frozen, latest].map(offsetsFromJson) as [PartitionOffsets, PartitionOffsets, PartitionOffsets]
  try {
    checkFrozenEnd({ end: e, frozen: f, latest: l, recreated })
    return 'fine'
  } catch (error) {
    return error
  }
}

describe('a batch under a frozen end', () => {
  test.each([
    ['{"t":{"0":3,"1":0}}', '{"t":{"0":5,"1":0}}', '{"t":{"0":5,"1":0}}', 'a part of it'],
    ['{"t":{"0":5,"1":0}}', '{"t":{"1":0,"0":5}}', '{"t":{"0":5,"1":0}}', 'all of it'],
    ['{"t":{"0":5}}', '{"t":{"0":5}}', '{"t":{"0":900,"1":7},"u":{"0":1}}', 'partitions and records came since'],
    ['{"t":{"0":3}}', '{"t":{"0":5}}', '{"t":{"0":4}}', 'what is lost lies behind it'],
  ])('%s of %s over %s is fine: %s', (end, frozen, latest) => {
    expect(check(end, frozen, latest)).toBe('fine')
  })

  test.each([
    ['{"t":{"0":5}}', '{"t":{"0":5,"1":2}}'],
    ['{"t":{"0":5,"1":2}}', '{"t":{"0":5}}'],
  ])('%s of %s ends in other partitions', (end, frozen) => {
    const name = (json: string): string => (json.includes('"1"') ? '{t-0, t-1}' : '{t-0}')
    expect(check(end, frozen, '{"t":{"0":9,"1":9}}')).toMatchObject({
      name: 'MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED',
      parameters: { tpsForPrefetched: name(frozen), tpsForEndOffset: name(end) },
    })
  })

  test('ends beyond it', () => {
    expect(check('{"t":{"0":6,"1":1}}', '{"t":{"0":5,"1":1}}', '{"t":{"0":9,"1":9}}')).toMatchObject({
      name: 'END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED',
      parameters: { prefetchedOffset: '{t-0: 5, t-1: 1}', endOffset: '{t-0: 6, t-1: 1}' },
    })
  })

  test('K3 ends in partitions that are gone, before offsets are compared', () => {
    expect(check('{"t":{"0":5,"1":5}}', '{"t":{"0":5,"1":5}}', '{"t":{"0":2}}')).toMatchObject({
      name: 'LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW',
      parameters: { tpsForLatestOffset: '{t-0}', tpsForEndOffset: '{t-0, t-1}' },
    })
  })

  test('K4 ends beyond what is there', () => {
    expect(check('{"t":{"0":5,"1":5}}', '{"t":{"0":5,"1":5}}', '{"t":{"0":4,"1":9}}')).toMatchObject({
      name: 'END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW',
      parameters: { latestOffset: '{t-0: 4, t-1: 9}', endOffset: '{t-0: 5, t-1: 5}' },
    })
  })

  test('of a recreated topic has to have the run’s end before it', () => {
    const frozen = '{"t":{"0":6},"u":{"0":6}}'
    expect(check('{"t":{"0":3},"u":{"0":3}}', frozen, '{"t":{"0":5},"u":{"0":6}}', new Set(['u']))).toBe('fine')
    expect(check('{"t":{"0":3},"u":{"0":3}}', frozen, '{"t":{"0":5},"u":{"0":5}}', new Set(['u']))).toMatchObject({
      name: 'END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW',
    })
  })

  test('of thousands of partitions has a message of bounded length', () => {
    const many = offsetsOf(Array.from({ length: 5000 }, (_, partition) => ({ topic: 't', partition, offset: 1n })))
    const act = (): void => checkFrozenEnd({ end: many, frozen: many, latest: new Map(), recreated: none })
    expect(act).toThrow(/now: \{\}, end of the batch: \{t-0, .*, t-99, and 4900 more\}/)
  })
})
