/**
 * What open transactions hold back. Under read_committed a batch ends at the last stable offset, the first offset of the
 * oldest open transaction; all offsets from there to the high watermark wait, those of finished transactions too.
 */
import { entriesOf, offsetAt, offsetsOf } from './offsets.ts'
import type { PartitionOffsets, TopicPartition } from './offsets.ts'

export interface BlockedPartition extends TopicPartition {
  readonly lastStableOffset: bigint
  /** High watermark less last stable offset, above 0. */
  readonly offsets: bigint
  /** When a planner first saw the last stable offset stand where it stands, UTC, ISO with milliseconds. */
  readonly since: string
}

/** Both ends of each partition. The high watermark is asked for first: what then lies above the stable end is open indeed. */
export interface CommittedEnds {
  readonly lastStable: PartitionOffsets
  readonly highWatermarks: PartitionOffsets
}

/**
 * Where a batch may end: the last stable offset, but not below a position that the log still holds. A query that read
 * uncommitted records and reads committed ones from now on has delivered more than is stable: it waits there, since going
 * back would deliver them twice, and nothing is lost.
 */
export const stableLatest = (ends: CommittedEnds, position: PartitionOffsets): PartitionOffsets =>
  offsetsOf(
    entriesOf(ends.lastStable).map((stable) => {
      const reached = offsetAt(position, stable) ?? stable.offset
      const isHeld = reached > stable.offset && reached <= (offsetAt(ends.highWatermarks, stable) ?? stable.offset)
      return isHeld ? { ...stable, offset: reached } : stable
    })
  )

/**
 * The partitions that wait, ordered. One that stood at the same offset when the plan before was made keeps its `since`.
 * @param before what the plan before found
 */
export function blockedPartitions(
  { lastStable, highWatermarks }: CommittedEnds,
  before: readonly BlockedPartition[],
  nowMs: number
): BlockedPartition[] {
  const now = new Date(nowMs).toISOString()
  const known = new Map(before.map((one) => [keyOf(one), one]))
  return entriesOf(lastStable).flatMap((stable) => {
    const { topic, partition, offset: lastStableOffset } = stable
    const offsets = (offsetAt(highWatermarks, stable) ?? lastStableOffset) - lastStableOffset
    if (offsets <= 0n) return []
    const earlier = known.get(keyOf(stable))
    const since = earlier?.lastStableOffset === lastStableOffset ? earlier.since : now
    return [{ topic, partition, lastStableOffset, offsets, since }]
  })
}

const keyOf = ({ topic, partition }: TopicPartition): string => `${partition} ${topic}`
