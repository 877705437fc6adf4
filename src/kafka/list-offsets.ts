/** The ListOffsets request, version 5 (Kafka 2.3): always with an explicit isolation level (B18), errors by partition. */
import type { TopicPartition } from '../offsets.ts'
import type { IsolationLevel } from '../ports.ts'
import { WireReader, WireWriter } from './wire.ts'

export const LIST_OFFSETS_API = 2
/** From 6 on the forms are compact. */
export const LIST_OFFSETS_VERSIONS = { min: 5, max: 5 } as const

/** The timestamps with a meaning of their own. */
export const LATEST = -1n
export const EARLIEST = -2n

export const isolationByte = (level: IsolationLevel): number => (level === 'read_committed' ? 1 : 0)

export interface OffsetQuery extends TopicPartition {
  readonly leaderEpoch: number
  /** LATEST, EARLIEST or milliseconds since the epoch. */
  readonly at: bigint
}

export interface OffsetAnswer extends TopicPartition {
  readonly errorCode: number
  /** -1 where no record has the asked-for timestamp or a later one. */
  readonly offset: bigint
}

export function encodeListOffsetsRequest(queries: readonly OffsetQuery[], level: IsolationLevel): Buffer {
  const byTopic = [...Map.groupBy(queries, (query) => query.topic)]
  return new WireWriter()
    .int32(-1) // replica_id: a consumer
    .int8(isolationByte(level))
    .array(byTopic, (topics, [topic, partitions]) =>
      topics
        .string(topic)
        .array(partitions, (writer, query) => writer.int32(query.partition).int32(query.leaderEpoch).int64(query.at))
    )
    .toBuffer()
}

/** @throws RangeError where the body is cut off. */
export function decodeListOffsetsResponse(body: Buffer): OffsetAnswer[] {
  const reader = new WireReader(body)
  reader.int32() // throttle_time_ms
  const topics = reader.array((r) => {
    const topic = r.nullableString() ?? ''
    return r.array((p) => {
      const [partition, errorCode] = [p.int32(), p.int16()]
      p.int64() // timestamp
      const offset = p.int64()
      p.int32() // leader_epoch
      return { topic, partition, errorCode, offset }
    })
  })
  return topics.flat()
}
