/** Kafka in memory for tests of the protocol: topics that can grow, lose their head, vanish and come back. */
import { namedTopics, selectorOf } from '../../src/consumer-strategy.ts'
import type { ConsumerStrategy } from '../../src/consumer-strategy.ts'
import { SluiceError } from '../../src/errors.ts'
import { compareTopicPartitions, entriesOf, nameOf, offsetsOf } from '../../src/offsets.ts'
import type { PartitionOffsets, TopicPartition } from '../../src/offsets.ts'
import type { IsolationLevel, OffsetReader, RangeReader, RecordBatch } from '../../src/ports.ts'
import type { OffsetRange } from '../../src/ranges.ts'

/** A value, or null for an offset that holds no record (a marker, a compacted record). */
type Slot = string | null

export interface FakePartition {
  logStart: number
  /** First offset of the oldest open transaction. */
  openFrom?: number | undefined
  leader?: number
  readonly slots: Slot[]
}

export interface FakeKafka {
  readonly topics: Map<string, { id: string; partitions: FakePartition[] }>
  /** Called before each operation: a test's moment to change the world or to fail. */
  before: (operation: string) => void | Promise<void>
}

export function fakeKafka(topics: Readonly<Record<string, readonly number[]>> = {}): FakeKafka {
  const kafka: FakeKafka = { topics: new Map(), before: () => {} }
  for (const [topic, sizes] of Object.entries(topics)) createTopic(kafka, topic, sizes)
  return kafka
}

let created = 0

/** A topic of partitions with that many records; creating one again gives it another id. */
export function createTopic(kafka: FakeKafka, topic: string, sizes: readonly number[]): void {
  const partitions = sizes.map((size) => ({ logStart: 0, slots: [] as Slot[], size }))
  kafka.topics.set(topic, { id: `id-${++created}`, partitions })
  partitions.forEach(({ size }, partition) => append(kafka, topic, partition, size))
}

export function addPartitions(kafka: FakeKafka, topic: string, sizes: readonly number[]): void {
  const partitions = kafka.topics.get(topic)?.partitions ?? []
  for (const size of sizes) {
    partitions.push({ logStart: 0, slots: [] })
    append(kafka, topic, partitions.length - 1, size)
  }
}

export function append(kafka: FakeKafka, topic: string, partition: number, records: number): void {
  const slots = kafka.topics.get(topic)?.partitions[partition]?.slots ?? []
  for (let i = 0; i < records; i++) slots.push(`${topic}-${partition}@${slots.length}`)
}

/** What a consumer from the beginning would see now: `topic-partition@offset`, sorted. */
export const recordsIn = (kafka: FakeKafka): string[] =>
  [...kafka.topics.values()]
    .flatMap(({ partitions }) => partitions.flatMap((p) => p.slots.slice(p.logStart).filter((slot) => slot !== null)))
    .toSorted()

const partitionOf = (kafka: FakeKafka, tp: TopicPartition): FakePartition | undefined =>
  kafka.topics.get(tp.topic)?.partitions[tp.partition]

function aborted(signal: AbortSignal, step: string): void {
  if (signal.aborted) throw new SluiceError('ABORTED', { step })
}

export function fakeOffsetReader(
  kafka: FakeKafka,
  strategy: ConsumerStrategy,
  isolation: IsolationLevel = 'read_uncommitted'
): OffsetReader {
  const ask = async (operation: string, signal: AbortSignal): Promise<void> => {
    aborted(signal, operation)
    await kafka.before(operation)
  }
  const offsetsBy = (partitions: readonly TopicPartition[], of: (p: FakePartition) => number): PartitionOffsets =>
    offsetsOf(
      partitions.flatMap((tp) => {
        const found = partitionOf(kafka, tp)
        return found === undefined ? [] : [{ ...tp, offset: BigInt(of(found)) }]
      })
    )
  const idsOf = (topics: readonly string[]): Map<string, string> =>
    new Map(topics.flatMap((topic) => (kafka.topics.has(topic) ? [[topic, kafka.topics.get(topic)?.id ?? '']] : [])))
  return {
    async assigned(signal) {
      await ask('assigned', signal)
      const selects = selectorOf(strategy)
      const names =
        namedTopics(strategy) ?? [...kafka.topics.keys()].filter((topic) => selects({ topic, partition: 0 }))
      const partitions = names.flatMap((topic) => {
        const found = kafka.topics.get(topic)
        if (found === undefined) throw new SluiceError('TOPIC_NOT_FOUND', { topics: topic })
        return found.partitions.map((_p, partition) => ({ topic, partition }))
      })
      const selected = partitions.filter(selects).toSorted(compareTopicPartitions)
      const leaders = new Map(
        selected.flatMap((tp) => {
          const leader = partitionOf(kafka, tp)?.leader
          return leader === undefined ? [] : [[nameOf(tp), leader] as const]
        })
      )
      return { partitions: selected, topicIds: idsOf(names), leaders }
    },
    async topicIds(topics, signal) {
      await ask('topicIds', signal)
      return idsOf(topics)
    },
    async earliest(partitions, signal) {
      await ask('earliest', signal)
      return offsetsBy(partitions, (p) => p.logStart)
    },
    async latest(partitions, signal) {
      await ask('latest', signal)
      return offsetsBy(partitions, (p) =>
        isolation === 'read_committed' ? (p.openFrom ?? p.slots.length) : p.slots.length
      )
    },
    async highWatermarks(partitions, signal) {
      await ask('highWatermarks', signal)
      return offsetsBy(partitions, (p) => p.slots.length)
    },
    async forTimestamps(timestamps, signal) {
      await ask('forTimestamps', signal)
      const matches = entriesOf(timestamps).map(({ offset: timestamp, ...tp }) => {
        const found = partitionOf(kafka, tp)
        const at = found?.slots.findIndex((slot, i) => slot !== null && i >= found.logStart && BigInt(i) >= timestamp)
        return { ...tp, offset: BigInt(at ?? -1) }
      })
      return offsetsOf(matches.filter(({ offset }) => offset >= 0n))
    },
    close: async () => {},
  }
}

/** Yields batches of at most three records, so that a range spans several. */
export function fakeRangeReader(kafka: FakeKafka, failOnDataLoss = true): RangeReader {
  return {
    async *read(range, _isolation, signal, isEnough = () => false) {
      const partition = partitionOf(kafka, range)
      if (partition === undefined) {
        if (failOnDataLoss) throw new SluiceError('KAFKA_DATA_LOSS', { findings: nameOf(range) })
        return { highWatermark: null, dataLoss: [{ ...range, reason: 'COULD_NOT_READ_OFFSET_RANGE' }] }
      }
      const logStart = BigInt(partition.logStart)
      const lost =
        logStart > range.from ? [{ ...range, until: logStart, reason: 'COULD_NOT_READ_OFFSET_RANGE' as const }] : []
      if (failOnDataLoss && lost.length > 0) throw new SluiceError('KAFKA_DATA_LOSS', { findings: nameOf(range) })
      const from = logStart > range.from ? logStart : range.from
      for (let at = from; at < range.until; at += 3n) {
        aborted(signal, 'Reading a range')
        if (at > range.from && isEnough())
          return { highWatermark: BigInt(partition.slots.length), dataLoss: lost, stoppedAt: at }
        await kafka.before(`read ${nameOf(range)} ${at}`)
        yield batchOf(partition, { ...range, from: at, until: at + 3n < range.until ? at + 3n : range.until })
      }
      return { highWatermark: BigInt(partition.slots.length), dataLoss: lost }
    },
    close: async () => {},
  }
}

/** A batch of text records; the offset is the timestamp. */
export function batchOf(
  { slots }: Pick<FakePartition, 'slots'>,
  { topic, partition, from, until }: OffsetRange
): RecordBatch {
  const offsets = slots.flatMap((slot, i) => (slot !== null && BigInt(i) >= from && BigInt(i) < until ? [i] : []))
  return {
    topic,
    partition,
    length: offsets.length,
    timestampType: 0,
    offset: (i) => BigInt(offsets[i] ?? -1),
    timestamp: (i) => BigInt(offsets[i] ?? -1),
    key: () => null,
    value: (i) => Buffer.from(slots[offsets[i] ?? -1] ?? ''),
    headers: () => null,
  }
}
