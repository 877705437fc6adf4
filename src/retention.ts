/** What follows `commits/N`: the sink's housekeeping, and the removal of old log entries (P7, P15). Tried again with every batch. */
import type { BatchContext } from './context.ts'
import { reasonOf } from './errors.ts'
import { logKeys } from './log.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** Younger entries are never removed: a planner may still be asleep over their keys. */
const MIN_AGE_MS = DAY_MS
/** Commits hold progress and loss events. */
const COMMITS_AGE_MS = 30 * DAY_MS

/** Nothing here may fail a batch that is committed: what went wrong is answered in words. */
export async function keepHouse(
  context: BatchContext,
  batchId: number,
  signal: AbortSignal
): Promise<readonly string[]> {
  const attempt = async (what: string, work: Promise<void>): Promise<string[]> =>
    work.then(
      () => [],
      (error: unknown) => [`${what}: ${reasonOf(error)}`]
    )
  return [
    ...(await attempt('sink housekeeping', context.sink.maintain(signal))),
    ...(await attempt('log retention', removeOldBatches(context, batchId, signal))),
  ]
}

/** Keeps the batches from N - `sluice.minBatchesToRetain` on (E1). That option is 1 or more, so the newest two always stay. */
async function removeOldBatches(context: BatchContext, newest: number, signal: AbortSignal): Promise<void> {
  const { log, options } = context
  const upTo = newest - options.minBatchesToRetain - 1
  if (upTo < 0) return
  for (const batchId of await log.idsUpTo('offsets', upTo, MIN_AGE_MS, signal)) {
    // The plan goes last: while it is there, a removal that died half-way is found again.
    for (const name of [`reports/${batchId}`, `redo/${batchId}`, `attempts/${batchId}`])
      for (const { id } of await log.list(name, signal)) await log.remove({ log: name, id }, signal)
    await log.remove(logKeys.offsets(batchId), signal)
  }
  for (const batchId of await log.idsUpTo('commits', upTo, COMMITS_AGE_MS, signal))
    await log.remove(logKeys.commits(batchId), signal)
}
