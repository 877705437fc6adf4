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
import { SluiceError, reasonOf } from './errors.ts'
import type { BatchContext, Run } from './context.ts'
import {
  decodeCommit,
  decodeRedo,
  decodeReport,
  encodeCommit,
  encodeOffsets,
  encodeRedo,
  encodeReport,
  entryName,
  logKeys,
  verifyReports,
} from './log.ts'
import type { CommitsEntry, OffsetsEntry, RangeReport } from './log.ts'
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
import type { BatchId } from './ports.ts'
import { progressOf } from './progress.ts'
import type { StreamingQueryProgress } from './progress.ts'
import { removeOldBatches } from './retention.ts'
import { stageTask } from './stage.ts'

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
}

export type TaskOutcome =
  | { readonly kind: 'reported'; readonly records: number; readonly bytes: number; readonly rows: number }
  /** Another attempt's report counts. `differs`: it delivered other records than this attempt read (N5). */
  | { readonly kind: 'alreadyReported'; readonly differs: boolean }
  | { readonly kind: 'superseded' }

/**
 * Effects 2 and 3. Reads exactly the task's ranges and stages their rows under names of this attempt; then one conditional
 * put decides whether this attempt is the one that counts (P1, P3).
 */
export async function processRange(
  context: BatchContext,
  message: TaskMessage,
  signal: AbortSignal
): Promise<TaskOutcome> {
  const { batchId, task } = message
  const plan = await readCurrentPlan(context, message, signal)
  if (plan === null) return { kind: 'superseded' }
  const generation = await currentGeneration(context, batchId, signal)
  const key = logKeys.report(batchId, generation, task)
  if ((await context.log.get(key, signal)) !== null) return { kind: 'alreadyReported', differs: false }

  const attempt = context.newId()
  const batch = await batchIdentity(context, plan, signal)
  // Also the sink's refusal of another schema, before any object is written.
  const logged = { newest: batchId, committed: batchId === 0 ? null : batchId - 1 }
  const fingerprint = { sink: await context.sink.check(batch.queryId, logged, signal), mapping: context.mappingDigest }
  const staged = await stageTask(context, { ...batch, task, attempt, ranges: rangesOf(plan, task) }, plan.entry, signal) // effect 2
  const report: RangeReport = {
    batchId,
    planDigest: plan.digest,
    generation,
    task,
    attempt,
    runId: message.runId,
    fingerprint,
    ...staged,
  }
  const outcome = await context.log.add(key, encodeReport(report), signal) // effect 3
  const winner = outcome.kind === 'added' ? report : decodeReport(key, outcome.entry)
  if (winner.attempt !== attempt) return { kind: 'alreadyReported', differs: hashesOf(winner) !== hashesOf(report) }
  const total = (of: 'records' | 'bytes' | 'rows'): number => report.ranges.reduce((n, r) => n + r[of], 0)
  return { kind: 'reported', records: total('records'), bytes: total('bytes'), rows: total('rows') }
}

const hashesOf = (report: RangeReport): string => report.ranges.map((r) => r.hash).join()

function rangesOf(plan: StoredPlan, task: number): OffsetsEntry['tasks'][number] {
  const ranges = plan.entry.tasks[task]
  if (ranges !== undefined) return ranges
  const entry = `task ${task} of ${entryName(logKeys.offsets(plan.entry.batchId))}`
  throw new SluiceError('LOG_ENTRY_MISSING', { entry, because: `the plan has ${plan.entry.tasks.length} tasks` })
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
  if (unusable !== null) return startRedo(context, message, generation + 1, unusable, signal)
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

async function missingObjects(
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

async function startRedo(
  context: BatchContext,
  { batchId, runId }: CommitMessageIn,
  generation: number,
  reason: string,
  signal: AbortSignal
): Promise<CommitOutcome> {
  const redos = await context.log.list(`redo/${batchId}`, signal)
  const ofRun = redos.filter(({ id, entry }) => decodeRedo({ log: `redo/${batchId}`, id }, entry).runId === runId)
  if (ofRun.length >= MAX_REDOS) throw new SluiceError('STAGED_OUTPUT_UNUSABLE', { batchId, tries: MAX_REDOS, reason })
  await context.log.add(logKeys.redo(batchId, generation), encodeRedo(runId, reason), signal)
  return { kind: 'redo', generation, reason }
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

/** Nothing here may fail a batch that is committed. */
async function keepHouse(context: BatchContext, batchId: number, signal: AbortSignal): Promise<readonly string[]> {
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

async function batchIdentity(context: BatchContext, plan: StoredPlan, signal: AbortSignal): Promise<BatchId> {
  const { batchId, end } = plan.entry
  const queryId = await openQueryId(context, signal)
  return { queryId, batchId, planDigest: plan.digest, endOffsets: offsetsToJson(end) }
}
