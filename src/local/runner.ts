/**
 * The state machine of a local run: a plain loop over the protocol's three steps, workers in parallel. It retries
 * nothing: a run that fails is started again, and finds its batch in the log.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { commitBatch, planBatch, processRange } from '../batch.ts'
import type { CommitOutcome, PlanOutcome, TaskOutcome } from '../batch.ts'
import type { BlockedPartition } from '../blocked.ts'
import type { BatchContext, Run } from '../context.ts'
import { SluiceError } from '../errors.ts'
import { nameOf } from '../offsets.ts'
import type { Clock } from '../ports.ts'
import type { StreamingQueryProgress } from '../progress.ts'
import { nextBoundary, triggerWarnings } from '../trigger.ts'
import type { Trigger } from '../trigger.ts'

export type RunEvent =
  | { readonly kind: 'started'; readonly runId: string }
  | { readonly kind: 'warning'; readonly text: string }
  /** Where the log put the start of a run, so that starting options were not used (S3). */
  | { readonly kind: 'resumed'; readonly offsets: string }
  | { readonly kind: 'planned'; readonly batchId: number; readonly tasks: number; readonly replay: boolean }
  | { readonly kind: 'task'; readonly batchId: number; readonly task: number; readonly outcome: TaskOutcome }
  | { readonly kind: 'redo'; readonly batchId: number; readonly reason: string }
  | { readonly kind: 'progress'; readonly progress: StreamingQueryProgress; readonly warnings: readonly string[] }
  /** Fewer new offsets than minOffsetsPerTrigger: told at the first of several checks. */
  | { readonly kind: 'delayed'; readonly pending: bigint; readonly untilMs: number }
  /** Nothing new but what open transactions hold back: told when another transaction is the oldest. */
  | { readonly kind: 'blocked'; readonly partitions: readonly BlockedPartition[] }
  | { readonly kind: 'fallingBehind'; readonly batchId: number; readonly intervalMs: number; readonly tookMs: number }

/** finished: the run was bounded and is at its end. busy: another run holds the query. */
export type RunResult = { readonly kind: 'finished' } | { readonly kind: 'busy'; readonly holder: string }

export interface RunRequest {
  readonly runId: string
  readonly trigger: Trigger
  /** Tasks at a time. */
  readonly parallelism: number
  readonly onEvent: (event: RunEvent) => void
}

/** With an interval of 0 and nothing new, Kafka is asked again after this. */
const IDLE_MS = 100

/** Runs batches until the trigger says that it is done or another run is found. @throws ABORTED once the signal fired */
export async function runQuery(context: BatchContext, request: RunRequest, signal: AbortSignal): Promise<RunResult> {
  const { trigger, onEvent, runId } = request
  const intervalMs = trigger.kind === 'processingTime' ? trigger.intervalMs : 0
  const run: LocalRun = {
    runId,
    availableNow: trigger.kind === 'availableNow',
    once: trigger.kind === 'once',
    byHand: true,
    token: 'unknown',
    isAnnounced: false,
  }
  let isDelayed = false
  let blockedAt = ''
  onEvent({ kind: 'started', runId })
  for (const text of triggerWarnings(trigger, context.options)) onEvent({ kind: 'warning', text })
  try {
    for (;;) {
      const triggerMs = context.clock.now()
      const result = await runTrigger(context, run, request, signal)
      if (result.kind === 'busy') return result
      if (result.kind === 'delayed' && !isDelayed) onEvent(result)
      isDelayed = result.kind === 'delayed'
      const blocked = result.kind === 'blocked' ? result.partitions : []
      const at = blocked.map((one) => `${nameOf(one)} ${one.lastStableOffset}`).join()
      if (result.kind === 'blocked' && at !== blockedAt) onEvent(result)
      blockedAt = at
      if (run.once || (result.kind !== 'done' && run.availableNow)) return { kind: 'finished' }
      if (intervalMs > 0) {
        const tookMs = context.clock.now() - triggerMs
        if (result.kind === 'done' && tookMs > intervalMs)
          onEvent({ kind: 'fallingBehind', batchId: result.batchId, intervalMs, tookMs })
        // The next boundary after this trigger's start; missed ones are not made up (E6).
        await waitTill(nextBoundary(triggerMs, intervalMs), context.clock, signal)
      } else if (result.kind !== 'done') await pause(IDLE_MS, signal)
    }
  } finally {
    await giveLeaseBack(context, run)
  }
}

interface LocalRun extends Run {
  /** The hold on the lease; null: another run has it; unknown: no plan has told yet, not even one that took it and failed. */
  token: number | 'unknown' | null
  /** Whether it was told where the run resumes. */
  isAnnounced: boolean
}

type Handed = Extract<PlanOutcome, { kind: 'planned' | 'replay' }>
type TriggerResult =
  | { readonly kind: 'done'; readonly batchId: number }
  | { readonly kind: 'noNewData' }
  | Extract<RunEvent, { kind: 'delayed' | 'blocked' }>
  | { readonly kind: 'busy'; readonly holder: string }

/** One trigger: plans a batch, or takes up an unfinished one, and works on it until it is committed. */
async function runTrigger(
  context: BatchContext,
  run: LocalRun,
  request: RunRequest,
  signal: AbortSignal
): Promise<TriggerResult> {
  for (;;) {
    const plan = await planBatch(context, run, signal)
    run.token = plan.kind === 'busy' ? null : plan.token
    if (plan.kind === 'busy') return plan
    if (!run.isAnnounced && plan.resumedFrom !== null) request.onEvent({ kind: 'resumed', offsets: plan.resumedFrom })
    run.isAnnounced = true
    if (plan.kind === 'noNewData')
      return plan.blocked.length === 0 ? { kind: 'noNewData' } : { kind: 'blocked', partitions: plan.blocked }
    if (plan.kind === 'delayed') {
      const { pending, untilMs } = plan.delay
      return { kind: 'delayed', pending, untilMs }
    }
    const outcome = await runBatch(context, run, plan, request, signal)
    if (outcome.kind === 'superseded') return { kind: 'busy', holder: 'a run that took over' }
    if (outcome.kind !== 'incomplete' && outcome.kind !== 'redo') return { kind: 'done', batchId: plan.batchId }
  }
}

/** Workers, then the committer. */
async function runBatch(
  context: BatchContext,
  { runId }: Run,
  plan: Handed,
  { parallelism, onEvent }: RunRequest,
  signal: AbortSignal
): Promise<CommitOutcome> {
  const { batchId, token, triggerMs } = plan
  const replay = plan.kind === 'replay'
  onEvent({ kind: 'planned', batchId, tasks: plan.tasks.length, replay })
  await inParallel(plan.tasks, parallelism, signal, async (task, both) => {
    const outcome = await processRange(context, { runId, batchId, task, token }, both)
    onEvent({ kind: 'task', batchId, task, outcome })
  })
  const outcome = await commitBatch(context, { runId, batchId, token, triggerMs, replay }, signal)
  if (outcome.kind === 'redo') onEvent({ kind: 'redo', batchId, reason: outcome.reason })
  if (outcome.kind === 'committed' || outcome.kind === 'alreadyCommitted')
    onEvent({ kind: 'progress', progress: outcome.progress, warnings: outcome.warnings })
  return outcome
}

/** Failing to give it back costs the next run a wait, no more. */
async function giveLeaseBack({ lease }: BatchContext, { runId, token }: LocalRun): Promise<void> {
  if (token === null) return
  const signal = AbortSignal.timeout(5000) // of its own: the run's may have fired
  try {
    const held = token === 'unknown' ? await lease.acquire(runId, signal) : ({ kind: 'held', token } as const)
    if (held.kind === 'held') await lease.release(held.token, signal)
  } catch {}
}

/** The longest that a timer of Node can wait; beyond it fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** A timer may fire a little before the clock shows its time, and a batch that starts before its boundary would start twice. */
async function waitTill(timeMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  for (let left = timeMs - clock.now(); left > 0; left = timeMs - clock.now())
    await pause(Math.min(left, MAX_TIMER_MS), signal)
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal })
  } catch (error) {
    throw new SluiceError('ABORTED', { step: 'Waiting for the next trigger' }, error)
  }
}

/** All settle before this does: the first failure aborts the others and is thrown when they have unwound (P20). */
async function inParallel(
  tasks: readonly number[],
  parallelism: number,
  signal: AbortSignal,
  work: (task: number, signal: AbortSignal) => Promise<void>
): Promise<void> {
  const failed = new AbortController()
  const both = AbortSignal.any([signal, failed.signal])
  const failures: unknown[] = []
  const queue = [...tasks]
  const worker = async (): Promise<void> => {
    for (let task = queue.shift(); task !== undefined && !both.aborted; task = queue.shift())
      await work(task, both).catch((error: unknown) => {
        failures.push(error)
        failed.abort()
      })
  }
  await Promise.all(Array.from({ length: parallelism }, worker))
  if (failures.length > 0) throw failures[0]
  if (signal.aborted) throw new SluiceError('ABORTED', { step: 'The run' }, signal.reason)
}
