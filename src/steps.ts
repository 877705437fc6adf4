/**
 * The function boundary: JSON event in, one step of the protocol, JSON outcome out. Everything on the state machine's wire is
 * a pointer into the log (batch id, task numbers, the lease's token), so no payload grows with the plan's offsets.
 *
 * An execution is one run, or a part of it: `input.run` names the run that it continues (P18).
 */
import { createHash } from 'node:crypto'
import { commitBatch, planBatch, processRange } from './batch.ts'
import type { PlanOutcome } from './batch.ts'
import type { BatchContext, Run } from './context.ts'
import { SluiceError } from './errors.ts'
import { isObject } from './offsets.ts'
import type { StreamingQueryProgress } from './progress.ts'
import { nextBoundary, secondsToTrigger, triggerWarnings } from './trigger.ts'
import type { Trigger } from './trigger.ts'

/** What a step works in: the protocol's context, and the trigger that the query module names. */
export interface StepContext {
  readonly batch: BatchContext
  readonly trigger: Trigger
  /** When the step has to have ended, ms since the epoch; without one it has all the time. */
  readonly deadlineMs?: number
}

/** The input of an execution: nothing for a tick, `{"trigger":"availableNow"}` by hand, `run` and `part` in a continuation. */
export interface StartInput {
  readonly trigger?: 'availableNow'
  readonly run?: string
  readonly part?: number
}

/** What all steps of an execution are told. */
export interface RunMessage {
  readonly runId: string
  readonly batchId: number
  readonly token: number
  readonly triggerMs: number
  readonly replay: boolean
  readonly availableNow: boolean
}

export type PlanStepOutcome =
  | {
      readonly kind: 'work'
      readonly message: RunMessage
      readonly tasks: readonly number[]
      /** History entries of this execution so far, at the most. */
      readonly entries: number
      readonly waits: 0
    }
  /** The run goes on in an execution of its own: `name` may exist already, which is success (P18). */
  | { readonly kind: 'continue'; readonly name: string; readonly input: StartInput }
  /** For the next boundary of an interval under a minute; or a run by hand found another one and asks again. */
  | { readonly kind: 'wait'; readonly seconds: number; readonly entries: number; readonly waits: number }
  | { readonly kind: 'done'; readonly reason: 'noNewData' | 'delayed' | 'busy' | 'released'; readonly holder?: string }

export type CommitStepOutcome =
  | { readonly kind: 'again'; readonly reason: 'incomplete' | 'redo' | 'more'; readonly seconds: 0 }
  /** Planned again at the next boundary. */
  | { readonly kind: 'pause'; readonly reason: 'nextBoundary'; readonly seconds: number }
  | { readonly kind: 'done'; readonly reason: 'committed' | 'superseded'; readonly seconds: 0 }

// The history of an execution ends at 25,000 entries (P13). In entries, a task state is 5 (entered, scheduled, started,
// succeeded, exited) and each of its at most 3 repeats 3 more (failed, scheduled, started): 14. Any other state is 2.

/** What is left to 25,000 is for the last pass (60), its plan that says `continue` or `done`, Continue or Release: under 120. */
const HISTORY_ENTRIES = 24_000
/** A task in a Map: 14, and 2 of its iteration. */
const ENTRIES_PER_TASK = 16
/** Plan 14, Planned 2, the Map itself 4, Commit 14, Committed 2, Pause 2: 38; a wait is Plan 14, Planned 2, Wait 2. The rest is reserve. */
const ENTRIES_PER_PASS = 60
/** A pass of fewer tasks than this is not worth having: the next execution starts afresh. */
const SMALLEST_PASS = 100

/** A run by hand outlasts a dead run's lease: 40 waits of half a minute. Then it says busy. */
const WAIT_SECONDS = 30
const MAX_WAITS = 40

/**
 * Plans a pass of work. With `release` in the event, which the state machine sends after a failure, it only frees the run's
 * lease, wherever the run got to, so that the next tick need not wait for it to run out (P19).
 */
export async function planStep(
  { batch, trigger }: StepContext,
  event: unknown,
  signal: AbortSignal,
  onWarning: (text: string) => void = () => {}
): Promise<PlanStepOutcome> {
  const { execution, input, entries, waits, release } = planEvent(event)
  const runId = input.run ?? execution
  if (release) {
    await releaseRun(batch, runId, signal)
    return { kind: 'done', reason: 'released' }
  }
  const room = Math.floor((HISTORY_ENTRIES - entries) / ENTRIES_PER_TASK)
  if (room < SMALLEST_PASS) {
    const part = (input.part ?? 0) + 1
    return { kind: 'continue', name: continuationName(runId, part), input: { ...input, run: runId, part } }
  }
  const run = runOf(runId, input, trigger)
  const isFirst = entries === 0 && input.run === undefined
  const warnings = [...batch.options.warnings, ...(run.once ? triggerWarnings(trigger, batch.options) : [])]
  if (isFirst) for (const text of warnings) onWarning(text)
  const plan = await planBatch(batch, run, signal)
  const spent = entries + ENTRIES_PER_PASS
  if (plan.kind === 'busy') {
    if (!run.byHand || waits >= MAX_WAITS) return { kind: 'done', reason: 'busy', holder: plan.holder }
    return { kind: 'wait', seconds: WAIT_SECONDS, entries: spent, waits: waits + 1 }
  }
  if (plan.kind === 'noNewData' || plan.kind === 'delayed') {
    await batch.lease.release(plan.token, signal)
    const seconds = run.availableNow ? null : secondsToTrigger(trigger, batch.clock.now())
    return seconds === null ? { kind: 'done', reason: plan.kind } : { kind: 'wait', seconds, entries: spent, waits: 0 }
  }
  const tasks = plan.tasks.slice(0, room)
  return {
    kind: 'work',
    message: runMessage(run, plan),
    tasks,
    entries: spent + ENTRIES_PER_TASK * tasks.length,
    waits: 0,
  }
}

/** The input goes before the query's trigger (decision 5). A schedule's tick has none. */
function runOf(runId: string, input: StartInput, trigger: Trigger): Required<Run> {
  const byHand = input.trigger === 'availableNow'
  return {
    runId,
    byHand,
    availableNow: byHand || trigger.kind === 'availableNow',
    once: !byHand && trigger.kind === 'once',
  }
}

/** `<run>-<k>` (P18), or a digest of a run's name that leaves no room: a name has at most 80 characters. */
function continuationName(runId: string, part: number): string {
  const name = `${runId}-${part}`
  return name.length <= 80 ? name : `${createHash('sha256').update(runId).digest('hex').slice(0, 40)}-${part}`
}

const runMessage = (
  { runId, availableNow }: Run,
  plan: Extract<PlanOutcome, { kind: 'planned' | 'replay' }>
): RunMessage => ({
  runId,
  availableNow,
  batchId: plan.batchId,
  token: plan.token,
  triggerMs: plan.triggerMs,
  replay: plan.kind === 'replay',
})

/** Answers nothing: the report is in the log, and a state machine that collects answers has a limit (B55). */
export async function workStep({ batch, deadlineMs }: StepContext, event: unknown, signal: AbortSignal): Promise<null> {
  const { message, task } = objectOf(event, 'it')
  await processRange(batch, { ...runMessageOf(message), task: numberOf(task, 'task'), deadlineMs }, signal)
  return null
}

export async function commitStep(
  { batch, trigger }: StepContext,
  event: unknown,
  signal: AbortSignal,
  onProgress: (progress: StreamingQueryProgress, warnings: readonly string[]) => void = () => {}
): Promise<CommitStepOutcome> {
  const message = runMessageOf(objectOf(event, 'it')['message'])
  const outcome = await commitBatch(batch, message, signal)
  if (outcome.kind === 'superseded') return { kind: 'done', reason: 'superseded', seconds: 0 }
  // Planned again: what is left to do.
  if (outcome.kind === 'incomplete' || outcome.kind === 'redo')
    return { kind: 'again', reason: outcome.kind, seconds: 0 }
  const nowMs = batch.clock.now()
  onProgress(outcome.progress, [...outcome.warnings, ...fallingBehind(trigger, message, nowMs)])
  if (message.availableNow || hasNextTriggerPassed(trigger, message.triggerMs, nowMs))
    return { kind: 'again', reason: 'more', seconds: 0 }
  await batch.lease.release(message.token, signal)
  const seconds = secondsToTrigger(trigger, nowMs)
  return seconds === null
    ? { kind: 'done', reason: 'committed', seconds: 0 }
    : { kind: 'pause', reason: 'nextBoundary', seconds }
}

/** Spark's "current batch is falling behind" (E9). */
function fallingBehind(trigger: Trigger, { batchId, triggerMs, availableNow }: RunMessage, nowMs: number): string[] {
  if (trigger.kind !== 'processingTime' || trigger.intervalMs === 0 || availableNow) return []
  const tookMs = nowMs - triggerMs
  return tookMs > trigger.intervalMs
    ? [`batch ${batchId} took ${tookMs} ms, longer than the trigger interval of ${trigger.intervalMs} ms`]
    : []
}

/** A schedule's tick makes one batch, and another when its own took longer than the interval; without one, always (decision 5). */
const hasNextTriggerPassed = (trigger: Trigger, triggerMs: number, nowMs: number): boolean =>
  trigger.kind === 'processingTime' && nextBoundary(triggerMs, trigger.intervalMs) <= nowMs

/** A run that holds the lease gets it again under its own id. */
async function releaseRun(batch: BatchContext, runId: string, signal: AbortSignal): Promise<void> {
  const lease = await batch.lease.acquire(runId, signal)
  if (lease.kind === 'held') await batch.lease.release(lease.token, signal)
}

// -- events. They come from the state machine, or from somebody's hand.

interface PlanEvent {
  readonly execution: string
  readonly input: StartInput
  readonly entries: number
  readonly waits: number
  readonly release: boolean
}

function planEvent(event: unknown): PlanEvent {
  const { execution, input, entries, waits, release } = objectOf(event, 'it')
  if (typeof execution !== 'string' || execution === '') return malformed("'execution' is not a name")
  return {
    execution,
    input: startInput(input),
    entries: numberOf(entries ?? 0, 'entries'),
    waits: numberOf(waits ?? 0, 'waits'),
    release: release === true,
  }
}

function startInput(input: unknown): StartInput {
  const { trigger, run, part, ...others } = objectOf(input ?? {}, "'input'")
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) return malformed(`'${unknown}' is unknown in the input; it takes 'trigger'`)
  if (trigger !== undefined && trigger !== 'availableNow') return malformed("'trigger' takes 'availableNow'")
  if (run !== undefined && typeof run !== 'string') return malformed("'run' is not a run's id")
  return {
    ...(trigger === undefined ? {} : { trigger }),
    ...(run === undefined ? {} : { run }),
    ...(part === undefined ? {} : { part: numberOf(part, 'part') }),
  }
}

function runMessageOf(value: unknown): RunMessage {
  const { runId, batchId, token, triggerMs, replay, availableNow } = objectOf(value, "'message'")
  if (typeof runId !== 'string') return malformed("'message.runId' is not a text")
  return {
    runId,
    batchId: numberOf(batchId, 'message.batchId'),
    token: numberOf(token, 'message.token'),
    triggerMs: numberOf(triggerMs, 'message.triggerMs'),
    replay: replay === true,
    availableNow: availableNow === true,
  }
}

const malformed = (reason: string): never => {
  throw new SluiceError('EVENT_MALFORMED', { reason })
}
const objectOf = (value: unknown, name: string): Record<string, unknown> =>
  isObject(value) ? value : malformed(`${name} is not a JSON object`)
const numberOf = (value: unknown, name: string): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    ? value
    : malformed(`'${name}' is not a whole number`)
