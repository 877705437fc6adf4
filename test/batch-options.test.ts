import { describe, expect, test } from 'vitest'
import { parseBackfillOptions, parseBatchOptions } from '../src/batch-options.ts'
import type { BatchOptions } from '../src/batch-options.ts'
import { isSluiceError } from '../src/errors.ts'
import { parseOptions } from '../src/options.ts'
import { brokers, minimal } from './support/source-options.ts'

const parse = (raw: Record<string, unknown>, env: Record<string, string> = {}): BatchOptions =>
  parseBatchOptions({ ...minimal, ...raw }, (name) => env[name])

/** `CONDITION message` of what is refused. */
function refusal(raw: Record<string, unknown>): string {
  try {
    parseBatchOptions(raw, () => undefined)
  } catch (error) {
    if (isSluiceError(error)) return `${error.name} ${error.message}`
    throw error
  }
  return 'nothing was refused'
}
const refusalOf = (raw: Record<string, unknown>): string => refusal({ ...minimal, ...raw })

const both = (raw: Record<string, unknown>) => {
  const { startingOffsets, endingOffsets } = parse(raw)
  return { startingOffsets, endingOffsets }
}

describe('where a bounded read starts and ends', () => {
  test('K64 from earliest to latest by default', () => {
    expect(both({})).toEqual({ startingOffsets: { kind: 'earliest' }, endingOffsets: { kind: 'latest' } })
  })

  test('offsets on both sides, -2 and -1 as words', () => {
    const { startingOffsets, endingOffsets } = both({
      startingOffsets: '{"t":{"0":-2,"1":5}}',
      endingOffsets: { t: { 0: -1, 1: 9 } },
    })
    expect(startingOffsets).toMatchObject({
      kind: 'specific',
      positions: new Map([
        [
          't',
          new Map<number, unknown>([
            [0, 'earliest'],
            [1, 5n],
          ]),
        ],
      ]),
    })
    expect(endingOffsets).toMatchObject({
      kind: 'specific',
      positions: new Map([
        [
          't',
          new Map<number, unknown>([
            [0, 'latest'],
            [1, 9n],
          ]),
        ],
      ]),
    })
  })

  const timestamps = new Map([['t', new Map([[0, 7n]])]])

  test.each([
    [
      'globalTimestamp',
      { startingTimestamp: ' 5 ', startingOffsetsByTimestamp: 'x', startingOffsets: 'x' },
      { kind: 'globalTimestamp', timestamp: 5n, noMatch: 'error' },
    ],
    [
      'timestamps',
      { startingOffsetsByTimestamp: '{"t":{"0":7}}', startingOffsets: 'x' },
      { kind: 'timestamps', timestamps, noMatch: 'error' },
    ],
    ['offsets', { startingOffsets: 'Earliest' }, { kind: 'earliest' }],
    [
      'a strategy',
      { startingTimestamp: 5, startingOffsetsByTimestampStrategy: 'LATEST' },
      { kind: 'globalTimestamp', timestamp: 5n, noMatch: 'latest' },
    ],
  ] as const)(
    'the first of timestamp, timestamps and offsets counts, the others are not parsed: start by %s',
    (_what, raw, limit) => {
      expect(both(raw).startingOffsets).toEqual(limit)
    }
  )

  test.each([
    [
      'globalTimestamp',
      { endingTimestamp: 5n, endingOffsetsByTimestamp: 'x', endingOffsets: 'x' },
      { kind: 'globalTimestamp', timestamp: 5n, noMatch: 'latest' },
    ],
    [
      'timestamps',
      { endingOffsetsByTimestamp: { t: { 0: 7 } }, endingOffsets: 'x' },
      { kind: 'timestamps', timestamps, noMatch: 'latest' },
    ],
    ['offsets', { endingOffsets: ' LATEST' }, { kind: 'latest' }],
    [
      'timestamp, whatever the strategy',
      { endingTimestamp: '5', startingOffsetsByTimestampStrategy: 'error' },
      { kind: 'globalTimestamp', timestamp: 5n, noMatch: 'latest' },
    ],
  ] as const)('the same for the end: by %s', (_what, raw, limit) => {
    expect(both(raw).endingOffsets).toEqual(limit)
  })

  test('names are found in any case, K175', () => {
    const upper = { 'KAFKACONSUMER.POLLTIMEOUTMS': '1234', ENDINGOFFSETS: '{"t":{"0":3}}' }
    expect(parse(upper)).toMatchObject({ pollTimeoutMs: 1234, endingOffsets: { kind: 'specific' } })
    expect(parse({ 'kafkaconsumer.polltimeoutms': '1234' }).pollTimeoutMs).toBe(1234)
    expect(parse({ 'kafkaConsumer.pollTimeoutMs': '1234' }).pollTimeoutMs).toBe(1234)
  })

  test('of two spellings the last counts, with a warning; references are resolved and not shown', () => {
    expect(parse({ endingOffsets: 'x', EndingOffsets: 'latest' }).warnings).toEqual([
      "Option 'endingOffsets' is given as 'endingOffsets' and as 'EndingOffsets'; the last one counts.",
    ])
    expect(parse({ endingTimestamp: '{{env:END}}' }, { END: '12' }).endingOffsets).toMatchObject({ timestamp: 12n })
    expect(refusalOf({ endingOffsets: '{{env:MISSING}}' })).toContain('environment variable MISSING is not set')
  })
})

describe('a bounded read refuses', () => {
  const latest = "starting offset can't be latest for batch queries on Kafka"
  const earliest = "ending offset can't be earliest for batch queries on Kafka"

  test.each([
    [{ startingOffsets: 'latest' }, `OPTION_INVALID Option 'startingOffsets': ${latest}`],
    [{ startingOffsets: '{"t":{"0":4,"1":-1}}' }, `OPTION_INVALID Option 'startingOffsets': ${latest}: t-1 is -1`],
    [{ endingOffsets: 'earliest' }, `OPTION_INVALID Option 'endingOffsets': ${earliest}`],
    [{ endingOffsets: '{"t":{"0":-2}}' }, `OPTION_INVALID Option 'endingOffsets': ${earliest}: t-0 is -2`],
  ])('K78 %j', (raw, message) => {
    expect(refusalOf(raw)).toBe(message)
  })

  test.each([
    [{}, 'One of the following options must be specified'],
    [{ subscribe: 't', subscribePattern: 't.*' }, 'Only one of the following options can be specified'],
    [{ assign: '' }, 'No topicpartitions to assign'],
    [{ subscribe: '' }, 'No topics to subscribe to'],
    [{ subscribePattern: '' }, 'Pattern to subscribe is empty'],
  ])('K78 strategies %j', (strategy, message) => {
    expect(refusal({ ...brokers, ...strategy })).toContain(message)
  })

  test.each([
    ['startingTimestamp', 'soon', 'Expected a single long value'],
    ['endingTimestamp', '1.5', 'Expected a single long value'],
    ['endingTimestamp', '-1', 'Expected a single long value'],
    ['endingTimestamp', '9223372036854775808', 'Expected a single long value'],
    ['endingOffsetsByTimestamp', 'earliest', 'Expected e.g. {"topicA"'],
    ['startingOffsetsByTimestamp', '{"t":{"0":-1}}', 'the timestamp of t-0 is not an integer from 0'],
    ['endingOffsets', '{"t":3}', 'the value of topic "t" is not an object of partitions'],
    ['startingOffsetsByTimestampStrategy', 'first', 'No value found'],
  ])('%s=%s', (name, value, message) => {
    const text = refusalOf({ startingTimestamp: name.includes('Strategy') ? 1 : undefined, [name]: value })
    expect(text).toContain(`OPTION_INVALID Option '${name}': `)
    expect(text).toContain(message)
  })

  test('K82 maps of other partitions on both sides, naming both', () => {
    const start = '{"t":{"0":0,"1":0,"2":0}}'
    expect(refusalOf({ startingOffsets: start, endingOffsets: '{"t":{"0":1,"1":1}}' })).toBe(
      'MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET The starting and the ending options must name the same partitions. ' +
        'Start: t-0, t-1, t-2. End: t-0, t-1.'
    )
    expect(refusalOf({ startingOffsetsByTimestamp: start, endingOffsetsByTimestamp: '{"u":{"0":1}}' })).toContain(
      'MISMATCHED'
    )
    // Of two kinds, or with an end for all, there are no two maps to compare.
    expect(both({ startingOffsets: start, endingOffsetsByTimestamp: '{"t":{"0":1}}' })).toBeDefined()
    expect(both({ startingOffsets: start, endingTimestamp: 1 })).toBeDefined()
  })

  test('K83 a start above the end, in offsets and in timestamps', () => {
    expect(refusalOf({ startingOffsets: '{"t":{"0":1}}', endingOffsets: '{"t":{"0":0}}' })).toBe(
      'UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET The specified start offset 1 is greater than the end offset 0 ' +
        'for topic t partition 0. Exchange or correct them.'
    )
    const by = { startingOffsetsByTimestamp: '{"t":{"0":8}}', endingOffsetsByTimestamp: '{"t":{"0":7}}' }
    expect(refusalOf(by)).toContain('The specified start timestamp 8 is greater than the end timestamp 7')
    // Words and equal numbers are no such case.
    expect(
      both({ startingOffsets: '{"t":{"0":5,"1":-2,"2":3}}', endingOffsets: '{"t":{"0":-1,"1":0,"2":3}}' })
    ).toBeDefined()
  })

  test('the start first, then the end, then the other options, then one against the other', () => {
    const all = { startingOffsets: 'latest', endingOffsets: 'earliest', minPartitions: 0 }
    const apart = { startingOffsets: '{"t":{"0":1}}', endingOffsets: '{"t":{"0":0}}' }
    expect(refusalOf(all)).toContain("'startingOffsets'")
    expect(refusalOf({ ...all, startingOffsets: 'earliest' })).toContain("'endingOffsets'")
    expect(refusalOf({ ...apart, minPartitions: 0 })).toContain('minPartitions must be positive')
    expect(refusalOf(apart)).toContain('UNRESOLVED')
  })
})

test('what only a stream does is ignored with a warning, and kept by a backfill', () => {
  const raw = { ...minimal, maxOffsetsPerTrigger: 5, 'sluice.minBatchesToRetain': 3 }
  expect(parse(raw).warnings).toEqual([
    "Option 'maxOffsetsPerTrigger' is ignored in a bounded read.",
    "Option 'sluice.minBatchesToRetain' is ignored in a bounded read.",
  ])
  expect(parseBackfillOptions(raw, () => undefined)).toMatchObject({ maxOffsetsPerTrigger: 5n, warnings: [] })
})

test('X12 what Spark ignores without a word is refused: an ending timestamp of a stream, and an unknown name', () => {
  const stream = (raw: Record<string, unknown>) => parseOptions({ ...minimal, ...raw }, () => undefined)
  expect(() => stream({ endingTimestamp: 1 })).toThrow('ending timestamp not valid in streaming queries')
  expect(() => stream({ endingTimestampe: 1 })).toThrow(
    "Unknown option 'endingTimestampe'. Did you mean 'endingTimestamp'?"
  )
  expect(parse({ endingTimestamp: 1 }).endingOffsets).toMatchObject({ timestamp: 1n })
})
