/** Staged output that cannot be used is written again under a new generation (P12). */
import type { BatchContext } from './context.ts'
import { SluiceError } from './errors.ts'
import { decodeRedo, encodeRedo, logKeys } from './log.ts'
import type { RangeReport } from './log.ts'

/** What is gone of the staged objects, in words; null where all are there. */
export async function missingObjects(
  context: BatchContext,
  reports: readonly RangeReport[],
  signal: AbortSignal
): Promise<string | null> {
  const missing = await context.sink.missing(
    reports.map((r) => r.message),
    signal
  )
  return missing.length === 0 ? null : `staged objects are gone: ${missing.slice(0, 3).join(', ')}`
}

/** Of one run: output that stays unusable is no accident that another reading would mend. */
const MAX_REDOS = 3

export interface RedoRequest {
  readonly batchId: number
  readonly runId: string
  /** Under which every task of the plan reports again. */
  readonly generation: number
  readonly reason: string
}

/** @throws STAGED_OUTPUT_UNUSABLE when the run has tried too often */
export async function startRedo(
  { log }: BatchContext,
  { batchId, runId, generation, reason }: RedoRequest,
  signal: AbortSignal
): Promise<void> {
  const redos = await log.list(`redo/${batchId}`, signal)
  const ofRun = redos.filter(({ id, entry }) => decodeRedo({ log: `redo/${batchId}`, id }, entry).runId === runId)
  if (ofRun.length >= MAX_REDOS) throw new SluiceError('STAGED_OUTPUT_UNUSABLE', { batchId, tries: MAX_REDOS, reason })
  await log.add(logKeys.redo(batchId, generation), encodeRedo(runId, reason), signal)
}
