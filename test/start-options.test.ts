/** Where a query starts and which topics it reads, as options. */
import { describe, expect, test } from 'vitest'
import type { KafkaOptions } from '../src/options.ts'
import { describeSource } from '../src/options.ts'
import { brokers, minimal, parse, refusal, refusalOf, withOption } from './support/source-options.ts'

describe('a start by timestamp', () => {
  test.each([1500, '1500', ' 1500 ', 1500n])('startingTimestamp %o', (value) => {
    expect(withOption('startingTimestamp', value).startingOffsets).toEqual({
      kind: 'globalTimestamp',
      timestamp: 1500n,
      noMatch: 'error',
    })
  })

  test.each(['', 'now', '1.5', '-1', '1e3', 1.5, '9223372036854775808', '{"t":{"0":1}}'])(
    'startingTimestamp %j is refused',
    (value) => {
      const error = refusalOf('startingTimestamp', value)
      expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: 'startingTimestamp' } })
      expect(error.message).toContain('Expected a single long value')
    }
  )

  test.each(['{"t":{"0":1500,"1":9007199254740993}}', { t: { 0: 1500, 1: 9007199254740993n } }])(
    'startingOffsetsByTimestamp %o',
    (value) => {
      expect(withOption('startingOffsetsByTimestamp', value).startingOffsets).toEqual({
        kind: 'timestamps',
        timestamps: new Map([
          [
            't',
            new Map([
              [0, 1500n],
              [1, 9007199254740993n],
            ]),
          ],
        ]),
        noMatch: 'error',
      })
    }
  )

  test.each(['latest', '1500', '{"t":5}', '{"t":{"0":-1}}', '{"t":{"0":"1500"}}', { t: { 0: 2 ** 60 } }])(
    'startingOffsetsByTimestamp %j is refused with an example',
    (value) => {
      const error = refusalOf('startingOffsetsByTimestamp', value)
      expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: 'startingOffsetsByTimestamp' } })
      expect(error.message).toContain('Expected e.g. {"topicA":{"0":123456789')
    }
  )

  test.each([
    ['error', 'error'],
    ['ERROR', 'error'],
    ['Latest', 'latest'],
  ])('the strategy %s', (value, noMatch) => {
    const parsed = parse({ ...minimal, startingTimestamp: 1, startingOffsetsByTimestampStrategy: value })
    expect(parsed.startingOffsets).toMatchObject({ noMatch })
  })

  test('another strategy is refused, also where no timestamp is given', () => {
    for (const value of ['earliest', '', 'none'])
      expect(refusalOf('startingOffsetsByTimestampStrategy', value).message).toContain('No value found')
  })
})

describe('of several starts only the first in precedence is looked at', () => {
  const wrong = 'neither here nor there'
  const all = { startingOffsets: wrong, startingOffsetsByTimestamp: wrong }

  test('startingTimestamp, startingOffsetsByTimestamp, startingOffsets, latest', () => {
    const kindOf = (given: Record<string, unknown>): string => parse({ ...minimal, ...given }).startingOffsets.kind
    expect(kindOf({ ...all, startingTimestamp: 1 })).toBe('globalTimestamp')
    expect(kindOf({ ...all, startingOffsetsByTimestamp: '{"t":{"0":1}}' })).toBe('timestamps')
    expect(kindOf({ startingOffsets: 'earliest' })).toBe('earliest')
    expect(kindOf({})).toBe('latest')
  })

  test('the others are named by a notice; the names of all are kept for a query that resumes', () => {
    const parsed = parse({
      ...minimal,
      startingOffsets: 'earliest',
      StartingTimestamp: '1',
      startingoffsetsbytimestamp: wrong,
    })
    expect(parsed.startOptions).toEqual(['startingTimestamp', 'startingOffsetsByTimestamp', 'startingOffsets'])
    expect(parsed.warnings).toEqual([
      "Option 'startingOffsetsByTimestamp' is not used: 'startingTimestamp' comes before it.",
      "Option 'startingOffsets' is not used: 'startingTimestamp' comes before it.",
    ])
  })

  test('a strategy counts for timestamps alone', () => {
    const given = { ...minimal, startingOffsetsByTimestampStrategy: 'latest' }
    expect(parse(given).warnings).toEqual([expect.stringContaining('has no effect without a timestamp')])
    expect(parse({ ...given, startingTimestamp: 1 })).toMatchObject({
      warnings: [],
      startOptions: ['startingTimestamp', 'startingOffsetsByTimestampStrategy'],
    })
  })

  test('none given, none kept', () => {
    expect(parse(minimal)).toMatchObject({ startOptions: [], warnings: [] })
  })
})

describe('a pattern', () => {
  test('is trimmed and finds its match anywhere in a name', () => {
    const options: KafkaOptions = { ...brokers, subscribePattern: ' order ' }
    const { strategy } = parse({ ...options })
    expect(strategy).toMatchObject({ kind: 'subscribePattern', pattern: 'order' })
    const matched = ['my-orders', 'order', 'payments'].filter(
      (topic) => strategy.kind === 'subscribePattern' && strategy.regex.test(topic)
    )
    expect(matched).toEqual(['my-orders', 'order'])
  })

  test("is described in Spark's words", () => {
    expect(describeSource(parse({ ...brokers, subscribePattern: 't.*' }))).toBe('KafkaV2[SubscribePattern[t.*]]')
  })

  test.each([
    ['(', 'a group that is not closed'],
    ['(a)\\1', 'the back-reference \\1'],
    ['\\p{IsGreek}', 'the property \\p{IsGreek}'],
  ])('%s is refused: %s', (pattern, construct) => {
    const error = refusal({ ...brokers, subscribePattern: pattern })
    expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: 'subscribePattern' } })
    expect(error.message).toContain(construct)
    expect(error.message).toContain(`'${pattern}'`)
  })

  test('that came from the environment is not shown', () => {
    const error = refusal({ ...brokers, subscribePattern: '{{env:PATTERN}}' }, { PATTERN: '(secret' })
    expect(error.message).not.toContain('secret')
  })
})

describe("K58 bad source options, in Spark's words", () => {
  test.each([
    [{ ...minimal, endingOffsets: 'latest' }, 'ending offset not valid in streaming queries'],
    [{ ...minimal, endingOffsetsByTimestamp: '{"t":{"0":1}}' }, 'ending timestamp not valid in streaming queries'],
    [brokers, 'One of the following options must be specified for Kafka source'],
    [{ ...minimal, assign: '{"t":[0]}' }, 'Only one of the following options can be specified for Kafka source'],
    [{ ...minimal, subscribePattern: 't' }, 'Only one of the following options can be specified for Kafka source'],
    [{ ...brokers, assign: '' }, 'No topicpartitions to assign'],
    [{ ...brokers, subscribe: '' }, 'No topics to subscribe to'],
    [{ ...brokers, subscribePattern: '' }, 'Pattern to subscribe is empty'],
    [
      { ...minimal, minOffsetsPerTrigger: 20, maxOffsetsPerTrigger: 15 },
      'value of minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(15)',
    ],
  ])('%j', (raw, words) => {
    expect(refusal(raw).message).toContain(words)
  })
})
