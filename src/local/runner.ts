/**
 * The state machine of a local run: a plain loop over the protocol's three steps, workers in parallel. It retries
 * nothing: a run that fails is started again, and finds its batch in the log.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { commitBatch, planBatch, processRange } from '../batch.ts'
import type { CommitOutcome, PlanOutcome, TaskOutcome } from '../batch.ts'
import type { BatchContext, Run } from '../context.ts'
import type { StreamingQueryProgress } from '../progress.ts'
import { nextBoundary } from '../trigger.ts'
import type { Trigger } from '../trigger.ts'

export type RunEvent =
  | { readonly kind: 'started'; readonly runId: string }
  /** Where the log put the start of a run, so that starting options were not used (S3). */
  | { readonly kind: 'resumed'; readonly offsets: string }
  | { readonly kind: 'planned'; readonly batchId: number; readonly tasks: number; readonly replay: boolean }
  | { readonly kind: 'task'; readonly batchId: number; readonly task: number; readonly outcome: TaskOutcome }
  | { readonly kind: 'redo'; readonly batchId: number; readonly reason: string }
  | { readonly kind: 'progress'; readonly progress: StreamingQueryProgress; readonly warnings: readonly string[] }
  | { readonly kind: 'fallingBehind'; readonly batchId: number; readonly intervalMs: number; readonly tookMs: number }

/** finished: an AvailableNow run reached its end. busy: another run holds the query. */
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

/** Runs batches until the trigger says that it is done, another run is found, or the signal fires. */
export async function runQuery(context: BatchContext, request: RunRequest, signal: AbortSignal): Promise<RunResult> {
  const { trigger, onEvent } = request
  const run: Run = { runId: request.runId, availableNow: trigger.kind === 'availableNow' }
  const intervalMs = trigger.kind === 'processingTime' ? trigger.intervalMs : 0
  let token: number | null = null
  let announced = false
  onEvent({ kind: 'started', runId: run.runId })
  try {
    for (;;) {
      const triggerMs = context.clock.now()
      const plan = await planBatch(context, run, signal)
      if (plan.kind === 'busy') return plan
      token = plan.token
      if (!announced && plan.resumedFrom !== null) onEvent({ kind: 'resumed', offsets: plan.resumedFrom })
      announced = true
      if (plan.kind === 'noNewData') {
        if (run.availableNow) return { kind: 'finished' }
        await sleep(Math.max(IDLE_MS, nextBoundary(triggerMs, intervalMs) - context.clock.now()), undefined, { signal })
        continue
      }
      const outcome = await runBatch(context, run, plan, request, signal)
      if (outcome.kind === 'superseded') return { kind: 'busy', holder: 'a run that took over' }
      if (outcome.kind === 'incomplete' || outcome.kind === 'redo') continue // planned again: the tasks without report
      await waitForBoundary(context, plan.batchId, { intervalMs, triggerMs }, onEvent, signal)
    }
  } finally {
    // Under a signal of its own: the run's may have fired. Failing to release costs the next run a wait, no more.
    if (token !== null) await context.lease.release(token, AbortSignal.timeout(5000)).catch(() => {})
  }
}

type Handed = Extract<PlanOutcome, { kind: 'planned' | 'replay' }>

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

/** The next boundary after the trigger's start; one that has passed is not made up, the next batch follows at once (E6, E9). */
async function waitForBoundary(
  context: BatchContext,
  batchId: number,
  { intervalMs, triggerMs }: { intervalMs: number; triggerMs: number },
  onEvent: (event: RunEvent) => void,
  signal: AbortSignal
): Promise<void> {
  if (intervalMs === 0) return
  const waitMs = nextBoundary(triggerMs, intervalMs) - context.clock.now()
  if (waitMs > 0) await sleep(waitMs, undefined, { signal })
  else onEvent({ kind: 'fallingBehind', batchId, intervalMs, tookMs: context.clock.now() - triggerMs })
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
  signal.throwIfAborted()
}
