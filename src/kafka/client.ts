/**
 * A Kafka cluster as the source needs it: who leads a partition, which offsets it holds, and the raw bytes of a fetch.
 * No consumer group, nothing committed, no topic ever created by looking (B17).
 */
import { isSluiceError, reasonOf, SluiceError } from '../errors.ts'
import type { TopicPartition } from '../offsets.ts'
import type { IsolationLevel } from '../ports.ts'
import { throwIfAborted } from './abort.ts'
import type { BrokerRequest, BrokerResponse } from './broker-connection.ts'
import { brokerErrorCode, brokerErrorName } from './broker-errors.ts'
import { ConnectionPool } from './connection-pool.ts'
import { addressText, type BrokerAddress, type ConnectionSettings } from './connection-settings.ts'
import { encodeFetchRequest, FETCH_API, FETCH_VERSIONS, type FetchRequest } from './fetch-request.ts'
import type { FrameBuffers } from './frame-reader.ts'
import {
  decodeListOffsetsResponse,
  encodeListOffsetsRequest,
  LIST_OFFSETS_API,
  LIST_OFFSETS_VERSIONS,
  type OffsetAnswer,
  type OffsetQuery,
} from './list-offsets.ts'
import {
  decodeMetadataResponse,
  encodeMetadataRequest,
  isFlexibleMetadata,
  METADATA_API,
  METADATA_VERSIONS,
  type ClusterMetadata,
  type PartitionMetadata,
  type TopicMetadata,
} from './metadata.ts'

export interface Leader {
  readonly address: BrokerAddress
  readonly leaderEpoch: number
}

/** `absent`: the newest metadata knows no such partition. `none`: it exists and has no leader at the moment. */
export type LeaderAnswer =
  | ({ readonly kind: 'leader' } & Leader)
  | { readonly kind: 'none'; readonly reason: string }
  | { readonly kind: 'absent' }

/** Every method rejects with KAFKA_UNREACHABLE, KAFKA_AUTHENTICATION_FAILED, KAFKA_VERSION_NOT_SUPPORTED or ABORTED. */
export interface Cluster {
  /** The bootstrap addresses, for messages. */
  readonly addresses: string
  /**
   * What one broker knows now of the named topics (missing ones carry error code 3), or of all that the principal may
   * see. Asks the brokers in turn until one answers.
   */
  metadata(topics: readonly string[] | null, signal: AbortSignal): Promise<readonly TopicMetadata[]>
  /** In the order asked, from the metadata held; topics that it lacks are asked for. @throws KAFKA_AUTHORIZATION_FAILED */
  leaders(partitions: readonly TopicPartition[], signal: AbortSignal): Promise<readonly LeaderAnswer[]>
  leaderOf(partition: TopicPartition, signal: AbortSignal): Promise<LeaderAnswer>
  /** Makes the next question for leaders of the topic a new request: after a failure that a moved leader explains. */
  forgetLeaders(topic: string): void
  /** One ListOffsets request to one leader. */
  listOffsets(
    leader: BrokerAddress,
    partitions: readonly OffsetQuery[],
    level: IsolationLevel,
    signal: AbortSignal
  ): Promise<readonly OffsetAnswer[]>
  /** The body of a Fetch answer, version 11; in a buffer of `buffers`, where that is given. */
  fetchRaw(leader: BrokerAddress, request: FetchRequest, signal: AbortSignal, buffers?: FrameBuffers): Promise<Buffer>
  /** Ends the idle connections to one broker. */
  dropConnections(address: BrokerAddress): Promise<void>
  /** Ends every connection at once, leaving no socket and no timer; the cluster may be used again. */
  close(): Promise<void>
}

/** Opens no connection yet: each call opens what it needs. */
export const openCluster = (settings: ConnectionSettings): Cluster => new KafkaCluster(settings)

class KafkaCluster implements Cluster {
  readonly addresses: string
  readonly #settings: ConnectionSettings
  readonly #pool: ConnectionPool
  readonly #nodes = new Map<number, BrokerAddress>()
  readonly #topics = new Map<string, KnownTopic>()

  constructor(settings: ConnectionSettings) {
    this.#settings = settings
    this.#pool = new ConnectionPool(settings)
    this.addresses = settings.bootstrap.map(addressText).join(',')
  }

  async metadata(topics: readonly string[] | null, signal: AbortSignal): Promise<readonly TopicMetadata[]> {
    const { version, body } = await this.#sendToAny(metadataRequest(topics), signal)
    const found = decoded('Metadata', this.addresses, () => decodeMetadataResponse(version, body))
    this.#remember(found)
    return found.topics
  }

  async leaders(partitions: readonly TopicPartition[], signal: AbortSignal): Promise<readonly LeaderAnswer[]> {
    const unknown = [...new Set(partitions.map((tp) => tp.topic))].filter((topic) => !this.#topics.has(topic))
    const asked = unknown.length === 0 ? [] : await this.metadata(unknown, signal)
    const fresh = new Map(asked.map((topic) => [topic.topic, knownTopic(topic)] as const))
    return partitions.map((tp) => this.#leaderIn(fresh.get(tp.topic) ?? this.#topics.get(tp.topic), tp))
  }

  async leaderOf(partition: TopicPartition, signal: AbortSignal): Promise<LeaderAnswer> {
    const [answer] = await this.leaders([partition], signal)
    return answer ?? { kind: 'absent' }
  }

  forgetLeaders(topic: string): void {
    this.#topics.delete(topic)
  }

  async listOffsets(
    leader: BrokerAddress,
    partitions: readonly OffsetQuery[],
    level: IsolationLevel,
    signal: AbortSignal
  ): Promise<readonly OffsetAnswer[]> {
    const request: BrokerRequest = {
      apiKey: LIST_OFFSETS_API,
      apiName: 'ListOffsets',
      versions: LIST_OFFSETS_VERSIONS,
      encode: () => encodeListOffsetsRequest(partitions, level),
    }
    const { body } = await this.#pool.send(leader, request, signal)
    return decoded('ListOffsets', addressText(leader), () => decodeListOffsetsResponse(body))
  }

  async fetchRaw(
    leader: BrokerAddress,
    fetch: FetchRequest,
    signal: AbortSignal,
    buffers?: FrameBuffers
  ): Promise<Buffer> {
    const request: BrokerRequest = {
      apiKey: FETCH_API,
      apiName: 'Fetch',
      versions: FETCH_VERSIONS,
      encode: () => encodeFetchRequest(fetch),
      waitMs: fetch.maxWaitMs,
      ...(buffers !== undefined && { buffers }),
    }
    return (await this.#pool.send(leader, request, signal)).body
  }

  dropConnections(address: BrokerAddress): Promise<void> {
    return this.#pool.drop(address)
  }

  async close(): Promise<void> {
    this.#topics.clear()
    await this.#pool.close()
  }

  /** Brokers with an open connection first, then those that metadata named, then the bootstrap list in its order. */
  #candidates(): BrokerAddress[] {
    const known = [...this.#nodes.values(), ...this.#settings.bootstrap]
    const all = [...new Map(known.map((address) => [addressText(address), address])).values()]
    return [...new Set([...all.filter((address) => this.#pool.hasIdle(address)), ...all])]
  }

  async #sendToAny(request: BrokerRequest, signal: AbortSignal): Promise<BrokerResponse> {
    const reasons: string[] = []
    for (const address of this.#candidates()) {
      throwIfAborted(signal, 'Asking Kafka for metadata')
      try {
        return await this.#pool.send(address, request, signal)
      } catch (e) {
        if (!isSluiceError(e, 'KAFKA_UNREACHABLE')) throw e
        reasons.push(reasonIn(e))
      }
    }
    throw new SluiceError('KAFKA_UNREACHABLE', { brokers: this.addresses, reason: reasons.join('; ') })
  }

  #leaderIn(topic: KnownTopic | undefined, { topic: name, partition }: TopicPartition): LeaderAnswer {
    if (topic === undefined) return { kind: 'absent' }
    if (topic.errorCode === brokerErrorCode.topicAuthorizationFailed)
      throw new SluiceError('KAFKA_AUTHORIZATION_FAILED', { resource: `topic ${name}`, right: 'DESCRIBE' })
    const found = topic.partitions.get(partition)
    if (found === undefined)
      return isAbsence(topic.errorCode)
        ? { kind: 'absent' }
        : { kind: 'none', reason: brokerErrorName(topic.errorCode) }
    const address = this.#nodes.get(found.leader)
    return address === undefined
      ? { kind: 'none', reason: brokerErrorName(brokerErrorCode.leaderNotAvailable) }
      : { kind: 'leader', address, leaderEpoch: found.leaderEpoch }
  }

  #remember({ brokers, topics }: ClusterMetadata): void {
    if (brokers.length > 0) this.#nodes.clear()
    for (const { nodeId, host, port } of brokers) this.#nodes.set(nodeId, { host, port })
    for (const topic of topics) {
      // Only good answers are kept: a missing topic or right may be there at the next question.
      if (topic.errorCode === brokerErrorCode.none) this.#topics.set(topic.topic, knownTopic(topic))
      else this.#topics.delete(topic.topic)
    }
  }
}

interface KnownTopic {
  readonly errorCode: number
  readonly partitions: ReadonlyMap<number, PartitionMetadata>
}

const knownTopic = ({ errorCode, partitions }: TopicMetadata): KnownTopic => ({
  errorCode,
  partitions: new Map(partitions.map((one) => [one.partition, one])),
})

const metadataRequest = (topics: readonly string[] | null): BrokerRequest => ({
  apiKey: METADATA_API,
  apiName: 'Metadata',
  versions: METADATA_VERSIONS,
  isFlexible: isFlexibleMetadata,
  encode: (version) => encodeMetadataRequest(version, topics),
})

const isAbsence = (errorCode: number): boolean =>
  errorCode === brokerErrorCode.none || errorCode === brokerErrorCode.unknownTopicOrPartition

/** `host:port: reason` of a KAFKA_UNREACHABLE. */
const reasonIn = (error: SluiceError): string =>
  'brokers' in error.parameters && 'reason' in error.parameters
    ? `${error.parameters.brokers}: ${error.parameters.reason}`
    : error.message

/** Answers that are cut off or garbled are worth another attempt on another connection. */
function decoded<T>(request: string, brokers: string, decode: () => T): T {
  try {
    return decode()
  } catch (e) {
    const reason = `its answer to ${request} cannot be read (${reasonOf(e)})`
    throw new SluiceError('KAFKA_UNREACHABLE', { brokers, reason }, e)
  }
}
