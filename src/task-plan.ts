/**
 * The tasks of a batch: one for each range, as Spark cuts them; with `sluice.targetBytesPerWorker` small ranges share one and fat
 * ones are cut (N3); and where a worker's time is limited, no task is planned that would need more than half of it.
 */
import { offsetsWithin } from './admission.ts'
import type { BatchVolume } from './admission.ts'
import { compareTopicPartitions } from './offsets.ts'
import type { TopicPartition } from './offsets.ts'
import { sizeOf, splitRanges } from './ranges.ts'
import type { OffsetRange, SplitOptions } from './ranges.ts'

export interface TaskLimits extends SplitOptions {
  readonly targetBytesPerWorker: bigint | null
  /** null: a worker has all the time. */
  readonly workerTimeoutMs: number | null
}

/** What recent batches took. */
export interface BatchWork extends BatchVolume {
  readonly tasks: number
  /** Milliseconds of their workers, in all. */
  readonly workMs: number
}

/** The node that leads a partition; undefined where that is not known. */
export type LeaderOf = (tp: TopicPartition) => number | undefined

/** Sizes go by the averages of recent batches; where these tell nothing, neither bytes nor time count. */
export function planTasks(
  ranges: readonly OffsetRange[],
  limits: TaskLimits,
  recent: readonly BatchWork[],
  leaderOf: LeaderOf
): OffsetRange[][] {
  const byBytes = offsetsInBytes(limits.targetBytesPerWorker, recent)
  const perTask = smaller(byBytes, offsetsInTime(limits.workerTimeoutMs, recent))
  const { minPartitions, maxRecordsPerPartition } = limits
  const pieces = splitRanges(ranges, {
    minPartitions,
    maxRecordsPerPartition: smaller(maxRecordsPerPartition, perTask),
  })
  return byBytes === null || perTask === null ? pieces.map((range) => [range]) : pack(pieces, perTask, leaderOf)
}

export const smaller = (a: bigint | null, b: bigint | null): bigint | null =>
  a === null || b === null ? (a ?? b) : a < b ? a : b

const offsetsInBytes = (bytes: bigint | null, recent: readonly BatchWork[]): bigint | null =>
  bytes === null || recent.every((batch) => batch.bytes === 0n) ? null : offsetsWithin(bytes, recent)

/** Below this time for each task a batch tells how long a worker takes to get going, not how fast it reads. */
const MEASURED_MS = 2000

/** So many offsets as a worker gets through in half of its time. */
function offsetsInTime(timeoutMs: number | null, recent: readonly BatchWork[]): bigint | null {
  const measured = recent.filter(({ offsets, tasks, workMs }) => offsets > 0n && workMs >= MEASURED_MS * tasks)
  if (timeoutMs === null || measured.length === 0) return null
  const offsets = measured.reduce((sum, batch) => sum + batch.offsets, 0n)
  const workMs = measured.reduce((sum, batch) => sum + batch.workMs, 0)
  const most = (offsets * BigInt(Math.floor(timeoutMs / 2))) / BigInt(Math.ceil(workMs))
  return most < 1n ? 1n : most
}

/**
 * Fills one task after the other, leader by leader, so that a worker connects to one broker or two. A piece that does not
 * fit begins the next task.
 */
function pack(pieces: readonly OffsetRange[], perTask: bigint, leaderOf: LeaderOf): OffsetRange[][] {
  const leader = (range: OffsetRange): number => leaderOf(range) ?? -1
  const ordered = pieces.toSorted(
    (a, b) => leader(a) - leader(b) || compareTopicPartitions(a, b) || (a.from < b.from ? -1 : 1)
  )
  const tasks: OffsetRange[][] = []
  let room = 0n
  for (const piece of ordered) {
    const task = tasks.at(-1)
    if (task !== undefined && sizeOf(piece) <= room) task.push(piece)
    else {
      tasks.push([piece])
      room = perTask
    }
    room -= sizeOf(piece)
  }
  return tasks
}
