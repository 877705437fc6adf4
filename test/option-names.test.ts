import { describe, expect, test } from 'vitest'
import { minimal, parse, refusalOf, withOption } from './support/source-options.ts'

describe('names', () => {
  test('any case names the same option', () => {
    const options = {
      ...minimal,
      'kafkaConsumer.pollTimeoutMs': '1000',
      'fetchOffset.numRetries': '22',
      'fetchOffset.retryIntervalMs': '2000',
      maxOffsetsPerTrigger: '30',
      'kafka.isolation.level': 'read_committed',
    }
    const inCase = (change: (name: string) => string) =>
      parse(Object.fromEntries(Object.entries(options).map(([name, value]) => [change(name), value])))
    expect(inCase((name) => name.toUpperCase())).toEqual(parse(options))
    expect(inCase((name) => name.toLowerCase())).toEqual(parse(options))
    expect(parse(options)).toMatchObject({ pollTimeoutMs: 1000, fetchOffsetNumRetries: 22, maxOffsetsPerTrigger: 30n })
  })

  test.each(['startingOffsets', 'STARTINGOFFSETS', 'startingoffsets'])('K60 %s is found in any case', (name) => {
    expect(withOption(name, 'earLiEst').startingOffsets).toEqual({ kind: 'earliest' })
    expect(withOption(name, ' laTest ').startingOffsets).toEqual({ kind: 'latest' })
    expect(withOption(name, '{"t":{"0":1}}').startingOffsets.kind).toBe('specific')
    expect(parse(minimal).startingOffsets).toEqual({ kind: 'latest' })
  })

  test('two spellings of one option: the last counts, with a warning that holds no value', () => {
    const parsed = parse({ ...minimal, 'kafka.ssl.key.password': 'old', 'KAFKA.SSL.KEY.PASSWORD': 'new' })
    expect(parsed.kafka['ssl.key.password']).toBe('new')
    expect(parsed.warnings).toEqual([
      "Option 'kafka.ssl.key.password' is given as 'kafka.ssl.key.password' and as 'KAFKA.SSL.KEY.PASSWORD'; the last one counts.",
    ])
  })

  test.each([
    ['maxOffsetPerTrigger', 'maxOffsetsPerTrigger'],
    ['maxoffsetspertriger', 'maxOffsetsPerTrigger'],
    ['subcribe', 'subscribe'],
    ['startingOffset', 'startingOffsets'],
    [' assign', 'assign'],
    ['kafkaConsumer.pollTimeout', 'kafkaConsumer.pollTimeoutMs'],
    ['sluice.minBatchToRetain', 'sluice.minBatchesToRetain'],
    ['bootstrap.servers', 'kafka.bootstrap.servers'],
    ['sasl.jaas.config', 'kafka.sasl.jaas.config'],
    ['startingTimestmp', 'startingTimestamp'],
    ['checkpointLocation', null],
    ['kafka.', null],
    ['', null],
  ])('unknown option %j is refused; the nearest is %j', (option, nearest) => {
    expect(refusalOf(option, 'x')).toMatchObject({ name: 'OPTION_UNKNOWN', parameters: { option, nearest } })
  })
})
