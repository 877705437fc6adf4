/** Where a bounded read begins and ends in each partition, from its starting and ending options. */
import type { BatchOptions } from './batch-options.ts'
import { SluiceError } from './errors.ts'
import { checkOrder } from './late-ranges.ts'
import type { LateRange } from './late-ranges.ts'
import { positionsOf, resolveOffsets, timestampsToMatch } from './offset-range-limit.ts'
import type { OffsetRangeLimit, StartingPosition } from './offset-range-limit.ts'
import { entriesOf, nameOf, offsetAt } from './offsets.ts'
import type { PartitionOffsets, TopicPartition } from './offsets.ts'
import type { OffsetReader } from './ports.ts'

/**
 * One range for each partition. Timestamps become numbers here; `earliest` and `latest` stay words (spark-semantics 3.2).
 * @throws KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED, KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED, KAFKA_NO_OFFSET_FOR_TIMESTAMP
 */
export async function resolveBounds(
  { startingOffsets, endingOffsets }: Pick<BatchOptions, 'startingOffsets' | 'endingOffsets'>,
  assigned: readonly TopicPartition[],
  offsets: OffsetReader,
  signal: AbortSignal
): Promise<LateRange[]> {
  const from = await positionsFor('start', startingOffsets, assigned, offsets, signal)
  const until = await positionsFor('end', endingOffsets, assigned, offsets, signal)
  return assigned.map(({ topic, partition }) => {
    const [first, last] = [from({ topic, partition }), until({ topic, partition })]
    // The options' parser has refused both.
    if (first === 'latest' || last === 'earliest') throw new TypeError('a start at latest, or an end at earliest')
    return { topic, partition, from: first, until: last, isFinal: true }
  })
}

async function positionsFor(
  position: 'start' | 'end',
  limit: OffsetRangeLimit,
  assigned: readonly TopicPartition[],
  offsets: OffsetReader,
  signal: AbortSignal
): Promise<(tp: TopicPartition) => StartingPosition> {
  const timestamps = timestampsToMatch(limit, assigned, position)
  if (timestamps === null) return positionsOf(limit, { assigned, latest: new Map() }, position)
  // The end first: a record that comes between the two questions is matched then.
  const latest = await offsets.latest(assigned, signal)
  const matched = await offsets.forTimestamps(timestamps, signal)
  const numbers = resolveOffsets(limit, { assigned, earliest: new Map(), latest, matched }, position)
  return (tp) => offsetAt(numbers, tp) ?? vanished(tp)
}

/**
 * The end of a backfill in offsets. It may lie beyond what Kafka holds: that is for the plan's checks.
 * @param latest asked for before the timestamps are
 * @throws KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED, KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED,
 * RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET
 */
export async function resolveEnd(
  endingOffsets: OffsetRangeLimit,
  {
    start,
    assigned,
    latest,
  }: { start: PartitionOffsets; assigned: readonly TopicPartition[]; latest: PartitionOffsets },
  offsets: OffsetReader,
  signal: AbortSignal
): Promise<PartitionOffsets> {
  const timestamps = timestampsToMatch(endingOffsets, assigned, 'end')
  const matched = timestamps === null ? new Map() : await offsets.forTimestamps(timestamps, signal)
  const end = resolveOffsets(endingOffsets, { assigned, earliest: new Map(), latest, matched }, 'end')
  for (const { topic, partition, offset } of entriesOf(end)) {
    const from = offsetAt(start, { topic, partition })
    if (from !== undefined) checkOrder({ topic, partition, from, until: offset })
  }
  return end
}

const vanished = (tp: TopicPartition): never => {
  throw new SluiceError('TOPIC_NOT_FOUND', { topics: nameOf(tp) })
}
