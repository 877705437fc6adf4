/**
 * Ranges of a bounded read. `earliest` and `latest` stay words until a range is read, so that a second reading of one plan
 * sees what is there then (spark-semantics 3.2).
 */
import { SluiceError } from './errors.ts'
import { nameOf, offsetAt } from './offsets.ts'
import type { PartitionOffsets, TopicPartition } from './offsets.ts'
import { splitRanges } from './ranges.ts'
import type { OffsetRange, SplitOptions } from './ranges.ts'

/** `[from, until)` of one partition, not yet bound to numbers. */
export interface LateRange extends TopicPartition {
  readonly from: bigint | 'earliest'
  readonly until: bigint | 'latest'
  /** Its end is the end of the whole read in this partition, not a cut between two pieces. */
  readonly isFinal: boolean
}

/** What the words stand for now, and the numbers as they are. */
export interface BoundNumbers {
  readonly from: PartitionOffsets
  readonly until: PartitionOffsets
}

/** Kafka's own numbers for the words: Spark compares sizes with these before anything is resolved (X13). */
const unresolved = (bound: bigint | 'earliest' | 'latest'): bigint =>
  bound === 'earliest' ? -2n : bound === 'latest' ? -1n : bound

/** Whether Spark would split: one range for each partition goes in. */
export const needsSplit = (ranges: readonly LateRange[], options: SplitOptions): boolean => {
  const { minPartitions, maxRecordsPerPartition } = options
  return (
    (minPartitions !== null && minPartitions > ranges.length) ||
    (maxRecordsPerPartition !== null &&
      ranges.some(({ from, until }) => unresolved(until) - unresolved(from) > maxRecordsPerPartition))
  )
}

/**
 * Cuts by the numbers, then gives the first piece of a partition its word back, and the last. As in Spark a partition
 * that is empty by the numbers is left out. One without numbers has vanished, and whoever reads it finds that.
 */
export function splitLateRanges(
  ranges: readonly LateRange[],
  numbers: BoundNumbers,
  options: SplitOptions
): LateRange[] {
  const numbered = ranges.map((range) => ({ range, numbers: numbersFor(range, numbers) }))
  const pieces = Map.groupBy(
    splitRanges(
      numbered.flatMap((one) => one.numbers ?? []),
      options
    ),
    nameOf
  )
  return numbered.flatMap(({ range, numbers: found }) => {
    if (found === null) return [range]
    return (pieces.get(nameOf(range)) ?? []).map((piece, i, { length }) => ({
      ...piece,
      from: i === 0 ? range.from : piece.from,
      until: i === length - 1 ? range.until : piece.until,
      isFinal: i === length - 1,
    }))
  })
}

/**
 * Spark's second relation does not check this, its first one does (K84, K86).
 * @throws RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET
 */
export function checkOrder({ topic, partition, from, until }: Omit<LateRange, 'isFinal'>): void {
  if (typeof from !== 'bigint' || typeof until !== 'bigint' || from <= until) return
  throw new SluiceError('RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET', {
    topic,
    partition,
    start: String(from),
    end: String(until),
  })
}

/** A partition's range in numbers; null where Kafka gave none. */
export function numbersFor({ topic, partition }: TopicPartition, numbers: BoundNumbers): OffsetRange | null {
  const from = offsetAt(numbers.from, { topic, partition })
  const until = offsetAt(numbers.until, { topic, partition })
  return from === undefined || until === undefined ? null : { topic, partition, from, until }
}
