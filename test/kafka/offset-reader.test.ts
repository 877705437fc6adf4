/** How often Kafka is asked, and what is believed, with answers that are empty, old or in part. */
import { describe, expect, test } from 'vitest'
import type { ConsumerStrategy } from '../../src/consumer-strategy.ts'
import { parseSubscribePattern } from '../../src/consumer-strategy.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Cluster } from '../../src/kafka/client.ts'
import { EARLIEST, LATEST } from '../../src/kafka/list-offsets.ts'
import { offsetReaderOf } from '../../src/kafka/offset-reader.ts'
import type { TopicMetadata } from '../../src/kafka/metadata.ts'
import { offsetsFromJson, offsetsToJson } from '../../src/offsets.ts'
import type { TopicPartition } from '../../src/offsets.ts'
import type { KnownPartitions, OffsetReader } from '../../src/ports.ts'

const { signal } = new AbortController()
const address = { host: 'a', port: 9092 }
const unreachable = (attempt: number) =>
  new SluiceError('KAFKA_UNREACHABLE', { brokers: 'a:9092', reason: `${attempt}` })

const topicOf = (topic: string, partitions: number, changes: Partial<TopicMetadata> = {}): TopicMetadata => ({
  topic,
  errorCode: 0,
  topicId: `id-of-${topic}`,
  isInternal: false,
  partitions: Array.from({ length: partitions }, (_, partition) => ({
    partition,
    errorCode: 0,
    leader: 1,
    leaderEpoch: 0,
  })),
  ...changes,
})
const missing = (topic: string): TopicMetadata => topicOf(topic, 0, { errorCode: 3, topicId: null })

type Answer = readonly TopicMetadata[] | SluiceError

interface Script {
  /** Of Metadata, in order, the last again and again. */
  readonly metadata?: readonly Answer[]
  /** Of ListOffsets: the offset of a partition at each attempt. */
  readonly offsets?: (tp: TopicPartition & { at: bigint }, attempt: number) => bigint
}

interface Scripted {
  readonly reader: OffsetReader
  /** What was asked for: topics, or partitions with what of them. */
  readonly asked: (string | null)[]
}

function scripted(strategy: ConsumerStrategy, { metadata = [[]], offsets = () => 0n }: Script): Scripted {
  const asked: (string | null)[] = []
  const cluster: Cluster = {
    addresses: 'a:9092',
    async metadata(topics) {
      const answer = metadata[Math.min(asked.length, metadata.length - 1)] ?? []
      asked.push(topics === null ? null : topics.join())
      if (answer instanceof SluiceError) throw answer
      return answer
    },
    leaders: async (partitions) => partitions.map(() => ({ kind: 'leader', address, leaderEpoch: 0 })),
    leaderOf: async () => ({ kind: 'leader', address, leaderEpoch: 0 }),
    forgetLeaders: () => {},
    async listOffsets(_leader, partitions, level) {
      asked.push(`${level} ${partitions.map((p) => `${p.topic}-${p.partition}@${p.at}`).join()}`)
      return partitions.map((p) => ({ ...p, errorCode: 0, offset: offsets(p, asked.length) }))
    },
    fetchRaw: () => Promise.reject(new Error('not asked here')),
    dropConnections: async () => {},
    close: async () => {},
  }
  const options = { isolationLevel: 'read_committed', fetchOffsetNumRetries: 3, fetchOffsetRetryIntervalMs: 0 } as const
  return { reader: offsetReaderOf(cluster, { ...options, strategy }), asked }
}

const subscribe = (...topics: string[]): ConsumerStrategy => ({ kind: 'subscribe', topics })
const knownOf = (topic: string, partitions: number, id = `id-of-${topic}`): KnownPartitions => ({
  partitions: Array.from({ length: partitions }, (_, partition) => ({ topic, partition })),
  topicIds: new Map([[topic, id]]),
})
const namesIn = ({ partitions }: { partitions: readonly TopicPartition[] }): string =>
  partitions.map(({ topic, partition }) => `${topic}-${partition}`).join()

describe('attempts', () => {
  test('K144 two failures, then success: three questions in all', async () => {
    const { reader, asked } = scripted(subscribe('t'), {
      metadata: [unreachable(1), unreachable(2), [topicOf('t', 1)]],
    })
    expect(namesIn(await reader.assigned(signal))).toBe('t-0')
    expect(asked).toHaveLength(3)
  })

  test('K145 X12 three failures: the last error itself, after exactly three questions', async () => {
    const failures = [1, 2, 3, 4].map(unreachable)
    const { reader, asked } = scripted(subscribe('t'), { metadata: failures })
    await expect(reader.assigned(signal)).rejects.toBe(failures[2])
    expect(asked).toHaveLength(3)
  })

  test('X8 an end below the position is asked for again, three times in all, then believed', async () => {
    const { reader, asked } = scripted(subscribe('t'), {
      offsets: ({ partition }, attempt) => (partition === 0 ? 9n : BigInt(attempt)),
    })
    const partitions = knownOf('t', 2).partitions
    const atLeast = (end: number) => offsetsFromJson(`{"t":{"0":9,"1":${end}}}`)
    expect(offsetsToJson(await reader.latest(partitions, signal, atLeast(2)))).toBe('{"t":{"0":9,"1":2}}')
    expect(asked.splice(0)).toEqual([`read_committed t-0@${LATEST},t-1@${LATEST}`, `read_committed t-1@${LATEST}`])
    expect(offsetsToJson(await reader.latest(partitions, signal, atLeast(50)))).toBe('{"t":{"0":9,"1":3}}')
    expect(asked).toHaveLength(3)
  })

  test('an end that is not below it is asked for once', async () => {
    const { reader, asked } = scripted(subscribe('t'), { offsets: () => 7n })
    await reader.latest(knownOf('t', 1).partitions, signal, offsetsFromJson('{"t":{"0":7},"gone":{"0":9}}'))
    await reader.earliest(knownOf('t', 1).partitions, signal)
    await reader.highWatermarks(knownOf('t', 1).partitions, signal)
    expect(asked).toEqual([
      `read_committed t-0@${LATEST}`,
      `read_committed t-0@${EARLIEST}`,
      `read_uncommitted t-0@${LATEST}`,
    ])
  })
})

describe('timestamps', () => {
  test('each partition is asked at its own, once; those without a match are left out', async () => {
    const { reader, asked } = scripted(subscribe('t'), { offsets: ({ at }) => (at === 2000n ? -1n : at / 1000n) })
    const found = await reader.forTimestamps(offsetsFromJson('{"t":{"0":1000,"1":2000,"2":5000}}'), signal)
    expect(offsetsToJson(found)).toBe('{"t":{"0":1,"2":5}}')
    expect(asked).toEqual(['read_committed t-0@1000,t-1@2000,t-2@5000'])
  })
})

describe('metadata that is empty or in part for a moment', () => {
  test('fewer partitions than the log knows: asked again', async () => {
    const { reader, asked } = scripted(subscribe('t'), { metadata: [[topicOf('t', 2)], [topicOf('t', 3)]] })
    expect(namesIn(await reader.assigned(signal, knownOf('t', 3)))).toBe('t-0,t-1,t-2')
    expect(asked).toEqual(['t', 't'])
  })

  test('and not believed, since the topic is the same one', async () => {
    const { reader, asked } = scripted(subscribe('t'), { metadata: [[topicOf('t', 2)]] })
    await expect(reader.assigned(signal, knownOf('t', 4))).rejects.toMatchObject({
      name: 'KAFKA_METADATA_INCOMPLETE',
      retryable: true,
      parameters: { partitions: 't-2, t-3' },
    })
    expect(asked).toHaveLength(3)
  })

  test('a topic with another id has lost what it lacks: believed at once', async () => {
    const { reader, asked } = scripted(subscribe('t'), { metadata: [[topicOf('t', 1)]] })
    const found = await reader.assigned(signal, knownOf('t', 3, 'id-of-the-old-one'))
    expect([namesIn(found), found.topicIds.get('t')]).toEqual(['t-0', 'id-of-t'])
    expect(asked).toHaveLength(1)
  })

  test('brokers without topic ids: asked again, then believed', async () => {
    const { reader, asked } = scripted(subscribe('t'), { metadata: [[topicOf('t', 1, { topicId: null })]] })
    expect(namesIn(await reader.assigned(signal, { ...knownOf('t', 2), topicIds: new Map() }))).toBe('t-0')
    expect(asked).toHaveLength(3)
  })

  test('a partition without a leader is there', async () => {
    const t = topicOf('t', 2)
    const leaderless = { ...t, partitions: t.partitions.map((p) => ({ ...p, errorCode: 5, leader: -1 })) }
    const { reader, asked } = scripted(subscribe('t'), { metadata: [[leaderless]] })
    expect(namesIn(await reader.assigned(signal, knownOf('t', 2)))).toBe('t-0,t-1')
    expect(asked).toHaveLength(1)
  })

  test('a topic without a leader is asked for again, and then no answer at all', async () => {
    const { reader } = scripted(subscribe('t'), { metadata: [[topicOf('t', 0, { errorCode: 5 })], [topicOf('t', 1)]] })
    expect(namesIn(await reader.assigned(signal))).toBe('t-0')
    const never = scripted(subscribe('t'), { metadata: [[topicOf('t', 0, { errorCode: 5 })]] })
    await expect(never.reader.assigned(signal)).rejects.toMatchObject({ name: 'KAFKA_UNREACHABLE' })
    expect(never.asked).toHaveLength(3)
  })

  test('what the query no longer reads is not waited for', async () => {
    const strategy: ConsumerStrategy = { kind: 'assign', partitions: [{ topic: 't', partition: 0 }] }
    const { reader, asked } = scripted(strategy, { metadata: [[topicOf('t', 1)]] })
    const known = { partitions: [...knownOf('t', 2).partitions, ...knownOf('u', 1).partitions], topicIds: new Map() }
    expect(namesIn(await reader.assigned(signal, known))).toBe('t-0')
    expect(asked).toHaveLength(1)
  })
})

describe('a pattern', () => {
  const pattern = parseSubscribePattern('rders')
  const others = [topicOf('payments', 1), topicOf('__orders', 1, { isInternal: true })]

  test('asks for all topics, takes those in which it finds a match, and no internal one', async () => {
    const { reader, asked } = scripted(pattern, {
      metadata: [[...others, topicOf('orders.eu', 2), topicOf('my-orders', 1)]],
    })
    const found = await reader.assigned(signal)
    expect(namesIn(found)).toBe('my-orders-0,orders.eu-0,orders.eu-1')
    expect([...found.topicIds.keys()].toSorted()).toEqual(['my-orders', 'orders.eu'])
    expect(asked).toEqual([null])
  })

  test('troubles of topics that it does not match are none of its own', async () => {
    const broken = [topicOf('payments', 0, { errorCode: 5 }), topicOf('invoices', 0, { errorCode: 29 })]
    const { reader, asked } = scripted(pattern, { metadata: [[...broken, topicOf('orders', 1)]] })
    expect(namesIn(await reader.assigned(signal))).toBe('orders-0')
    expect(asked).toHaveLength(1)
  })

  test('without a match is asked again by a query that knows nothing yet, then believed', async () => {
    const { reader, asked } = scripted(pattern, { metadata: [[], [topicOf('orders', 1)]] })
    expect(namesIn(await reader.assigned(signal))).toBe('orders-0')
    expect(asked).toHaveLength(2)
    const never = scripted(pattern, { metadata: [others] })
    expect(await never.reader.assigned(signal)).toEqual({ partitions: [], topicIds: new Map(), leaders: new Map() })
    expect(never.asked).toHaveLength(3)
  })

  test('a topic that the log knows and no broker names is asked for again, then believed to be gone', async () => {
    const { reader, asked } = scripted(pattern, { metadata: [[], [topicOf('orders', 1)]] })
    expect(namesIn(await reader.assigned(signal, knownOf('orders', 1)))).toBe('orders-0')
    expect(asked).toHaveLength(2)
    const gone = scripted(pattern, { metadata: [others] })
    expect((await gone.reader.assigned(signal, knownOf('orders', 1))).partitions).toEqual([])
    expect(gone.asked).toHaveLength(3)
  })

  test('a query that knows that nothing matches does not wait', async () => {
    const { reader, asked } = scripted(pattern, { metadata: [others] })
    await reader.assigned(signal, { partitions: [], topicIds: new Map() })
    expect(asked).toHaveLength(1)
  })
})

test('X17 a named topic that is missing is named after three questions', async () => {
  const { reader, asked } = scripted(subscribe('t', 'u'), { metadata: [[topicOf('t', 1), missing('u')]] })
  await expect(reader.assigned(signal, knownOf('u', 1))).rejects.toMatchObject({
    name: 'TOPIC_NOT_FOUND',
    parameters: { topics: 'u' },
  })
  expect(asked).toEqual(['t,u', 't,u', 't,u'])
})

test('tells who leads the partitions, as far as somebody does', async () => {
  const partitions = [4, -1].map((leader, partition) => ({ partition, errorCode: 0, leader, leaderEpoch: 0 }))
  const { reader } = scripted(subscribe('t', 'u'), { metadata: [[topicOf('t', 2, { partitions }), topicOf('u', 1)]] })
  expect((await reader.assigned(signal)).leaders).toEqual(
    new Map([
      ['t-0', 4],
      ['t-1', -1],
      ['u-0', 1],
    ])
  )
})
