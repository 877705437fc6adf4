/** What Kafka holds now, for the planner: partitions, topic ids, first and last offsets (spark-semantics 2.1, 4). */
import { namedTopics, selectorOf } from '../consumer-strategy.ts'
import type { ConsumerStrategy } from '../consumer-strategy.ts'
import { SluiceError } from '../errors.ts'
import { compareTopicPartitions, entriesOf, nameOf, offsetAt, offsetsOf } from '../offsets.ts'
import type { PartitionOffsets, TopicPartition } from '../offsets.ts'
import type { AssignedPartitions, IsolationLevel, KnownPartitions, OffsetReader } from '../ports.ts'
import { pause, throwIfAborted } from './abort.ts'
import { brokerErrorCode, brokerErrorName, isPassing } from './broker-errors.ts'
import { openCluster, type Cluster } from './client.ts'
import { connectionSettings } from './connection-settings.ts'
import { EARLIEST, LATEST } from './list-offsets.ts'
import type { TopicMetadata } from './metadata.ts'
import { listPartitionOffsets, type PartitionAt } from './partition-offsets.ts'

interface QuestionOptions {
  readonly strategy: ConsumerStrategy
  readonly isolationLevel: IsolationLevel
  /** Attempts in all. */
  readonly fetchOffsetNumRetries: number
  readonly fetchOffsetRetryIntervalMs: number
}

export interface OffsetReaderOptions extends QuestionOptions {
  /** Client settings: lower-cased names without the `kafka.` prefix. */
  readonly kafka: Readonly<Record<string, string>>
  readonly clientId: string
}

/**
 * Opens connections when it is asked, not before.
 * @throws OPTION_INVALID, OPTION_CONFLICT, OPTION_NOT_SUPPORTED, OPTION_UNKNOWN for client settings, before any broker is asked.
 */
export const createOffsetReader = (options: OffsetReaderOptions): OffsetReader =>
  offsetReaderOf(openCluster(connectionSettings(options.kafka, options.clientId)), options)

/** Over a cluster that it closes. */
export const offsetReaderOf = (cluster: Cluster, options: QuestionOptions): OffsetReader =>
  new KafkaOffsetReader(options, cluster)

class KafkaOffsetReader implements OffsetReader {
  readonly #options: QuestionOptions
  readonly #cluster: Cluster
  readonly #selects: (tp: TopicPartition) => boolean

  constructor(options: QuestionOptions, cluster: Cluster) {
    this.#options = options
    this.#cluster = cluster
    this.#selects = selectorOf(options.strategy)
  }

  async assigned(signal: AbortSignal, known?: KnownPartitions): Promise<AssignedPartitions> {
    const expected = known && { ...known, partitions: known.partitions.filter(this.#selects) }
    const topics = await this.#describe(namedTopics(this.#options.strategy), signal, (found) =>
      expected === undefined ? found.some((topic) => !topic.isInternal) : missingFrom(found, expected).length === 0
    )
    refuseMissing(topics, expected, this.#cluster.addresses)
    const listed = topics.filter((topic) => !topic.isInternal)
    const selected = listed
      .flatMap(({ topic, partitions }) => partitions.map(({ partition, leader }) => ({ topic, partition, leader })))
      .filter(this.#selects)
      .toSorted(compareTopicPartitions)
    return {
      partitions: selected.map(({ topic, partition }) => ({ topic, partition })),
      topicIds: idsOf(listed),
      leaders: new Map(selected.map((one) => [nameOf(one), one.leader])),
    }
  }

  async topicIds(topics: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>> {
    const found = await this.#describe(topics, signal)
    return idsOf(found.filter((topic) => topic.errorCode === brokerErrorCode.none))
  }

  earliest(partitions: readonly TopicPartition[], signal: AbortSignal): Promise<PartitionOffsets> {
    return this.#offsets(at(EARLIEST, partitions), this.#options.isolationLevel, signal)
  }

  latest(
    partitions: readonly TopicPartition[],
    signal: AbortSignal,
    atLeast?: PartitionOffsets
  ): Promise<PartitionOffsets> {
    return this.#offsets(at(LATEST, partitions), this.#options.isolationLevel, signal, atLeast)
  }

  highWatermarks(
    partitions: readonly TopicPartition[],
    signal: AbortSignal,
    atLeast?: PartitionOffsets
  ): Promise<PartitionOffsets> {
    return this.#offsets(at(LATEST, partitions), 'read_uncommitted', signal, atLeast)
  }

  async forTimestamps(timestamps: PartitionOffsets, signal: AbortSignal): Promise<PartitionOffsets> {
    const asked = entriesOf(timestamps).map(({ topic, partition, offset }) => ({ topic, partition, at: offset }))
    const found = await this.#offsets(asked, this.#options.isolationLevel, signal)
    return offsetsOf(entriesOf(found).filter(({ offset }) => offset >= 0n))
  }

  close(): Promise<void> {
    return this.#cluster.close()
  }

  /**
   * Metadata of the named topics, or of all that the strategy selects. A missing topic may merely not have reached the
   * broker that answered, and an unreachable cluster may come back: both are asked for again, in all as often as
   * fetchOffset.numRetries says, and so is what is not enough.
   * @throws KAFKA_UNREACHABLE, KAFKA_AUTHORIZATION_FAILED, KAFKA_REQUEST_REFUSED
   */
  async #describe(
    names: readonly string[] | null,
    signal: AbortSignal,
    isEnough: (found: readonly TopicMetadata[]) => boolean = () => true
  ): Promise<readonly TopicMetadata[]> {
    const asked = names === null ? null : [...new Set(names)]
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt >= this.#options.fetchOffsetNumRetries
      const answer = await this.#ask(asked, isLast, signal)
      const found = asked === null ? answer?.filter(({ topic }) => this.#selects({ topic, partition: 0 })) : answer
      if (found !== undefined && (isLast || (found.every(isSettled) && isEnough(found))))
        return checked(found, this.#cluster.addresses)
      await pause(this.#options.fetchOffsetRetryIntervalMs, signal, STEP)
    }
  }

  async #ask(
    topics: readonly string[] | null,
    isLast: boolean,
    signal: AbortSignal
  ): Promise<readonly TopicMetadata[] | undefined> {
    throwIfAborted(signal, STEP)
    if (topics?.length === 0) return []
    try {
      return await this.#cluster.metadata(topics, signal)
    } catch (e) {
      if (isLast || !(e instanceof SluiceError && e.name === 'KAFKA_UNREACHABLE')) throw e
      return undefined
    }
  }

  async #offsets(
    partitions: readonly PartitionAt[],
    level: IsolationLevel,
    signal: AbortSignal,
    atLeast: PartitionOffsets = new Map()
  ): Promise<PartitionOffsets> {
    const { fetchOffsetNumRetries, fetchOffsetRetryIntervalMs } = this.#options
    let found: PartitionOffsets = new Map()
    const isOpen = (tp: TopicPartition): boolean => {
      const offset = offsetAt(found, tp)
      return offset === undefined || offset < (offsetAt(atLeast, tp) ?? offset)
    }
    for (let attempt = 1; ; attempt += 1) {
      const more = await listPartitionOffsets(this.#cluster, partitions.filter(isOpen), level, signal)
      found = offsetsOf([...entriesOf(found), ...entriesOf(more)])
      if (attempt >= fetchOffsetNumRetries || !partitions.some(isOpen)) return found
      await pause(fetchOffsetRetryIntervalMs, signal, STEP)
    }
  }
}

const STEP = 'Asking Kafka for topics and offsets'

const at = (timestamp: bigint, partitions: readonly TopicPartition[]): PartitionAt[] =>
  partitions.map(({ topic, partition }) => ({ topic, partition, at: timestamp }))

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

/** Known partitions that the answer does not have. Those of a topic that was created again are none. */
function missingFrom(topics: readonly TopicMetadata[], known: KnownPartitions): TopicPartition[] {
  const found = new Map(topics.map((topic) => [topic.topic, topic]))
  const partitions = new Map(topics.map((topic) => [topic.topic, new Set(topic.partitions.map((p) => p.partition))]))
  return known.partitions.filter(({ topic, partition }) => {
    const [before, now] = [known.topicIds.get(topic), found.get(topic)?.topicId ?? undefined]
    const isRecreated = before !== undefined && now !== undefined && before !== now
    return !isRecreated && partitions.get(topic)?.has(partition) !== true
  })
}

/**
 * A topic never loses a partition: where the id is still the same, the broker that answered is behind, and what it has would
 * pass for loss.
 * @throws TOPIC_NOT_FOUND, KAFKA_METADATA_INCOMPLETE
 */
function refuseMissing(topics: readonly TopicMetadata[], known: KnownPartitions | undefined, brokers: string): void {
  const missing = topics.filter(isMissing).map(({ topic }) => topic)
  if (missing.length > 0) throw new SluiceError('TOPIC_NOT_FOUND', { topics: missing.toSorted().join(', ') })
  if (known === undefined) return
  const ids = idsOf(topics)
  const behind = missingFrom(topics, known).filter(({ topic }) => {
    const id = ids.get(topic)
    return id !== undefined && id === known.topicIds.get(topic)
  })
  if (behind.length > 0)
    throw new SluiceError('KAFKA_METADATA_INCOMPLETE', { brokers, partitions: behind.map(nameOf).join(', ') })
}

const idsOf = (topics: readonly TopicMetadata[]): ReadonlyMap<string, string> =>
  new Map(topics.flatMap(({ topic, topicId }) => (topicId === null ? [] : [[topic, topicId] as const])))
