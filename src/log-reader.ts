/** What the steps read from the log before they decide. Consistent reads of single keys and of one "newest" (P17). */
import { createHash } from 'node:crypto'
import type { BatchContext } from './context.ts'
import { SluiceError, isSluiceError } from './errors.ts'
import { decodeCommit, decodeMetadata, decodeOffsets, decodeRedo, encodeMetadata, logKeys, resumePoint } from './log.ts'
import type { OffsetsEntry, ResumePoint } from './log.ts'
import { verifyReports } from './coverage.ts'
import { offsetsToJson } from './offsets.ts'
import { decodeTaskEntry } from './split-entry.ts'
import type { TaskEntry } from './split-entry.ts'
import { decodeStart } from './start-entry.ts'

/** `metadata`: the query's id for life. Missing beside other entries it is refused, never made anew (P8). */
export async function openQueryId(context: BatchContext, signal: AbortSignal): Promise<string> {
  const stored = await context.log.get(logKeys.metadata, signal)
  if (stored !== null) return decodeMetadata(stored)
  const others = await Promise.all([
    context.log.newest('offsets', signal),
    context.log.newest('commits', signal),
    context.log.get(logKeys.source, signal),
  ])
  if (others.some((entry) => entry !== null)) {
    // Entries follow metadata: whoever began between the reads has left one by now.
    const made = await context.log.get(logKeys.metadata, signal)
    if (made !== null) return decodeMetadata(made)
    throw new SluiceError('STREAMING_CHECKPOINT_MISSING_METADATA', { query: context.queryName })
  }
  const id = context.newId()
  const outcome = await context.log.add(logKeys.metadata, encodeMetadata(id), signal)
  return outcome.kind === 'added' ? id : decodeMetadata(outcome.entry)
}

export type Resume =
  | Exclude<ResumePoint, { kind: 'replay' }>
  | { readonly kind: 'replay'; readonly entry: OffsetsEntry; readonly plan: StoredPlan }

/**
 * Reads the newest plan N, then single keys beside it: never a second "newest" to compare with (P17). A hole counts only
 * where N is still the newest plan: otherwise the log moved on between the reads, and they are made again.
 * @throws LOG_ENTRY_MISSING, LOG_ENTRY_UNREADABLE, UNSUPPORTED_LOG_VERSION
 */
export async function readResumePoint(context: BatchContext, signal: AbortSignal): Promise<Resume> {
  const newest = await context.log.newest('offsets', signal)
  try {
    return await (newest === null ? resumeWithoutPlan(context, signal) : resumeFrom(context, newest, signal))
  } catch (error) {
    if (!isSluiceError(error, 'LOG_ENTRY_MISSING')) throw error
    if ((await context.log.newest('offsets', signal)) === newest) throw error
    return readResumePoint(context, signal)
  }
}

async function resumeWithoutPlan({ log }: BatchContext, signal: AbortSignal): Promise<Resume> {
  const unplannedCommit = await log.newest('commits', signal)
  const none = { newest: null, previousExists: false, committed: false, previousCommitted: false }
  return resumed(resumePoint({ ...none, unplannedCommit }), null)
}

async function resumeFrom(context: BatchContext, id: number, signal: AbortSignal): Promise<Resume> {
  const { log } = context
  const isCommitted = async (batchId: number): Promise<boolean> => {
    const text = batchId < 0 ? null : await log.get(logKeys.commits(batchId), signal)
    return text !== null && decodeCommit(batchId, text).batchId === batchId // refuses what cannot be read
  }
  const plan = await readPlan(context, id, signal)
  if (plan === null)
    throw new SluiceError('LOG_ENTRY_MISSING', {
      entry: `batch ${id}`,
      because: `log 'offsets' named it as its newest`,
    })
  const state = {
    newest: plan.entry,
    previousExists: id > 0 && (await log.get(logKeys.offsets(id - 1), signal)) !== null,
    committed: await isCommitted(id),
    previousCommitted: await isCommitted(id - 1),
    unplannedCommit: (await isCommitted(id + 1)) ? id + 1 : null,
  }
  return resumed(resumePoint(state), plan)
}

const resumed = (point: ResumePoint, plan: StoredPlan | null): Resume =>
  point.kind === 'replay' && plan !== null ? { ...point, plan } : (point as Exclude<ResumePoint, { kind: 'replay' }>)

/** Where the stored log puts the query's start, as Spark's offset JSON; null for a query that never planned. */
export async function startOf(context: BatchContext, resume: Resume, signal: AbortSignal): Promise<string | null> {
  if (resume.kind === 'replay') return offsetsToJson(resume.entry.start)
  if (resume.kind === 'next') return offsetsToJson(resume.previous.end)
  const start = await context.log.get(logKeys.source, signal)
  return start === null ? null : offsetsToJson(decodeStart(start).start)
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
export async function currentGeneration(context: BatchContext, batchId: number, signal: AbortSignal): Promise<number> {
  const generation = await context.log.newest(`redo/${batchId}`, signal)
  if (generation === null) return 0
  const key = logKeys.redo(batchId, generation)
  const entry = await context.log.get(key, signal)
  if (entry !== null) decodeRedo(key, entry) // refuses what this release cannot read
  return generation
}

export async function readReports(context: BatchContext, batchId: number, signal: AbortSignal): Promise<TaskEntry[]> {
  const log = `reports/${batchId}`
  const stored = await context.log.list(log, signal)
  return stored.map(({ id, entry }) => decodeTaskEntry({ log, id }, entry))
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
