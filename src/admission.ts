/**
 * How much of what Kafka holds goes into the next batch (spark-semantics 2.2 to 2.4). The arithmetic is Spark's, down
 * to the order of its floating-point operations: the same log gives the same batches.
 */
import { MAX_INT64, entriesOf, offsetAt, offsetsOf, sameOffsets } from './offsets.ts'
import type { PartitionOffsets, TopicPartition } from './offsets.ts'

export interface AdmissionInput {
  readonly start: PartitionOffsets
  readonly latest: PartitionOffsets
  /** Earliest offsets of the partitions of `latest` that `start` does not have; read only under a cap. */
  readonly earliestOfNew: PartitionOffsets
  readonly limit: ReadLimit
  /** No batch was ever planned. The first one is made even where nothing is new. */
  readonly fresh: boolean
}

export interface ReadLimit {
  /** A batch waits until so much is there; null: it does not. */
  readonly min: MinimumLimit | null
  /** null: everything that is available. */
  readonly maxOffsets: bigint | null
}

export interface MinimumLimit {
  readonly offsets: bigint
  /** No longer than this after the last check that passed, ms. */
  readonly maxDelayMs: number
  /** When that was, ms since the epoch; null counts as 0, so that the first check of a run passes. */
  readonly lastPassMs: number | null
  readonly nowMs: number
}

export const unlimited: ReadLimit = { min: null, maxOffsets: null }

export type Admission =
  | { readonly kind: 'admit'; readonly end: PartitionOffsets }
  | Delay
  | { readonly kind: 'noNewData' }

/** `pending` offsets are fewer than the minimum; from `untilMs` on the check passes whatever is there. */
export interface Delay {
  readonly kind: 'delay'
  readonly pending: bigint
  readonly untilMs: number
}

/**
 * The next batch's end. New data means that the end map differs from the start map, not that it is larger: a lower end, a vanished
 * or an empty new partition each make a batch. An empty end map counts as no offset and makes none. Where there is a
 * minimum, every answer but `delay` is a check that passed, also `noNewData`.
 */
export function admitOffsets(input: AdmissionInput): Admission {
  const { start, latest, earliestOfNew, limit } = input
  const delay = limit.min === null ? null : delayUnder(limit.min, start, latest)
  if (delay !== null) return delay
  const end = limit.maxOffsets === null ? latest : rateLimit(limit.maxOffsets, start, latest, earliestOfNew)
  if (entriesOf(end).length === 0) return { kind: 'noNewData' }
  return input.fresh || !sameOffsets(start, end) ? { kind: 'admit', end } : { kind: 'noNewData' }
}

/** Spark counts a new partition from 0, not from its earliest offset, and one that shrank as less than nothing. */
function delayUnder(
  { offsets, maxDelayMs, lastPassMs, nowMs }: MinimumLimit,
  start: PartitionOffsets,
  latest: PartitionOffsets
): Delay | null {
  const untilMs = (lastPassMs ?? 0) + maxDelayMs
  if (nowMs >= untilMs) return null
  const pending = entriesOf(latest).reduce((sum, until) => sum + until.offset - (offsetAt(start, until) ?? 0n), 0n)
  return pending < offsets ? { kind: 'delay', pending, untilMs } : null
}

/** What a batch took: offsets of its ranges, and bytes of the keys and values in them. */
export interface BatchVolume {
  readonly offsets: bigint
  readonly bytes: bigint
}

/** The largest record that Kafka takes by default (message.max.bytes), rounded. */
const LARGEST_RECORD_BYTES = 1024n * 1024n

/**
 * A cap in bytes as a cap in offsets, by the average bytes per offset of recent batches; at least one offset. Without any
 * byte to go by, each offset counts as the largest record that brokers take by default: the first batch is then
 * a small sample that keeps to the cap, and the second one is measured.
 */
export function offsetsWithin(maxBytes: bigint, recent: readonly BatchVolume[]): bigint {
  const bytes = recent.reduce((sum, batch) => sum + batch.bytes, 0n)
  const offsets = recent.reduce((sum, batch) => sum + batch.offsets, 0n)
  const cap = bytes > 0n && offsets > 0n ? (maxBytes * offsets) / bytes : maxBytes / LARGEST_RECORD_BYTES
  return cap < 1n ? 1n : cap > MAX_INT64 ? MAX_INT64 : cap
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
