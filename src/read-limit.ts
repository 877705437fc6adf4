/** What bounds the next batch: the query's options, what kind of run it is, and how large recent batches were. */
import { offsetsWithin, unlimited } from './admission.ts'
import type { BatchVolume, ReadLimit } from './admission.ts'
import type { BatchContext, Run } from './context.ts'
import { decodeCommit, logKeys } from './log.ts'
import type { LastPass } from './ports.ts'

export interface LimitRequest {
  readonly run: Run
  /** The newest batch, which is committed; null for a fresh query. */
  readonly newestBatch: number | null
  /** From the lease (decision 4). */
  readonly lastPass: LastPass | null
  /** Start of the trigger, ms since the epoch. */
  readonly triggerMs: number
}

/** Trigger.once has none at all. Of a cap in offsets and one in bytes the smaller counts. */
export async function readLimitOf(
  context: BatchContext,
  { run, newestBatch, lastPass, triggerMs }: LimitRequest,
  signal: AbortSignal
): Promise<ReadLimit> {
  if (run.once === true) return unlimited
  const { minOffsetsPerTrigger, maxOffsetsPerTrigger, maxBytesPerTrigger, maxTriggerDelayMs } = context.options
  const byBytes =
    maxBytesPerTrigger === null
      ? null
      : offsetsWithin(maxBytesPerTrigger, await recentVolumes(context, newestBatch, signal))
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

const smaller = (a: bigint | null, b: bigint | null): bigint | null =>
  a === null || b === null ? (a ?? b) : a < b ? a : b

/** So many batches tell what an offset weighs: the records of a topic change, but not from one batch to the next. */
const RECENT_BATCHES = 5

async function recentVolumes(
  { log }: BatchContext,
  newest: number | null,
  signal: AbortSignal
): Promise<readonly BatchVolume[]> {
  if (newest === null) return []
  const ids = Array.from({ length: Math.min(RECENT_BATCHES, newest + 1) }, (_, i) => newest - i)
  const texts = await Promise.all(ids.map((batchId) => log.get(logKeys.commits(batchId), signal)))
  return ids.flatMap((batchId, i) => {
    const text = texts[i] ?? null
    if (text === null) return []
    const { offsets, inputBytes } = decodeCommit(batchId, text).progress.sluice
    return [{ offsets, bytes: BigInt(inputBytes) }]
  })
}
