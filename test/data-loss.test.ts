import { describe, expect, test } from 'vitest'
import { admitOffsets } from '../src/admission.ts'
import { checkDataLoss, describeFindings, enforce, recreatedTopics } from '../src/data-loss.ts'
import type { DataLossFinding, DataLossInput, DataLossReason } from '../src/data-loss.ts'
import { offsetsFromJson } from '../src/offsets.ts'

/** Maps as JSON. */
const check = (
  start: string,
  end: string,
  earliestOfNew = '{}',
  more: Pick<DataLossInput, 'groupIdGiven' | 'recreated'> = {}
) => {
  const { ranges, findings } = checkDataLoss({
    start: offsetsFromJson(start),
    end: offsetsFromJson(end),
    earliestOfNew: offsetsFromJson(earliestOfNew),
    ...more,
  })
  return {
    ranges: ranges.map((r) => `${r.topic}-${r.partition} [${r.from},${r.until})`),
    findings,
    reasons: findings.map((f) => `${f.topic}-${f.partition} ${f.reason}`),
    text: describeFindings(findings),
  }
}

describe('what a batch finds', () => {
  test('nothing: one range for each partition with data, in order', () => {
    const found = check('{"t":{"10":1,"9":1,"2":5}}', '{"t":{"10":4,"9":2,"2":5}}')
    expect(found.ranges).toEqual(['t-9 [1,2)', 't-10 [1,4)'])
    expect(found.findings).toEqual([])
  })

  test('a new partition is read from its earliest offset, 0', () => {
    const found = check('{"t":{"0":5}}', '{"t":{"0":5,"1":3}}', '{"t":{"1":0}}')
    expect(found).toMatchObject({ ranges: ['t-1 [0,3)'], findings: [] })
  })

  test('an empty new partition and no other data: no range, no loss', () => {
    expect(check('{"t":{"0":5}}', '{"t":{"0":5,"1":0}}', '{"t":{"1":0}}')).toMatchObject({ ranges: [], findings: [] })
  })

  test('a new partition that is gone before its earliest offset is known', () => {
    const found = check('{"t":{"0":5}}', '{"t":{"0":5,"1":3}}')
    expect(found).toMatchObject({ ranges: [], reasons: ['t-1 INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS'] })
  })

  test('X7 a new partition that does not start from 0 fails by default; tolerated, it is read from there', () => {
    const found = check('{"t":{"0":5}}', '{"t":{"0":5,"1":9}}', '{"t":{"1":4}}')
    expect(found.findings).toEqual([
      { reason: 'ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO', topic: 't', partition: 1, from: 0n, until: 4n },
    ])
    expect(found.ranges).toEqual(['t-1 [4,9)'])
    expect(() => enforce(found.findings, true)).toThrow(/t-1: the new partition starts from offset 4, not from 0/)
  })

  test('a deleted partition, at its stored position', () => {
    const found = check('{"t":{"0":5,"1":7},"u":{"0":1}}', '{"t":{"0":6}}')
    expect(found.ranges).toEqual(['t-0 [5,6)'])
    expect(found.reasons).toEqual(['t-1 PARTITIONS_DELETED', 'u-0 PARTITIONS_DELETED'])
    expect(found.findings[0]).toMatchObject({ from: 7n, until: 7n })
    expect(found.text).toContain('t-1: the partition is gone, it was read up to offset 7')
  })

  test('a deleted partition of a query with kafka.group.id', () => {
    const found = check('{"t":{"0":5,"1":7}}', '{"t":{"0":5}}', '{}', { groupIdGiven: true })
    expect(found.reasons).toEqual(['t-1 PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT'])
    expect(found.text).toContain('kafka.group.id')
  })

  test('a lower end: named, and no range', () => {
    const found = check('{"t":{"0":2,"1":0}}', '{"t":{"0":1,"1":3}}')
    expect(found.ranges).toEqual(['t-1 [0,3)'])
    expect(found.text).toBe('t-0: offset was changed from 2 to 1 (PARTITION_OFFSET_CHANGED)')
  })

  test('a new partition whose end lies below its earliest offset', () => {
    const found = check('{}', '{"t":{"0":3}}', '{"t":{"0":9}}')
    expect(found.ranges).toEqual([])
    expect(found.reasons).toEqual([
      't-0 ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO',
      't-0 PARTITION_OFFSET_CHANGED',
    ])
  })

  test("all at once come in the order of Spark's checks", () => {
    const found = check('{"t":{"0":5,"1":7}}', '{"t":{"0":4,"2":9,"3":9}}', '{"t":{"2":1}}')
    expect(found.reasons).toEqual([
      't-3 INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS',
      't-2 ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO',
      't-1 PARTITIONS_DELETED',
      't-0 PARTITION_OFFSET_CHANGED',
    ])
  })
})

describe('a recreated topic', () => {
  const before = new Map([
    ['t', 'A'],
    ['u', 'B'],
  ])

  test('is one whose id is known on both sides and differs', () => {
    const now = new Map([
      ['t', 'C'],
      ['u', 'B'],
      ['v', 'D'],
    ])
    expect([...recreatedTopics(before, now)]).toEqual(['t'])
    expect(recreatedTopics(new Map(), now).size).toBe(0)
    expect(recreatedTopics(before, new Map()).size).toBe(0)
  })

  test('starts at its earliest offset, even where it has grown past the stored position', () => {
    const recreated = new Set(['t'])
    const found = check('{"t":{"0":500},"u":{"0":1}}', '{"t":{"0":800},"u":{"0":2}}', '{"t":{"0":0}}', { recreated })
    expect(found.ranges).toEqual(['t-0 [0,800)', 'u-0 [1,2)'])
    expect(found.findings).toEqual([
      { reason: 'TOPIC_RECREATED', topic: 't', partition: 0, from: 500n, until: 0n, newEnd: 800n },
    ])
    expect(found.text).toContain('offset was changed from 500 to 800, and the new one starts from 0')
  })

  test('with fewer or more partitions: those that are gone and those that are new are judged as ever', () => {
    const recreated = new Set(['t'])
    const found = check('{"t":{"0":5,"1":7}}', '{"t":{"0":4,"2":9}}', '{"t":{"0":0,"2":0}}', { recreated })
    expect(found.ranges).toEqual(['t-0 [0,4)', 't-2 [0,9)'])
    expect(found.reasons).toEqual(['t-0 TOPIC_RECREATED', 't-1 PARTITIONS_DELETED'])
  })
})

describe('severity', () => {
  const { findings } = check('{"t":{"0":500,"1":7}}', '{"t":{"0":300}}')

  test('failOnDataLoss=true: one error names each finding', () => {
    const fail = () => enforce(findings, true)
    expect(fail).toThrow(expect.objectContaining({ name: 'KAFKA_DATA_LOSS', retryable: false }))
    expect(fail).toThrow(/t-1: the partition is gone.*t-0: offset was changed from 500 to 300/)
  })

  test('failOnDataLoss=false: the findings come back to be reported', () => {
    expect(enforce(findings, false)).toEqual(findings)
  })

  test('no finding is no error', () => expect(enforce([], true)).toEqual([]))

  test('B07 (b) a start beyond the end: the first plan fails and names both numbers', () => {
    const start = offsetsFromJson('{"t":{"0":50,"1":0,"2":0}}')
    const latest = offsetsFromJson('{"t":{"0":20,"1":20,"2":20}}')
    const earliestOfNew = new Map()
    for (const maxOffsets of [null, 10n]) {
      const limit = { min: null, maxOffsets }
      const admission = admitOffsets({ start, latest, earliestOfNew, limit, fresh: true })
      const end = admission.kind === 'admit' ? admission.end : start
      const found = checkDataLoss({ start, end, earliestOfNew })
      expect(() => enforce(found.findings, true)).toThrow(/t-0: offset was changed from 50 to 20/)
    }
  })
})

describe('words', () => {
  const reasons: Record<DataLossReason, true> = {
    INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS: true,
    ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: true,
    PARTITIONS_DELETED: true,
    PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT: true,
    PARTITION_OFFSET_CHANGED: true,
    COULD_NOT_READ_OFFSET_RANGE: true,
    TOPIC_RECREATED: true,
  }
  const finding = (reason: string, partition = 0): DataLossFinding => ({
    reason: reason as DataLossReason,
    topic: 't',
    partition,
    from: 3n,
    until: 8n,
  })

  test.each(Object.keys(reasons))('%s is named with its partition', (reason) => {
    const text = describeFindings([finding(reason)])
    expect(text).toMatch(/^t-0: /)
    expect(text).toContain(`(${reason})`)
  })

  test('a range that cannot be read names its bounds', () => {
    expect(describeFindings([finding('COULD_NOT_READ_OFFSET_RANGE')])).toContain('offsets [3, 8)')
  })

  test('thousands of findings are counted, not listed', () => {
    const text = describeFindings(Array.from({ length: 3000 }, (_, p) => finding('PARTITIONS_DELETED', p)))
    expect(text).toContain('t-99: ')
    expect(text).not.toContain('t-100: ')
    expect(text).toMatch(/; and 2900 more$/)
  })
})
