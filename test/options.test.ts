import { describe, expect, test } from 'vitest'
import { describeSource } from '../src/options.ts'
import type { KafkaOptions, SourceOptions } from '../src/options.ts'
import { brokers, minimal, parse, refusal, refusalOf, withOption } from './support/source-options.ts'

describe('defaults and values', () => {
  test("without options Spark's defaults hold", () => {
    expect(parse(minimal)).toMatchObject({
      kafka: { 'bootstrap.servers': 'a:9092,b:9092' },
      strategy: { kind: 'subscribe', topics: ['t'] },
      startingOffsets: { kind: 'latest' },
      maxOffsetsPerTrigger: null,
      minOffsetsPerTrigger: null,
      maxTriggerDelayMs: 900_000,
      maxBytesPerTrigger: null,
      targetBytesPerWorker: null,
      minPartitions: null,
      maxRecordsPerPartition: null,
      isolationLevel: 'read_uncommitted',
      includeHeaders: false,
      failOnDataLoss: true,
      pollTimeoutMs: 120_000,
      fetchOffsetNumRetries: 3,
      fetchOffsetRetryIntervalMs: 1000,
      clientId: 'sluice',
      groupIdGiven: false,
      minBatchesToRetain: 100,
      warnings: [],
    })
  })

  test('every option is read, as text, number, boolean or object', () => {
    const options: KafkaOptions = {
      ...brokers,
      assign: { t: [0, 1] },
      startingOffsets: { t: { 0: 5, 1: -1 } },
      maxOffsetsPerTrigger: 2_000_000,
      minOffsetsPerTrigger: '1000',
      maxTriggerDelay: '5m',
      'sluice.maxBytesPerTrigger': '64m',
      'sluice.targetBytesPerWorker': '300m',
      minPartitions: '8',
      maxRecordsPerPartition: 500n,
      includeHeaders: true,
      failOnDataLoss: 'false',
      'kafkaConsumer.pollTimeoutMs': 512,
      'fetchOffset.numRetries': '5',
      'fetchOffset.retryIntervalMs': 0,
      groupIdPrefix: 'orders',
      'sluice.minBatchesToRetain': 7,
      'kafka.isolation.level': 'read_committed',
      'kafka.security.protocol': 'SSL',
      'kafka.fetch.max.bytes': 1024,
      'kafka.check.crcs': true,
    }
    const parsed = parse({ ...options })
    expect(parsed).toMatchObject({
      strategy: { kind: 'assign' },
      maxOffsetsPerTrigger: 2_000_000n,
      minOffsetsPerTrigger: 1000n,
      maxTriggerDelayMs: 300_000,
      maxBytesPerTrigger: 67_108_864n,
      targetBytesPerWorker: 314_572_800n,
      minPartitions: 8,
      maxRecordsPerPartition: 500n,
      includeHeaders: true,
      failOnDataLoss: false,
      pollTimeoutMs: 512,
      fetchOffsetNumRetries: 5,
      fetchOffsetRetryIntervalMs: 0,
      clientId: 'orders-sluice',
      minBatchesToRetain: 7,
      isolationLevel: 'read_committed',
    })
    expect(parsed.kafka).toEqual({
      'bootstrap.servers': 'a:9092,b:9092',
      'security.protocol': 'SSL',
      'fetch.max.bytes': '1024',
      'check.crcs': 'true',
    })
    expect(parsed.startingOffsets).toEqual({
      kind: 'specific',
      positions: new Map([
        [
          't',
          new Map<number, unknown>([
            [0, 5n],
            [1, 'latest'],
          ]),
        ],
      ]),
    })
  })

  test('undefined is an option that is not given', () => {
    expect(withOption('maxOffsetsPerTrigger', undefined).maxOffsetsPerTrigger).toBeNull()
  })

  test("a source is described in Spark's words", () => {
    expect(describeSource(parse({ ...brokers, subscribe: 't1, t2' }))).toBe('KafkaV2[Subscribe[t1, t2]]')
    expect(describeSource(parse({ ...brokers, assign: '{"t":[0,1]}' }))).toBe('KafkaV2[Assign[t-0, t-1]]')
  })
})

describe('the strategy', () => {
  test('K58 none', () => {
    const error = refusal(brokers)
    expect(error.name).toBe('OPTION_CONFLICT')
    expect(error.message).toContain('One of the following options must be specified')
  })

  test.each([
    { subscribe: 't', assign: '{"t":[0]}' },
    { subscribe: 't', subscribePattern: 't.*' },
    { assign: '{"t":[0]}', subscribePattern: 't.*' },
  ])('K58 two: %j', (two) => {
    const error = refusal({ ...brokers, ...two })
    expect(error.name).toBe('OPTION_CONFLICT')
    expect(error.message).toContain('Only one of the following options can be specified')
    for (const name of Object.keys(two)) expect(error.message).toContain(`'${name}'`)
  })

  test.each([
    ['assign', '', 'No topicpartitions to assign'],
    ['assign', '{"t":[0', 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}'],
    ['subscribe', ' , ', 'No topics to subscribe to'],
    ['subscribePattern', ' ', 'Pattern to subscribe is empty'],
  ])('K58 %s=%j: %s', (name, value, message) => {
    const error = refusal({ ...brokers, [name]: value })
    expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: name } })
    expect(error.message).toContain(message)
  })
})

describe('a minimum', () => {
  const limits = (min: unknown, max: unknown) => ({ ...minimal, minOffsetsPerTrigger: min, maxOffsetsPerTrigger: max })

  test('K58 above the maximum is refused', () => {
    expect(refusal(limits('20', '15'))).toMatchObject({
      name: 'OPTION_CONFLICT',
      message: expect.stringContaining('value of minOffsetPerTrigger(20) is higher than the maxOffsetsPerTrigger(15)'),
    })
  })

  test('may equal the maximum', () => {
    expect(parse(limits('15', '15'))).toMatchObject({ minOffsetsPerTrigger: 15n, maxOffsetsPerTrigger: 15n })
  })
})

describe('other values', () => {
  test.each(['true', 'TRUE', true])('failOnDataLoss %j', (value) => {
    expect(withOption('failOnDataLoss', value).failOnDataLoss).toBe(true)
  })
  test.each(['False', false])('failOnDataLoss %j', (value) => {
    expect(withOption('failOnDataLoss', value).failOnDataLoss).toBe(false)
  })
  test.each(['yes', '1', 1, '', ' true'])('failOnDataLoss %j is refused', (value) => {
    expect(refusalOf('failOnDataLoss', value).message).toMatch(/^Option 'failOnDataLoss': .* is not true or false$/)
  })

  test.each(['newest', '{"t":5}', '{"t":{"0":-3}}', '', 5, { t: { 0: 2 ** 60 } }])(
    'startingOffsets %j is refused with an example',
    (value) => {
      const error = refusalOf('startingOffsets', value)
      expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: 'startingOffsets' } })
      expect(error.message).toContain(`Expected 'earliest', 'latest' or e.g. {"topicA":{"0":23,"1":-1}`)
    }
  )

  test('K133 without an isolation level it is read_uncommitted', () => {
    expect(parse(minimal).isolationLevel).toBe('read_uncommitted')
  })
  test.each(['read_uncommitted', 'READ_UNCOMMITTED'])('K134 %s', (level) => {
    expect(withOption('kafka.isolation.level', level).isolationLevel).toBe('read_uncommitted')
  })
  test.each(['read_committed', 'Read_Committed'])('K135 %s', (level) => {
    expect(withOption('kafka.isolation.level', level).isolationLevel).toBe('read_committed')
  })
  test('K136 another isolation level is refused', () => {
    const error = refusalOf('kafka.isolation.level', 'serializable')
    expect(error).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: 'kafka.isolation.level' } })
    expect(error.message).toContain('serializable')
  })
})

describe('client settings', () => {
  test.each([
    ['auto.offset.reset', 'none'],
    ['auto.offset.reset', 'earliest'],
    ['auto.offset.reset', 'latest'],
    ['auto.offset.reset', 'smallest'],
    ['auto.offset.reset', 'someValue'],
    ['enable.auto.commit', 'true'],
    ['interceptor.classes', 'a.B'],
    ['key.deserializer', 'a.B'],
    ['value.deserializer', 'a.B'],
  ])('K59 kafka.%s=%s is not supported', (key, value) => {
    const error = refusalOf(`kafka.${key}`, value)
    expect(error).toMatchObject({ name: 'OPTION_NOT_SUPPORTED', parameters: { option: key } })
    expect(error.message).toContain(`Kafka option '${key}' is not supported`)
  })

  test.each([{}, { 'kafka.bootstrap.servers': ' ' }])('brokers must be specified: %j', (given) => {
    expect(refusal({ subscribe: 't', ...given }).message).toMatch(
      /^Option 'kafka.bootstrap.servers': must be specified/
    )
  })

  test('K20 groupIdPrefix begins the name of the client, and is not all of it', () => {
    expect(parse({ ...minimal, groupIdPrefix: 'p' })).toMatchObject({ clientId: 'p-sluice', groupIdGiven: false })
  })

  test('K21 kafka.group.id names the client, with a warning', () => {
    const parsed = parse({ ...minimal, 'kafka.group.id': 'g', groupIdPrefix: 'p' })
    expect(parsed).toMatchObject({ clientId: 'g', groupIdGiven: true })
    expect(parsed.kafka).not.toHaveProperty('group.id')
    expect(parsed.warnings).toEqual([
      expect.stringContaining("'kafka.group.id' only names the client"),
      expect.stringContaining("'groupIdPrefix' is ignored"),
    ])
  })

  test('kafka.client.id goes before both', () => {
    const parsed = parse({ ...minimal, 'kafka.group.id': 'g', 'kafka.client.id': 'c' })
    expect(parsed.clientId).toBe('c')
    expect(parsed.kafka).not.toHaveProperty('client.id')
  })

  test.each([null, {}, []])('a setting is a text, not %j', (value) => {
    expect(refusalOf('kafka.fetch.max.bytes', value).message).toContain("'kafka.fetch.max.bytes': must be a text")
  })
})

describe('options that this release does not read are refused, never ignored', () => {
  test.each(['bytesEstimateWindowLength'])('%s', (name) => {
    for (const spelling of [name, name.toUpperCase()])
      expect(refusalOf(spelling, '1').message).toMatch(`Option '${name}': this release does not read it`)
  })

  test.each([
    ['endingOffsets', 'ending offset not valid in streaming queries'],
    ['endingOffsetsByTimestamp', 'ending timestamp not valid in streaming queries'],
    ['endingTimestamp', 'ending timestamp not valid in streaming queries'],
  ])('K58 X12 %s', (name, message) => {
    expect(refusalOf(name, 'latest')).toMatchObject({ name: 'OPTION_INVALID', parameters: { option: name } })
    expect(refusalOf(name, 'latest').message).toContain(message)
  })
})

test("checks come in Spark's order", () => {
  const steps: [string, Record<string, unknown>, Record<string, unknown>][] = [
    ['endingOffsets', { endingOffsets: 'x' }, {}],
    ["'assign', 'subscribe', 'subscribePattern'", {}, { subscribe: '' }],
    ['subscribe', {}, { subscribe: 't' }],
    ['minPartitions', { minPartitions: '0' }, {}],
    ['maxRecordsPerPartition', { maxRecordsPerPartition: '0' }, {}],
    ['auto.offset.reset', { 'kafka.auto.offset.reset': 'none' }, {}],
    ['kafka.bootstrap.servers', {}, brokers],
    ['kafka.isolation.level', { 'kafka.isolation.level': 'x' }, {}],
    ['minOffsetPerTrigger(2)', { minOffsetsPerTrigger: '2', maxOffsetsPerTrigger: '1' }, {}],
    ['startingOffsets', { startingOffsets: 'x' }, {}],
  ]
  // All faults at once; each step finds the first one left and repairs it.
  let wrong = Object.assign({}, ...steps.map(([, fault]) => fault)) as Record<string, unknown>
  for (const [named, fault, repair] of steps) {
    expect(refusal(wrong).message).toContain(named)
    const faulty = Object.keys(fault)
    wrong = { ...Object.fromEntries(Object.entries(wrong).filter(([name]) => !faulty.includes(name))), ...repair }
  }
  expect(parse(wrong).strategy.kind).toBe('subscribe')
})

test('a SourceOptions comes from parseOptions alone: all its fields do not make one', () => {
  type Fields = { [K in keyof SourceOptions as K extends string ? K : never]: SourceOptions[K] }
  const fields: Fields = parse(minimal)
  // @ts-expect-error the symbol is missing that only parseOptions holds
  const forged: SourceOptions = fields
  expect(Object.getOwnPropertySymbols(forged)).toHaveLength(1)
})
