/**
 * What becomes of a task that is too long for one worker (P14): the worker counts its starts, stops reading in time to stage and
 * report what it has, and splits what nobody finished. Only where workers have a deadline: nobody starts a task of a local
 * run again behind its back.
 */
import type { BatchContext } from './context.ts'
import { SluiceError } from './errors.ts'
import { encodeAttempt, logKeys } from './log.ts'
import type { DoneWork, TaskAttempt } from './log.ts'
import type { StoredPlan } from './log-reader.ts'
import { nameOf } from './offsets.ts'
import { sizeOf, totalSizeOf } from './ranges.ts'
import type { OffsetRange } from './ranges.ts'
import { decodeTaskEntry, isSplit } from './split-entry.ts'
import type { TaskSplit } from './split-entry.ts'
import { FAN_OUT, canBeSplit, cutTask, parentOf, partsOfRest } from './task-tree.ts'

/** The ranges of a task, or of a part of one; null for a part that this generation of the plan does not have. */
export async function rangesOfTask(
  { log }: BatchContext,
  { entry, digest }: StoredPlan,
  { generation, task }: { generation: number; task: number },
  signal: AbortSignal
): Promise<readonly OffsetRange[] | null> {
  const part = parentOf(entry.tasks.length, task)
  if (part === null) return entry.tasks[task] ?? null
  const key = logKeys.report(entry.batchId, generation, part.parent)
  const text = await log.get(key, signal)
  const parent = text === null ? null : decodeTaskEntry(key, text)
  if (parent === null || !isSplit(parent) || parent.planDigest !== digest) return null
  return parent.parts[part.index] ?? null
}

export interface TimedWork {
  readonly attempt: TaskAttempt
  readonly ranges: readonly OffsetRange[]
  /** Tasks of the plan. */
  readonly planned: number
  /** When the worker has to have ended, ms since the epoch. */
  readonly deadlineMs: number
}

export type Start =
  | {
      readonly kind: 'started'
      /** Whether it is time to stage and report what was read. */
      isLate(): boolean
      /** Takes the start back where the work failed by an error that tells why: a broker that is down makes no task too long. */
      failed(): Promise<void>
    }
  /** It was started before and ended by none: to be put in place of its report. */
  | { readonly kind: 'split'; readonly entry: TaskSplit }

/** Starts of which none ended by a report, an error or a split: by then the task is too long as it is. */
const STARTS = 2

/**
 * Notes a start by a conditional put.
 * @throws OFFSET_STOPS_WORKER where nothing is left to split. The starts are forgotten then, so that the next run tries again.
 */
export async function startTask(context: BatchContext, work: TimedWork, signal: AbortSignal): Promise<Start> {
  const { log, clock } = context
  const { attempt, planned, ranges, deadlineMs } = work
  const { batchId, generation, task } = attempt
  const isDivisible = canBeSplit(planned, task)
  const keys = Array.from({ length: STARTS }, (_, i) => logKeys.attempt(batchId, generation, task, i + 1))
  for (const key of keys) {
    const outcome = await log.add(key, encodeAttempt(attempt.runId, attempt.attempt), signal)
    if (outcome.kind === 'exists') continue
    const lateMs = deadlineMs - reserveMs(deadlineMs - clock.now())
    return {
      kind: 'started',
      isLate: () => isDivisible && clock.now() >= lateMs,
      async failed() {
        // After the abort, which is the deadline's, the start counts (P20).
        if (!signal.aborted) await log.remove(key, signal).catch(() => {})
      },
    }
  }
  if (isDivisible && totalSizeOf(ranges) > 1n) return { kind: 'split', entry: splitUnread(attempt, ranges) }
  for (const key of keys) await log.remove(key, signal)
  throw new SluiceError('OFFSET_STOPS_WORKER', { offsets: ranges.map(describe).join(', '), starts: STARTS })
}

const describe = (range: OffsetRange): string =>
  sizeOf(range) === 1n ? `${nameOf(range)} at offset ${range.from}` : `${nameOf(range)} [${range.from}, ${range.until})`

/** For the last row group, the upload and the report; of a short time a part of it. */
const reserveMs = (leftMs: number): number => Math.min(30_000, Math.max(0, leftMs) / 4)

/** A split of a task that nobody finished: nothing of it counts. */
export const splitUnread = (attempt: TaskAttempt, ranges: readonly OffsetRange[]): TaskSplit => ({
  ...attempt,
  kind: 'split',
  done: null,
  parts: cutTask(ranges, FAN_OUT),
})

/** A split by a worker that stopped in time: what it staged counts, the rest becomes parts. */
export function splitRest(attempt: TaskAttempt, done: DoneWork, rest: readonly OffsetRange[]): TaskSplit {
  const parts = partsOfRest(totalSizeOf(done.ranges), totalSizeOf(rest))
  return { ...attempt, kind: 'split', done, parts: cutTask(rest, parts) }
}
