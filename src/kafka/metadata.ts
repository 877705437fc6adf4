/**
 * The Metadata request, versions 8 to 12. kafkajs stops at version 6, which knows no topic ids, and its own client would
 * let the broker create a topic that was merely looked at.
 */
import { WireReader, WireWriter } from './wire.ts'

export const METADATA_API = 3
/** 8 is Kafka 2.3's; 9 (2.4) has the compact forms, 10 (2.8) the topic ids. */
export const METADATA_VERSIONS = { min: 8, max: 12 } as const

export interface BrokerNode {
  readonly nodeId: number
  readonly host: string
  readonly port: number
}

export interface PartitionMetadata {
  readonly partition: number
  readonly errorCode: number
  /** Node id, -1 while there is none. */
  readonly leader: number
  readonly leaderEpoch: number
}

export interface TopicMetadata {
  readonly topic: string
  readonly errorCode: number
  /** Kafka's text form (base64url, 22 characters); null where the topic or the broker has none. */
  readonly topicId: string | null
  readonly isInternal: boolean
  readonly partitions: readonly PartitionMetadata[]
}

export interface ClusterMetadata {
  readonly brokers: readonly BrokerNode[]
  readonly topics: readonly TopicMetadata[]
}

export const isFlexibleMetadata = (version: number): boolean => version >= 9

const ZERO_ID = Buffer.alloc(16)

/** The request body; `topics` null asks for all that the principal may see. It never creates a topic (B17). */
export function encodeMetadataRequest(version: number, topics: readonly string[] | null): Buffer {
  const isFlexible = isFlexibleMetadata(version)
  const writer = new WireWriter()
  if (isFlexible) {
    writer.compactArray(topics, (w, name) => {
      if (version >= 10) w.bytes(ZERO_ID)
      w.compactString(name).noTags()
    })
  } else writer.array(topics, (w, name) => w.string(name))
  writer.boolean(false) // allow_auto_topic_creation
  if (version <= 10) writer.boolean(false) // include_cluster_authorized_operations
  writer.boolean(false) // include_topic_authorized_operations
  return (isFlexible ? writer.noTags() : writer).toBuffer()
}

/** @throws RangeError where the body is cut off. */
export const decodeMetadataResponse = (version: number, body: Buffer): ClusterMetadata =>
  isFlexibleMetadata(version) ? decodeFlexible(new WireReader(body), version) : decodeClassic(new WireReader(body))

function decodeFlexible(reader: WireReader, version: number): ClusterMetadata {
  reader.int32() // throttle_time_ms
  const brokers = reader.compactArray((r) => {
    const node = { nodeId: r.int32(), host: r.compactNullableString() ?? '', port: r.int32() }
    r.compactNullableString() // rack
    r.skipTags()
    return node
  })
  reader.compactNullableString() // cluster_id
  reader.int32() // controller_id
  const topics = reader.compactArray((r) => {
    const [errorCode, topic] = [r.int16(), r.compactNullableString() ?? '']
    const topicId = version >= 10 ? topicIdText(r.bytes(16)) : null
    const isInternal = r.boolean()
    const partitions = r.compactArray(flexiblePartition)
    r.int32() // topic_authorized_operations
    r.skipTags()
    return { topic, errorCode, topicId, isInternal, partitions }
  })
  return { brokers, topics }
}

function flexiblePartition(r: WireReader): PartitionMetadata {
  const found = { errorCode: r.int16(), partition: r.int32(), leader: r.int32(), leaderEpoch: r.int32() }
  for (let list = 0; list < 3; list += 1) r.compactArray((node) => node.int32()) // replicas, in sync, offline
  r.skipTags()
  return found
}

function decodeClassic(reader: WireReader): ClusterMetadata {
  reader.int32() // throttle_time_ms
  const brokers = reader.array((r) => {
    const node = { nodeId: r.int32(), host: r.nullableString() ?? '', port: r.int32() }
    r.nullableString() // rack
    return node
  })
  reader.nullableString() // cluster_id
  reader.int32() // controller_id
  const topics = reader.array((r) => {
    const [errorCode, topic, isInternal] = [r.int16(), r.nullableString() ?? '', r.boolean()]
    const partitions = r.array(classicPartition)
    r.int32() // topic_authorized_operations
    return { topic, errorCode, topicId: null, isInternal, partitions }
  })
  return { brokers, topics }
}

function classicPartition(r: WireReader): PartitionMetadata {
  const found = { errorCode: r.int16(), partition: r.int32(), leader: r.int32(), leaderEpoch: r.int32() }
  for (let list = 0; list < 3; list += 1) r.array((node) => node.int32()) // replicas, in sync, offline
  return found
}

const topicIdText = (id: Buffer): string | null => (id.equals(ZERO_ID) ? null : id.toString('base64url'))
