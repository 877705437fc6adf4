/** The Fetch request, version 11, for one partition, without a fetch session; its answer is read by fetch-response.ts. */
import type { TopicPartition } from '../offsets.ts'
import type { IsolationLevel } from '../ports.ts'
import { isolationByte } from './list-offsets.ts'
import { WireWriter } from './wire.ts'

export const FETCH_API = 1
/** 11 came with Kafka 2.3; from 12 on the forms are compact. */
export const FETCH_VERSIONS = { min: 11, max: 11 } as const

export interface FetchRequest extends TopicPartition {
  readonly offset: bigint
  readonly isolationLevel: IsolationLevel
  /** A broker sends one whole batch even where it is larger than this. */
  readonly maxBytes: number
  /** Milliseconds that a broker without data may wait. */
  readonly maxWaitMs: number
  /** Lets the broker notice a stale leader on either side. */
  readonly leaderEpoch: number
}

export const encodeFetchRequest = (request: FetchRequest): Buffer =>
  new WireWriter()
    .int32(-1) // replica_id: a consumer
    .int32(request.maxWaitMs)
    .int32(1) // min_bytes
    .int32(request.maxBytes)
    .int8(isolationByte(request.isolationLevel))
    .int32(0) // session_id and session_epoch: no session
    .int32(-1)
    .array([request], (topic) =>
      topic.string(request.topic).array([request], (partition) =>
        partition
          .int32(request.partition)
          .int32(request.leaderEpoch)
          .int64(request.offset)
          .int64(-1n) // log_start_offset: only followers send one
          .int32(request.maxBytes)
      )
    )
    .int32(0) // forgotten_topics_data
    .string('') // rack_id: always from the leader
    .toBuffer()
