/**
 * The protocol: a micro-batch is five durable effects in a fixed order. Read this file top to bottom.
 *
 *   planBatch      1  put offsets/N if absent      what will be read, before anything is read
 *   processRange   2  stage the task's objects     under names of this attempt alone
 *                  3  put reports/N/<task>         which attempt counts
 *   commitBatch    4  the sink's commit            keyed (query id, N): once
 *                  5  put commits/N                the batch is done
 *
 * Each step may die anywhere, run twice, late, or beside itself. Dying before an effect means that it did not happen: the
 * next planner finds N planned and not committed, and hands the same ranges out again. Dying after it means that whoever
 * comes next finds it done. Messages between steps are pointers; the log is the authority. P1..P22 are the protocol's
 * rules, listed in README.md beside this file.
 */
import type { Delay } from './admission.ts'
import type { BlockedPartition } from './blocked.ts'
import type { BatchContext, Run } from './context.ts'
import { differ, verifyReports } from './coverage.ts'
import { decodeCommit, encodeCommit, encodeOffsets, logKeys } from './log.ts'
import type { CommitsEntry, RangeReport } from './log.ts'
import {
  currentGeneration,
  openQueryId,
  readCurrentPlan,
  readReports,
  readResumePoint,
  startOf,
  storedPlan,
  tasksWithoutReport,
} from './log-reader.ts'
import type { StoredPlan } from './log-reader.ts'
import { offsetsToJson } from './offsets.ts'
import { describeSource } from './options.ts'
import { draftNext } from './plan.ts'
import type { BatchId, EntryKey } from './ports.ts'
import { progressOf } from './progress.ts'
import type { StreamingQueryProgress } from './progress.ts'
import { missingObjects, startRedo } from './redo.ts'
import { keepHouse } from './retention.ts'
import { decodeTaskEntry, encodeTaskEntry, isSplit, receiptsIn } from './split-entry.ts'
import type { TaskEntry } from './split-entry.ts'
import { stageTask } from './stage.ts'
import { rangesOfTask, splitRest, startTask } from './task-split.ts'

// ---------------------------------------------------------------------------------------------------- planner

export type PlanOutcome =
  | {
      readonly kind: 'planned' | 'replay'
      readonly batchId: number
      /** The tasks that have no report yet, at most 1,000 (P13). */
      readonly tasks: readonly number[]
      /** The run's hold on the lease, for the steps that follow. */
      readonly token: number
      readonly triggerMs: number
      /** Where the stored log put the query's start, so that starting options were not used; null for a fresh query. */
      readonly resumedFrom: string | null
    }
  | {
      readonly kind: 'noNewData'
      readonly token: number
      readonly resumedFrom: string | null
      /** What waits for open transactions. */
      readonly blocked: readonly BlockedPartition[]
    }
  /** Fewer new offsets than minOffsetsPerTrigger. */
  | { readonly kind: 'delayed'; readonly delay: Delay; readonly token: number; readonly resumedFrom: string | null }
  | { readonly kind: 'busy'; readonly holder: string }

/**
 * Effect 1. Decides batch N's ranges and makes them durable before anything is read; or hands an unfinished batch out
 * again, unchanged. A plan that fails its checks leaves no `offsets/N`.
 */
export async function planBatch(context: BatchContext, run: Run, signal: AbortSignal): Promise<PlanOutcome> {
  const lease = await context.lease.acquire(run.runId, signal)
  if (lease.kind === 'busy') return { kind: 'busy', holder: lease.holder }
  const { token, lastPass } = lease
  const triggerMs = context.clock.now()
  const queryId = await openQueryId(context, signal)
  const resume = await readResumePoint(context, signal)
  const resumedFrom = await startOf(context, resume, signal)
  const handOut = async (plan: StoredPlan): Promise<PlanOutcome> => {
    const { batchId, runId, batchTimestampMs } = plan.entry
    const tasks = (await tasksWithoutReport(context, plan, signal)).slice(0, 1000)
    const common = { batchId, tasks, token, resumedFrom }
    // Handing out the rest of the run's own batch is no replay of it, and its time is that of all passes.
    if (runId === run.runId) return { kind: 'planned', ...common, triggerMs: batchTimestampMs }
    return { kind: 'replay', ...common, triggerMs }
  }
  if (resume.kind === 'replay') return handOut(resume.plan)

  const draft = await draftNext(context, { run, queryId, resume, triggerMs, lastPass }, signal)
  if (draft.kind === 'delay') return { kind: 'delayed', delay: draft, token, resumedFrom }
  if (draft.kind === 'noNewData') {
    if (draft.isPass) await context.lease.passed(token, triggerMs, signal)
    return { kind: 'noNewData', token, resumedFrom, blocked: draft.blocked }
  }
  const { batchId } = draft.entry
  const text = encodeOffsets(draft.entry)
  const outcome = await context.log.add(logKeys.offsets(batchId), text, signal) // effect 1
  // A pass that is lost lets the next check pass early, no more (decision 4).
  if (draft.isPass) await context.lease.passed(token, triggerMs, signal)
  // The stored entry counts, whoever wrote it (P11).
  const plan = storedPlan(batchId, outcome.kind === 'added' ? text : outcome.entry)
  const isOurs = plan.entry.runId === run.runId
  // A planner that slept may have won a key that retention had freed (P7). A loser adopts, as the lease's holder only.
  const isNewest = (await context.log.newest('offsets', signal)) === batchId
  if (!isNewest) return { kind: 'busy', holder: 'a run that went on meanwhile' }
  if (!isOurs && !(await context.lease.renew(token, signal))) return { kind: 'busy', holder: plan.entry.runId }
  return handOut(plan)
}

// ----------------------------------------------------------------------------------------------------- worker

export interface TaskMessage {
  readonly runId: string
  readonly batchId: number
  readonly task: number
  readonly token: number
  /** When this worker has to have ended, ms since the epoch. Without one it works until it is done. */
  readonly deadlineMs?: number | undefined
}

export type TaskOutcome =
  | { readonly kind: 'reported'; readonly records: number; readonly bytes: number; readonly rows: number }
  /** It was too long for one worker: so many parts of it are left, what was read counts (P14). */
  | {
      readonly kind: 'split'
      readonly parts: number
      readonly records: number
      readonly bytes: number
      readonly rows: number
    }
  /** Another attempt's report counts. `differs`: it delivered other records than this attempt read (N5). */
  | { readonly kind: 'alreadyReported'; readonly differs: boolean }
  | { readonly kind: 'superseded' }

/**
 * Effects 2 and 3. Reads exactly the task's ranges and stages their rows under names of this attempt; then one conditional
 * put decides whether this attempt is the one that counts (P1, P3). A task that is too long is split at the same key (P14).
 */
export async function processRange(
  context: BatchContext,
  message: TaskMessage,
  signal: AbortSignal
): Promise<TaskOutcome> {
  const { batchId, task, runId, deadlineMs } = message
  const plan = await readCurrentPlan(context, message, signal)
  if (plan === null) return { kind: 'superseded' }
  const generation = await currentGeneration(context, batchId, signal)
  const key = logKeys.report(batchId, generation, task)
  if ((await context.log.get(key, signal)) !== null) return { kind: 'alreadyReported', differs: false }
  const ranges = await rangesOfTask(context, plan, { generation, task }, signal)
  if (ranges === null) return { kind: 'superseded' }

  const batch = await batchIdentity(context, plan, signal)
  const attempt = { batchId, planDigest: plan.digest, generation, task, attempt: context.newId(), runId }
  // Also the sink's refusal of another schema, before any object is written.
  const logged = { newest: batchId, committed: batchId === 0 ? null : batchId - 1 }
  const fingerprint = { sink: await context.sink.check(batch.queryId, logged, signal), mapping: context.mappingDigest }
  const timed = { attempt, ranges, planned: plan.entry.tasks.length }
  const start = deadlineMs === undefined ? null : await startTask(context, { ...timed, deadlineMs }, signal)
  if (start?.kind === 'split') return settle(context, key, start.entry, signal)
  try {
    const sinceMs = context.clock.now()
    const id = { ...batch, task, attempt: attempt.attempt, ranges }
    const { rest, ...staged } = await stageTask(context, id, plan.entry, signal, start?.isLate) // effect 2
    const done = { fingerprint, ...staged, workMs: context.clock.now() - sinceMs }
    const entry = rest.length === 0 ? { ...attempt, ...done } : splitRest(attempt, done, rest)
    return await settle(context, key, entry, signal)
  } catch (error) {
    await start?.failed()
    throw error
  }
}

/** Effect 3: one put for the report and for what may stand in its place. */
async function settle(
  context: BatchContext,
  key: EntryKey,
  entry: TaskEntry,
  signal: AbortSignal
): Promise<TaskOutcome> {
  const outcome = await context.log.add(key, encodeTaskEntry(entry), signal)
  const winner = outcome.kind === 'added' ? entry : decodeTaskEntry(key, outcome.entry)
  const receipts = receiptsIn(entry)
  if (winner.attempt !== entry.attempt)
    return { kind: 'alreadyReported', differs: differ(receiptsIn(winner), receipts) }
  const total = (of: 'records' | 'bytes' | 'rows'): number => receipts.reduce((n, r) => n + r[of], 0)
  const totals = { records: total('records'), bytes: total('bytes'), rows: total('rows') }
  return isSplit(entry) ? { kind: 'split', parts: entry.parts.length, ...totals } : { kind: 'reported', ...totals }
}

// -------------------------------------------------------------------------------------------------- committer

export interface CommitMessageIn {
  readonly runId: string
  readonly batchId: number
  readonly token: number
  readonly triggerMs: number
  readonly replay: boolean
}

export type CommitOutcome =
  | {
      readonly kind: 'committed' | 'alreadyCommitted'
      readonly progress: StreamingQueryProgress
      /** Housekeeping that failed: it is tried again with the next batch (P7, P15). */
      readonly warnings: readonly string[]
    }
  | { readonly kind: 'incomplete'; readonly tasks: readonly number[] }
  /** Staged output was unusable: every task reports again, under this generation (P12). */
  | { readonly kind: 'redo'; readonly generation: number; readonly reason: string }
  | { readonly kind: 'superseded' }

/** Effects 4 and 5. Publishes the batch once the set of planned ranges is covered, then records that it is done. */
export async function commitBatch(
  context: BatchContext,
  message: CommitMessageIn,
  signal: AbortSignal
): Promise<CommitOutcome> {
  const { batchId, runId } = message
  const plan = await readCurrentPlan(context, message, signal)
  if (plan === null) return { kind: 'superseded' }
  const done = await context.log.get(logKeys.commits(batchId), signal)
  if (done !== null) return { kind: 'alreadyCommitted', progress: decodeCommit(batchId, done).progress, warnings: [] }

  const generation = await currentGeneration(context, batchId, signal)
  const verdict = verifyReports(plan.entry, plan.digest, generation, await readReports(context, batchId, signal))
  if (verdict.kind === 'incomplete') return verdict
  const unusable = verdict.kind === 'unusable' ? verdict.reason : await missingObjects(context, verdict.reports, signal)
  if (unusable !== null) {
    await startRedo(context, { batchId, runId, generation: generation + 1, reason: unusable }, signal)
    return { kind: 'redo', generation: generation + 1, reason: unusable }
  }
  const reports = verdict.kind === 'complete' ? verdict.reports : []

  const batch = await batchIdentity(context, plan, signal)
  const previous = await previousCommit(context, batchId, signal) // a damaged entry fails before anything is published
  const messages = reports.map((report) => report.message)
  await context.sink.commit(batch, messages, signal) // effect 4
  const progress = measure(context, message, { queryId: batch.queryId, plan, reports, previous })
  const { dataLoss } = progress.sluice
  const entry = encodeCommit({ batchId, runId, progress, dataLoss })
  const outcome = await context.log.add(logKeys.commits(batchId), entry, signal) // effect 5
  const warnings = await keepHouse(context, batchId, signal)
  if (outcome.kind === 'added') return { kind: 'committed', progress, warnings }
  return { kind: 'alreadyCommitted', progress: decodeCommit(batchId, outcome.entry).progress, warnings }
}

async function previousCommit(
  context: BatchContext,
  batchId: number,
  signal: AbortSignal
): Promise<CommitsEntry | null> {
  const text = batchId === 0 ? null : await context.log.get(logKeys.commits(batchId - 1), signal)
  return text === null ? null : decodeCommit(batchId - 1, text)
}

interface Measured {
  readonly queryId: string
  readonly plan: StoredPlan
  readonly reports: readonly RangeReport[]
  readonly previous: CommitsEntry | null
}

function measure(context: BatchContext, message: CommitMessageIn, batch: Measured): StreamingQueryProgress {
  const { runId, replay, triggerMs } = message
  const { queryId, plan, reports, previous } = batch
  return progressOf({
    queryId,
    queryName: context.queryName,
    runId,
    plan: plan.entry,
    reports,
    replay,
    sourceDescription: describeSource(context.options),
    sinkDescription: context.sink.description,
    startedMs: triggerMs,
    nowMs: context.clock.now(),
    previousTriggerMs: previous?.runId === runId ? Date.parse(previous.progress.timestamp) : null,
  })
}

async function batchIdentity(context: BatchContext, plan: StoredPlan, signal: AbortSignal): Promise<BatchId> {
  const { batchId, end } = plan.entry
  const queryId = await openQueryId(context, signal)
  return { queryId, batchId, planDigest: plan.digest, endOffsets: offsetsToJson(end) }
}
