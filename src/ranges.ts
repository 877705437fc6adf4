/** Offset ranges and how a batch is cut into them: spark-semantics 3.1, checked against Spark's own results. */
import { nameOf } from './offsets.ts'
import type { TopicPartition } from './offsets.ts'

/** `[from, until)` of one partition. */
export interface OffsetRange extends TopicPartition {
  readonly from: bigint
  readonly until: bigint
}

export interface SplitOptions {
  /** A hint: the number of pieces may end below or above it. */
  readonly minPartitions: number | null
  readonly maxRecordsPerPartition: bigint | null
}

export const sizeOf = (range: OffsetRange): bigint => range.until - range.from

export const totalSizeOf = (ranges: readonly OffsetRange[]): bigint =>
  ranges.reduce((sum, range) => sum + sizeOf(range), 0n)

/**
 * Cuts ranges into pieces as Spark does, in the order of the ranges: contiguous, disjoint, not empty, covering exactly
 * the ranges that are not empty. Empty and negative ranges are dropped.
 */
export function splitRanges(ranges: readonly OffsetRange[], options: SplitOptions): OffsetRange[] {
  const { minPartitions, maxRecordsPerPartition } = options
  const whole = ranges.filter((range) => sizeOf(range) > 0n)
  const bounded =
    maxRecordsPerPartition === null
      ? whole
      : whole.flatMap((range) => cut(range, Math.ceil(Number(sizeOf(range)) / Number(maxRecordsPerPartition))))
  return minPartitions === null || minPartitions <= bounded.length ? bounded : spread(bounded, minPartitions)
}

/**
 * Raises the number of pieces towards `minPartitions`. Ranges whose share is one piece stay whole, and their sizes leave
 * the proportion, so that the large ones share what is left (SPARK-36576).
 */
function spread(ranges: readonly OffsetRange[], minPartitions: number): OffsetRange[] {
  const total = totalSizeOf(ranges)
  const small = ranges.filter((range) => partsOf(range, total, minPartitions) === 1)
  const smallPartitions = new Set(small.map(nameOf)) // by partition: another piece of a small one stays whole too
  const rest = total - totalSizeOf(small)
  const restPartitions = Math.max(minPartitions - small.length, 1)
  return ranges.flatMap((range) =>
    smallPartitions.has(nameOf(range)) ? [range] : cut(range, partsOf(range, rest, restPartitions))
  )
}

// In doubles, in this order; Math.round rounds halves up as the JVM does.
const partsOf = (range: OffsetRange, total: bigint, parts: number): number =>
  Math.max(1, Math.round((Number(sizeOf(range)) / Number(total)) * parts))

/** Equal pieces by integer division: the surplus lands at the end, [1,11) in 3 gives 3, 3, 4. Empty pieces are dropped. */
function cut(range: OffsetRange, parts: number): OffsetRange[] {
  const pieces: OffsetRange[] = []
  let from = range.from
  for (let left = parts; left > 0; left--) {
    const until = from + (range.until - from) / BigInt(left)
    if (until > from) pieces.push({ ...range, from, until })
    from = until
  }
  return pieces
}
