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

  test.each(['maxOffsetsPerTrigger', 'maxRecordsPerPartition'] as const)('B41 %s is exact up to 2^63-1', (name) => {
    for (const digits of ['9007199254740993', '9223372036854775807']) {
      expect(withOption(name, digits)[name]).toBe(BigInt(digits))
      expect(withOption(name, BigInt(digits))[name]).toBe(BigInt(digits))
    }
    fc.assert(fc.property(fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }), (n) => withOption(name, String(n))[name] === n))
  })

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
    ['minPartitions', {}],
    ['minPartitions', null],
  ])('%s=%j is refused', (name, value) => {
    expect(refusalOf(name, value)).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: name } })
  })
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
