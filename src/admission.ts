/**
 * How much of what Kafka holds goes into the next batch (spark-semantics 2.2 and 2.4). The arithmetic is Spark's, down
 * to the order of its floating-point operations: the same log gives the same batches.
 */
import { MAX_INT64, entriesOf, offsetAt, offsetsOf, sameOffsets } from './offsets.ts'
import type { PartitionOffsets, TopicPartition } from './offsets.ts'

export interface AdmissionInput {
  readonly start: PartitionOffsets
  readonly latest: PartitionOffsets
  /** Earliest offsets of the partitions of `latest` that `start` does not have; read only under a limit. */
  readonly earliestOfNew: PartitionOffsets
  /** null: everything that is available. */
  readonly maxOffsetsPerTrigger: bigint | null
  /** No batch was ever planned. The first one is made even where nothing is new. */
  readonly fresh: boolean
}

export type Admission = { readonly kind: 'admit'; readonly end: PartitionOffsets } | { readonly kind: 'noNewData' }

/**
 * The next batch's end. New data means that the end map differs from the start map, not that it is larger: a lower end, a vanished
 * or an empty new partition each make a batch. An empty end map counts as no offset and makes none.
 */
export function admitOffsets(input: AdmissionInput): Admission {
  const { start, latest, earliestOfNew, maxOffsetsPerTrigger: limit } = input
  const end = limit === null ? latest : rateLimit(limit, start, latest, earliestOfNew)
  if (entriesOf(end).length === 0) return { kind: 'noNewData' }
  return input.fresh || !sameOffsets(start, end) ? { kind: 'admit', end } : { kind: 'noNewData' }
}

/**
 * Shares `limit` offsets among the partitions in proportion to their backlogs. A soft limit: a share under one becomes
 * one, others are rounded down, and what that leaves is not shared again. A partition without backlog, or without a known
 * begin, gets `latest` as it is, so that planning sees a shrunk one.
 */
export function rateLimit(
  limit: bigint,
  start: PartitionOffsets,
  latest: PartitionOffsets,
  earliestOfNew: PartitionOffsets
): PartitionOffsets {
  const beginOf = (tp: TopicPartition): bigint | undefined => offsetAt(start, tp) ?? offsetAt(earliestOfNew, tp)
  const shares = entriesOf(latest).map((until) => {
    const begin = beginOf(until) ?? until.offset
    return { until, begin, size: until.offset - begin }
  })
  const total = Number(shares.reduce((sum, { size }) => (size > 0n ? sum + size : sum), 0n))
  if (total < 1) return latest
  return offsetsOf(
    shares.map(({ until, begin, size }) => ({
      ...until,
      offset: size > 0n ? endOf(begin, until.offset, Number(limit) * (Number(size) / total)) : until.offset,
    }))
  )
}

function endOf(begin: bigint, until: bigint, share: number): bigint {
  const offsets = toInt64(share < 1 ? Math.ceil(share) : Math.floor(share))
  const end = offsets > MAX_INT64 - begin ? MAX_INT64 : begin + offsets // 5 + (2^63 - 1) stays in 64 bits
  return end < until ? end : until
}

// The JVM's conversion of a double: 2^63 and above become 2^63 - 1.
const toInt64 = (value: number): bigint => (value >= Number(MAX_INT64) ? MAX_INT64 : BigInt(value))
