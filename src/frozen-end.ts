/**
 * What an AvailableNow run checks before each batch once its end is frozen (spark-semantics 2.5). The run promised that end,
 * so these fail whatever failOnDataLoss says; the next run freezes another end, and there failOnDataLoss decides.
 */
import { SluiceError } from './errors.ts'
import { entriesOf, nameOf, offsetAt, offsetsOf, partitionsNotIn } from './offsets.ts'
import type { PartitionOffsets } from './offsets.ts'

export interface FrozenEndInput {
  /** The batch's end. */
  readonly end: PartitionOffsets
  /** The run's. */
  readonly frozen: PartitionOffsets
  /** What Kafka has now. */
  readonly latest: PartitionOffsets
  /** Topics that were deleted and created again. Read from their earliest offset they have to reach the run's end, not the batch's. */
  readonly recreated: ReadonlySet<string>
}

/**
 * Partitions and records that came after the freeze are none of the run's business.
 * @throws MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED,
 * END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED,
 * LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW,
 * END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW, each naming both sides
 */
export function checkFrozenEnd({ end: batchEnd, frozen, latest, recreated }: FrozenEndInput): void {
  const end = offsetsOf([...entriesOf(batchEnd), ...entriesOf(frozen).filter(({ topic }) => recreated.has(topic))])
  if (partitionsNotIn(end, frozen).length > 0 || partitionsNotIn(frozen, end).length > 0)
    throw new SluiceError('MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED', {
      tpsForPrefetched: partitionNames(frozen),
      tpsForEndOffset: partitionNames(end),
    })
  if (isBeyond(end, frozen))
    throw new SluiceError('END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED', {
      prefetchedOffset: positions(frozen),
      endOffset: positions(end),
    })
  if (partitionsNotIn(end, latest).length > 0)
    throw new SluiceError('LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW', {
      tpsForLatestOffset: partitionNames(latest),
      tpsForEndOffset: partitionNames(end),
    })
  if (isBeyond(end, latest))
    throw new SluiceError('END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW', {
      latestOffset: positions(latest),
      endOffset: positions(end),
    })
}

/** Whether some partition of `end` lies above the other map, which has it too. */
export const isBeyond = (end: PartitionOffsets, other: PartitionOffsets): boolean =>
  entriesOf(end).some((e) => e.offset > (offsetAt(other, e) ?? e.offset))

/** The error of a query of thousands of partitions still has to pass through a state machine. */
const MAX_NAMED = 100

function listOf(names: readonly string[]): string {
  const more = names.length - MAX_NAMED
  return `{${names.slice(0, MAX_NAMED).join(', ')}${more > 0 ? `, and ${more} more` : ''}}`
}

const partitionNames = (offsets: PartitionOffsets): string => listOf(entriesOf(offsets).map(nameOf))

const positions = (offsets: PartitionOffsets): string =>
  listOf(entriesOf(offsets).map((e) => `${nameOf(e)}: ${e.offset}`))
