/** What Kafka holds now, for the planner: partitions, topic ids, first and last offsets (spark-semantics 2.1, 4). */
import type { ConsumerStrategy } from '../consumer-strategy.ts'
import { SluiceError } from '../errors.ts'
import { compareTopicPartitions, offsetAt, offsetsOf, entriesOf } from '../offsets.ts'
import type { PartitionOffsets, TopicPartition } from '../offsets.ts'
import type { AssignedPartitions, IsolationLevel, OffsetReader } from '../ports.ts'
import { pause, throwIfAborted } from './abort.ts'
import { brokerErrorCode, brokerErrorName, isPassing } from './broker-errors.ts'
import { openCluster, type Cluster } from './client.ts'
import { connectionSettings } from './connection-settings.ts'
import { EARLIEST, LATEST } from './list-offsets.ts'
import type { TopicMetadata } from './metadata.ts'
import { listPartitionOffsets } from './partition-offsets.ts'

export interface OffsetReaderOptions {
  /** Client settings: lower-cased names without the `kafka.` prefix. */
  readonly kafka: Readonly<Record<string, string>>
  readonly clientId: string
  readonly strategy: ConsumerStrategy
  readonly isolationLevel: IsolationLevel
  /** Attempts in all. */
  readonly fetchOffsetNumRetries: number
  readonly fetchOffsetRetryIntervalMs: number
}

/**
 * Opens connections when it is asked, not before.
 * @throws OPTION_INVALID, OPTION_CONFLICT, OPTION_NOT_SUPPORTED, OPTION_UNKNOWN for client settings, before any broker is asked.
 */
export const createOffsetReader = (options: OffsetReaderOptions): OffsetReader =>
  new KafkaOffsetReader(options, openCluster(connectionSettings(options.kafka, options.clientId)))

class KafkaOffsetReader implements OffsetReader {
  readonly #options: OffsetReaderOptions
  readonly #cluster: Cluster

  constructor(options: OffsetReaderOptions, cluster: Cluster) {
    this.#options = options
    this.#cluster = cluster
  }

  async assigned(signal: AbortSignal): Promise<AssignedPartitions> {
    const { strategy } = this.#options
    const named = strategy.kind === 'subscribe' ? strategy.topics : strategy.partitions.map((tp) => tp.topic)
    const topics = (await this.#existing(named, signal)).filter((topic) => !topic.isInternal)
    const partitions = topics.flatMap((topic) =>
      topic.partitions.map(({ partition }) => ({ topic: topic.topic, partition }))
    )
    return {
      partitions: selected(strategy, partitions).toSorted(compareTopicPartitions),
      topicIds: idsOf(topics),
    }
  }

  async topicIds(topics: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const found = await this.#describe([...new Set(topics)], signal)
    return idsOf(found.filter((topic) => topic.errorCode === brokerErrorCode.none))
  }

  earliest(partitions: readonly TopicPartition[], signal: AbortSignal): Promise<PartitionOffsets> {
    return this.#offsets(partitions, EARLIEST, signal)
  }

  latest(partitions: readonly TopicPartition[], signal: AbortSignal): Promise<PartitionOffsets> {
    return this.#offsets(partitions, LATEST, signal)
  }

  close(): Promise<void> {
    return this.#cluster.close()
  }

  /** @throws TOPIC_NOT_FOUND, KAFKA_AUTHORIZATION_FAILED */
  async #existing(names: readonly string[], signal: AbortSignal): Promise<readonly TopicMetadata[]> {
    const topics = await this.#describe([...new Set(names)], signal)
    const missing = topics.filter(isMissing).map((topic) => topic.topic)
    if (missing.length > 0) throw new SluiceError('TOPIC_NOT_FOUND', { topics: missing.toSorted().join(', ') })
    return topics
  }

  /**
   * Metadata of the topics. A missing topic may merely not have reached the broker that answered, and an unreachable
   * cluster may come back: both are asked for again, in all as often as fetchOffset.numRetries says.
   */
  async #describe(topics: readonly string[], signal: AbortSignal): Promise<readonly TopicMetadata[]> {
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt >= this.#options.fetchOffsetNumRetries
      const found = await this.#ask(topics, isLast, signal)
      if (found?.every(isSettled) === true || (isLast && found !== null)) return checked(found, this.#cluster.addresses)
      await pause(this.#options.fetchOffsetRetryIntervalMs, signal, STEP)
    }
  }

  async #ask(
    topics: readonly string[],
    isLast: boolean,
    signal: AbortSignal
  ): Promise<readonly TopicMetadata[] | null> {
    throwIfAborted(signal, STEP)
    if (topics.length === 0) return []
    try {
      return await this.#cluster.metadata(topics, signal)
    } catch (e) {
      if (isLast || !(e instanceof SluiceError && e.name === 'KAFKA_UNREACHABLE')) throw e
      return null
    }
  }

  async #offsets(partitions: readonly TopicPartition[], at: bigint, signal: AbortSignal): Promise<PartitionOffsets> {
    const { isolationLevel, fetchOffsetNumRetries, fetchOffsetRetryIntervalMs } = this.#options
    let found: PartitionOffsets = new Map()
    for (let attempt = 1; ; attempt += 1) {
      const open = partitions.filter((tp) => offsetAt(found, tp) === undefined)
      const more = await listPartitionOffsets(this.#cluster, open, at, isolationLevel, signal)
      found = offsetsOf([...entriesOf(found), ...entriesOf(more)])
      const isComplete = partitions.every((tp) => offsetAt(found, tp) !== undefined)
      if (isComplete || attempt >= fetchOffsetNumRetries) return found
      await pause(fetchOffsetRetryIntervalMs, signal, STEP)
    }
  }
}

const STEP = 'Asking Kafka for topics and offsets'

const isMissing = ({ errorCode }: Pick<TopicMetadata, 'errorCode'>): boolean =>
  errorCode === brokerErrorCode.unknownTopicOrPartition || errorCode === brokerErrorCode.invalidTopic

/** Asking again would not change the answer. */
const isSettled = ({ errorCode }: TopicMetadata): boolean => !isPassing(errorCode)

function checked(topics: readonly TopicMetadata[], brokers: string): readonly TopicMetadata[] {
  for (const { topic, errorCode } of topics) {
    if (errorCode === brokerErrorCode.none || isMissing({ errorCode })) continue
    if (errorCode === brokerErrorCode.topicAuthorizationFailed)
      throw new SluiceError('KAFKA_AUTHORIZATION_FAILED', { resource: `topic ${topic}`, right: 'DESCRIBE' })
    const error = brokerErrorName(errorCode)
    if (isPassing(errorCode))
      throw new SluiceError('KAFKA_UNREACHABLE', { brokers, reason: `topic ${topic}: ${error}` })
    throw new SluiceError('KAFKA_REQUEST_REFUSED', { request: 'Metadata', resource: `topic ${topic}`, error })
  }
  return topics
}

/** A listed partition that does not exist is left out without a word (K170). */
function selected(strategy: ConsumerStrategy, existing: readonly TopicPartition[]): TopicPartition[] {
  if (strategy.kind === 'subscribe') return [...existing]
  return existing.filter((tp) =>
    strategy.partitions.some((listed) => listed.topic === tp.topic && listed.partition === tp.partition)
  )
}

const idsOf = (topics: readonly TopicMetadata[]): ReadonlyMap<string, string> =>
  new Map(topics.flatMap(({ topic, topicId }) => (topicId === null ? [] : [[topic, topicId] as const])))
