/** Removal of old log entries after `commits/N` (P7): best effort, tried again with every batch. */
import type { BatchContext } from './context.ts'
import { logKeys } from './log.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** Younger entries are never removed: a planner may still be asleep over their keys. */
const MIN_AGE_MS = DAY_MS
/** Commits hold progress and loss events. */
const COMMITS_AGE_MS = 30 * DAY_MS

/** Keeps the batches from N - `sluice.minBatchesToRetain` on (E1). That option is 1 or more, so the newest two always stay. */
export async function removeOldBatches(context: BatchContext, newest: number, signal: AbortSignal): Promise<void> {
  const { log, options } = context
  const upTo = newest - options.minBatchesToRetain - 1
  if (upTo < 0) return
  for (const batchId of await log.idsUpTo('offsets', upTo, MIN_AGE_MS, signal)) {
    // The plan goes last: while it is there, a removal that died half-way is found again.
    for (const name of [`reports/${batchId}`, `redo/${batchId}`])
      for (const { id } of await log.list(name, signal)) await log.remove({ log: name, id }, signal)
    await log.remove(logKeys.offsets(batchId), signal)
  }
  for (const batchId of await log.idsUpTo('commits', upTo, COMMITS_AGE_MS, signal))
    await log.remove(logKeys.commits(batchId), signal)
}
