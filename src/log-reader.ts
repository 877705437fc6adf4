/** What the steps read from the log before they decide. Consistent reads of single keys and of one "newest" (P17). */
import { createHash } from 'node:crypto'
import type { BatchContext } from './context.ts'
import { SluiceError } from './errors.ts'
import {
  decodeMetadata,
  decodeOffsetMap,
  decodeOffsets,
  decodeReport,
  encodeMetadata,
  entryName,
  logKeys,
  resumePoint,
  verifyReports,
} from './log.ts'
import type { OffsetsEntry, RangeReport, ResumePoint } from './log.ts'
import { offsetsToJson } from './offsets.ts'

/** `metadata`: the query's id for life. Missing beside other entries it is refused, never made anew (P8). */
export async function openQueryId(context: BatchContext, signal: AbortSignal): Promise<string> {
  const stored = await context.log.get(logKeys.metadata, signal)
  if (stored !== null) return decodeMetadata(stored)
  const others = await Promise.all([
    context.log.newest('offsets', signal),
    context.log.newest('commits', signal),
    context.log.get(logKeys.source, signal),
  ])
  if (others.some((entry) => entry !== null))
    throw new SluiceError('STREAMING_CHECKPOINT_MISSING_METADATA', { query: context.queryName })
  const id = context.newId()
  const outcome = await context.log.add(logKeys.metadata, encodeMetadata(id), signal)
  return outcome.kind === 'added' ? id : decodeMetadata(outcome.entry)
}

export type Resume =
  | Exclude<ResumePoint, { kind: 'replay' }>
  | { readonly kind: 'replay'; readonly entry: OffsetsEntry; readonly plan: StoredPlan }

/** Reads the newest plan N, then single keys beside it: never a second "newest" to compare with (P17). */
export async function readResumePoint(context: BatchContext, signal: AbortSignal): Promise<Resume> {
  const { log } = context
  const newestId = await log.newest('offsets', signal)
  const id = newestId ?? -1
  const exists = async (key: { log: string; id: number }): Promise<boolean> =>
    key.id >= 0 && (await log.get(key, signal)) !== null
  const plan = newestId === null ? null : await readPlan(context, newestId, signal)
  if (newestId !== null && plan === null)
    throw new SluiceError('LOG_ENTRY_MISSING', { entry: `batch ${newestId} of offsets`, because: 'it was listed' })
  const resume = resumePoint({
    newest: plan?.entry ?? null,
    previousExists: await exists(logKeys.offsets(id - 1)),
    committed: await exists(logKeys.commits(id)),
    previousCommitted: await exists(logKeys.commits(id - 1)),
    // Ahead of the plans only where the log has a hole: a race would have planned N+1 first.
    nextCommitted: (await exists(logKeys.commits(id + 1))) && !(await exists(logKeys.offsets(id + 1))),
  })
  return resume.kind === 'replay' && plan !== null
    ? { ...resume, plan }
    : (resume as Exclude<ResumePoint, { kind: 'replay' }>)
}

export async function startOf(context: BatchContext, resume: Resume, signal: AbortSignal): Promise<string | null> {
  if (resume.kind === 'replay') return offsetsToJson(resume.entry.start)
  if (resume.kind === 'next') return offsetsToJson(resume.previous.end)
  const start = await context.log.get(logKeys.source, signal)
  return start === null ? null : offsetsToJson(decodeOffsetMap(entryName(logKeys.source), start))
}

export interface StoredPlan {
  readonly entry: OffsetsEntry
  /** SHA-256 of the stored text, hex: what reports and the sink's commit refer to (P2). */
  readonly digest: string
}

export const storedPlan = (batchId: number, text: string): StoredPlan => ({
  entry: decodeOffsets(batchId, text),
  digest: createHash('sha256').update(text).digest('hex'),
})

async function readPlan(context: BatchContext, batchId: number, signal: AbortSignal): Promise<StoredPlan | null> {
  const text = await context.log.get(logKeys.offsets(batchId), signal)
  return text === null ? null : storedPlan(batchId, text)
}

/**
 * The plan of batch N for a step that works on it: null when the run lost its lease, or N is gone or no longer the newest.
 * Then it was committed or its log was closed, and the step has no effect (P7).
 */
export async function readCurrentPlan(
  context: BatchContext,
  { batchId, token }: { batchId: number; token: number },
  signal: AbortSignal
): Promise<StoredPlan | null> {
  if (!(await context.lease.renew(token, signal))) return null
  const plan = await readPlan(context, batchId, signal)
  return (await context.log.newest('offsets', signal)) === batchId ? plan : null
}

/** The highest `redo/N/g`; reports of lower generations do not count (P12). */
export const currentGeneration = async (context: BatchContext, batchId: number, signal: AbortSignal): Promise<number> =>
  (await context.log.newest(`redo/${batchId}`, signal)) ?? 0

export async function readReports(context: BatchContext, batchId: number, signal: AbortSignal): Promise<RangeReport[]> {
  const log = `reports/${batchId}`
  const stored = await context.log.list(log, signal)
  return stored.map(({ id, entry }) => decodeReport({ log, id }, entry))
}

export async function tasksWithoutReport(
  context: BatchContext,
  plan: StoredPlan,
  signal: AbortSignal
): Promise<readonly number[]> {
  const { batchId } = plan.entry
  const generation = await currentGeneration(context, batchId, signal)
  const verdict = verifyReports(plan.entry, plan.digest, generation, await readReports(context, batchId, signal))
  return verdict.kind === 'incomplete' ? verdict.tasks : []
}
