import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { minimal, parse, refusal, refusalOf, withOption } from './support/source-options.ts'

describe('whole numbers', () => {
  test.each(['1', '4', '2147483647', 4])('K31 minPartitions %j', (value) => {
    expect(withOption('minPartitions', value).minPartitions).toBe(Number(value))
  })

  test.each(['a', '1.0', '0', '-1', '2147483648', '', 1.5, true])('K31 minPartitions %j is refused', (value) => {
    expect(refusalOf('minPartitions', value)).toMatchObject({
      name: 'OPTION_INVALID',
      parameters: { option: 'minPartitions' },
    })
  })

  test.each(['maxOffsetsPerTrigger', 'minOffsetsPerTrigger', 'maxRecordsPerPartition'] as const)(
    'B41 %s is exact up to 2^63-1',
    (name) => {
      for (const digits of ['9007199254740993', '9223372036854775807']) {
        expect(withOption(name, digits)[name]).toBe(BigInt(digits))
        expect(withOption(name, BigInt(digits))[name]).toBe(BigInt(digits))
      }
      fc.assert(
        fc.property(fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }), (n) => withOption(name, String(n))[name] === n)
      )
    }
  )

  test.each(['1e6', '0', '-5', 'abc', '9223372036854775808', '1_000', '10k', ' 5', '', 0, -5, 1e21, 2 ** 53, 0.5, NaN])(
    'B41 maxOffsetsPerTrigger %j is refused by name',
    (value) => {
      const error = refusalOf('maxOffsetsPerTrigger', value)
      expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: 'maxOffsetsPerTrigger' } })
      expect(error.message).toContain(String(value))
    }
  )

  test.each([
    ['maxRecordsPerPartition', '0'],
    ['kafkaConsumer.pollTimeoutMs', '0'],
    ['kafkaConsumer.pollTimeoutMs', '2147483648'], // a timer cannot wait longer
    ['fetchOffset.numRetries', '0'],
    ['fetchOffset.retryIntervalMs', '-1'],
    ['sluice.minBatchesToRetain', '0'],
    ['minOffsetsPerTrigger', '0'],
    ['minOffsetsPerTrigger', -1],
    ['minPartitions', {}],
    ['minPartitions', null],
  ])('%s=%j is refused', (name, value) => {
    expect(refusalOf(name, value)).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: name } })
  })
})

describe('the delay under a minimum', () => {
  const delayOf = (maxTriggerDelay: unknown) => parse({ ...minimal, minOffsetsPerTrigger: 1, maxTriggerDelay })

  test.each([
    ['1111', 1111],
    [1111, 1111],
    ['5s', 5000],
    ['15m', 900_000],
    ['15MIN', 900_000],
    [' 2h ', 7_200_000],
    ['1d', 86_400_000],
    ['20ms', 20],
    ['1999us', 1],
    ['0', 0],
  ])('%j is %d ms', (given, ms) => expect(delayOf(given).maxTriggerDelayMs).toBe(ms))

  test.each(['1.5m', '-5s', '5 s', '5 minutes', '5sec', 's', '', 'soon', 0.5, '104249991375d', {}])(
    '%j is refused by name',
    (given) => {
      expect(() => delayOf(given)).toThrow(
        expect.objectContaining({
          name: 'OPTION_INVALID',
          parameters: expect.objectContaining({ option: 'maxTriggerDelay' }),
        })
      )
    }
  )

  test('is 15 minutes, and is read under a minimum alone', () => {
    expect(delayOf(undefined).maxTriggerDelayMs).toBe(900_000)
    const alone = withOption('maxTriggerDelay', 'soon')
    expect(alone.maxTriggerDelayMs).toBe(900_000)
    expect(alone.warnings).toEqual(["Option 'maxTriggerDelay' has no effect without 'minOffsetsPerTrigger'."])
    expect(delayOf('5s').warnings).toEqual([])
  })
})

describe('a cap in bytes', () => {
  test.each([
    ['1', 1n],
    [1_048_576, 1_048_576n],
    ['64m', 64n * 1024n ** 2n],
    ['64MB', 64n * 1024n ** 2n],
    ['1g', 1024n ** 3n],
    ['10k', 10_240n],
    ['5b', 5n],
    ['2t', 2n * 1024n ** 4n],
    ['9223372036854775807', 2n ** 63n - 1n],
  ])('%j is %d bytes', (given, bytes) => {
    expect(withOption('sluice.maxBytesPerTrigger', given).maxBytesPerTrigger).toBe(bytes)
  })

  test.each(['0', 0, '0m', -5, '-5m', '1.5g', '64 m', 'm', '', '64mib', '64x', '9223372036854775808', '8192p', null])(
    '%j is refused by name',
    (given) => {
      expect(refusalOf('sluice.maxBytesPerTrigger', given)).toMatchObject({
        name: 'OPTION_INVALID',
        parameters: { option: 'sluice.maxBytesPerTrigger' },
      })
    }
  )
})

describe('references to the environment', () => {
  test('are resolved in any text, several in one', () => {
    const parsed = parse(
      {
        'kafka.bootstrap.servers': '{{env:HOST}}:{{env:PORT}}',
        subscribe: 'a-{{env:STAGE}}',
        minPartitions: '{{env:N}}',
      },
      { HOST: 'h', PORT: '9092', STAGE: 'dev', N: '6' }
    )
    expect(parsed).toMatchObject({
      kafka: { 'bootstrap.servers': 'h:9092' },
      strategy: { topics: ['a-dev'] },
      minPartitions: 6,
    })
  })

  test('a value is not looked into again', () => {
    const parsed = parse({ ...minimal, 'kafka.x': '{{env:A}}' }, { A: '{{env:B}}$&', B: 'no' })
    expect(parsed.kafka['x']).toBe('{{env:B}}$&')
  })

  test('a missing variable is named with its option', () => {
    const error = refusal({ ...minimal, 'kafka.sasl.jaas.config': 'u="a" p="s3cret" {{env:JAAS}}' })
    expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: 'kafka.sasl.jaas.config' } })
    expect(error.message).toContain('environment variable JAAS is not set')
    expect(error.message).not.toContain('s3cret')
  })

  test.each(['', 'A B', '1A', 'A-B'])('%j is no name of a variable', (name) => {
    expect(refusal({ ...minimal, subscribe: `{{env:${name}}}` }).message).toContain(`'${name}' is not the name`)
  })

  test.each(['minPartitions', 'failOnDataLoss', 'startingOffsets', 'kafka.isolation.level', 'maxOffsetsPerTrigger'])(
    'what a reference of %s stands for is not in the message',
    (name) => {
      const error = refusal({ ...minimal, [name]: '{{env:X}}' }, { X: 's3cret' })
      expect(error.message).toContain('{{env:X}}')
      expect(`${error.message} ${JSON.stringify(error.parameters)}`).not.toContain('s3cret')
    }
  )
})

test.each([
  ['kafka.sasl.jaas.config', { subscribe: '' }],
  ['kafka.ssl.key.password', { 'kafka.isolation.level': 'x' }],
  ['KAFKA.ssl.keystore.key', { endingOffsets: 'x' }],
  ['kafka.ssl.truststore.password', { 'kafka.bootstrap.servers': '' }],
  ['kafka.auto.offset.reset', {}],
  ['sasl.jaas.config', {}],
  ['ssl.keypassword', {}],
])('no message holds the value of %s', (name, fault) => {
  const error = refusal({ ...minimal, [name]: 's3cret', ...fault })
  expect(`${error.stack} ${JSON.stringify(error.parameters)}`).not.toContain('s3cret')
})
