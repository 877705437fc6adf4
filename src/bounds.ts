/** Where a bounded read begins and ends in each partition, from its starting and ending options. */
import type { BatchOptions } from './batch-options.ts'
import { SluiceError } from './errors.ts'
import type { LateRange } from './late-ranges.ts'
import { positionsOf, resolveStart, timestampsToMatch } from './offset-range-limit.ts'
import type { OffsetRangeLimit, StartingPosition } from './offset-range-limit.ts'
import { nameOf, offsetAt } from './offsets.ts'
import type { TopicPartition } from './offsets.ts'
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
  const numbers = resolveStart(limit, { assigned, earliest: new Map(), latest, matched })
  return (tp) => offsetAt(numbers, tp) ?? vanished(tp)
}

const vanished = (tp: TopicPartition): never => {
  throw new SluiceError('TOPIC_NOT_FOUND', { topics: nameOf(tp) })
}
