/** The Fetch request, versions 4 to 11, for one partition, without a fetch session. */
import type { TopicPartition } from '../offsets.ts'
import { isolationByte, type IsolationLevel } from './list-offsets.ts'
import { WireWriter } from './wire.ts'

export const FETCH_API = 1
/** 4 (Kafka 0.11) is the first with isolation levels and record batches; from 12 on the forms are compact. */
export const FETCH_VERSIONS = { min: 4, max: 11 } as const

export interface FetchRequest extends TopicPartition {
  readonly offset: bigint
  readonly isolationLevel: IsolationLevel
  /** A broker sends one whole batch even where it is larger than this. */
  readonly maxBytes: number
  readonly minBytes: number
  /** Milliseconds that a broker without data may wait. */
  readonly maxWaitMs: number
  /** Lets the broker notice a stale leader on either side; -1 where it is not known. */
  readonly leaderEpoch: number
}

export function encodeFetchRequest(version: number, request: FetchRequest): Buffer {
  const writer = new WireWriter()
    .int32(-1) // replica_id: a consumer
    .int32(request.maxWaitMs)
    .int32(request.minBytes)
    .int32(request.maxBytes)
    .int8(isolationByte(request.isolationLevel))
  if (version >= 7) writer.int32(0).int32(-1) // no session
  writer.array([request], (w, one) => {
    w.string(one.topic).array([one], (p) => {
      p.int32(one.partition)
      if (version >= 9) p.int32(one.leaderEpoch)
      p.int64(one.offset)
      if (version >= 5) p.int64(-1n) // log_start_offset: only followers send one
      p.int32(one.maxBytes)
    })
  })
  if (version >= 7) writer.int32(0) // forgotten_topics_data
  if (version >= 11) writer.string('') // rack_id: always from the leader
  return writer.toBuffer()
}
