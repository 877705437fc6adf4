/** What bounds the next batch: the query's options, what kind of run it is, and how large recent batches were. */
import { offsetsWithin, unlimited } from './admission.ts'
import type { ReadLimit } from './admission.ts'
import type { BatchContext, Run } from './context.ts'
import { decodeCommit, logKeys } from './log.ts'
import type { LastPass } from './ports.ts'
import { smaller } from './task-plan.ts'
import type { BatchWork } from './task-plan.ts'

export interface LimitRequest {
  readonly run: Run
  readonly recent: readonly BatchWork[]
  /** From the lease (decision 4). */
  readonly lastPass: LastPass | null
  /** Start of the trigger, ms since the epoch. */
  readonly triggerMs: number
}

/** Trigger.once has none at all. Of a cap in offsets and one in bytes the smaller counts. */
export function readLimitOf({ options }: BatchContext, { run, recent, lastPass, triggerMs }: LimitRequest): ReadLimit {
  if (run.once === true) return unlimited
  const { minOffsetsPerTrigger, maxOffsetsPerTrigger, maxBytesPerTrigger, maxTriggerDelayMs } = options
  const byBytes = maxBytesPerTrigger === null ? null : offsetsWithin(maxBytesPerTrigger, recent)
  // A run by hand is a new run in Spark's sense: it knows no check but its own.
  const isKnown = lastPass !== null && (run.byHand !== true || lastPass.runId === run.runId)
  return {
    min:
      minOffsetsPerTrigger === null
        ? null
        : {
            offsets: minOffsetsPerTrigger,
            maxDelayMs: maxTriggerDelayMs,
            lastPassMs: isKnown ? lastPass.atMs : null,
            nowMs: triggerMs,
          },
    maxOffsets: smaller(maxOffsetsPerTrigger, byBytes),
  }
}

/** So many batches tell what an offset weighs: the records of a topic change, but not from one batch to the next. */
const RECENT_BATCHES = 5

/** What recent batches took, where an option or a limit asks for it. `newest` is committed; null for a fresh query. */
export async function recentBatches(
  { log, options, workerTimeoutMs }: BatchContext,
  newest: number | null,
  signal: AbortSignal
): Promise<readonly BatchWork[]> {
  const { maxBytesPerTrigger, targetBytesPerWorker } = options
  if (newest === null || (maxBytesPerTrigger ?? targetBytesPerWorker ?? workerTimeoutMs ?? null) === null) return []
  const ids = Array.from({ length: Math.min(RECENT_BATCHES, newest + 1) }, (_, i) => newest - i)
  const texts = await Promise.all(ids.map((batchId) => log.get(logKeys.commits(batchId), signal)))
  return ids.flatMap((batchId, i) => {
    const text = texts[i] ?? null
    if (text === null) return []
    const { offsets, inputBytes, tasks, workMs } = decodeCommit(batchId, text).progress.sluice
    return [{ offsets, bytes: BigInt(inputBytes), tasks, workMs }]
  })
}
