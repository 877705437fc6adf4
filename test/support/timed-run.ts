/**
 * Steps of the protocol one by one, as functions with a time-out take them. A worker has a deadline, and a clock that knows only
 * whether it is near.
 */
import { commitBatch, planBatch, processRange } from '../../src/batch.ts'
import type { CommitOutcome, PlanOutcome, TaskOutcome } from '../../src/batch.ts'
import type { BatchContext, Run } from '../../src/context.ts'
import type { RangeReader } from '../../src/ports.ts'

const { signal } = new AbortController()

export type Planned = Extract<PlanOutcome, { kind: 'planned' | 'replay' }>

/** @throws where there is nothing to work on */
export async function plan(context: BatchContext, run: Run): Promise<Planned> {
  const outcome = await planBatch(context, run, signal)
  if (outcome.kind !== 'planned' && outcome.kind !== 'replay') throw new Error(`not planned: ${outcome.kind}`)
  return outcome
}

/** A worker without a limit. */
export const work = (context: BatchContext, run: Run, planned: Planned, task: number): Promise<TaskOutcome> =>
  processRange(context, { runId: run.runId, batchId: planned.batchId, token: planned.token, task }, signal)

/** A worker with a deadline, which is near once it has read so many batches of records. Default: it never comes near. */
export const workInTime = (
  context: BatchContext,
  run: Run,
  planned: Planned,
  task: number,
  batches = Infinity,
  abort: AbortSignal = signal
): Promise<TaskOutcome> => {
  let read = 0
  const clock = { now: () => (read >= batches ? 2 : 0) }
  const ranges: RangeReader = {
    ...context.ranges,
    async *read(...asked) {
      const reading = context.ranges.read(...asked)
      try {
        for (;;) {
          const next = await reading.next()
          if (next.done === true) return next.value
          read++
          yield next.value
        }
      } finally {
        await reading.return({ highWatermark: null, dataLoss: [] })
      }
    },
  }
  const message = { runId: run.runId, batchId: planned.batchId, token: planned.token, task, deadlineMs: 1 }
  return processRange({ ...context, clock, ranges }, message, abort)
}

export const commit = (context: BatchContext, run: Run, planned: Planned): Promise<CommitOutcome> =>
  commitBatch(
    context,
    {
      runId: run.runId,
      batchId: planned.batchId,
      token: planned.token,
      triggerMs: planned.triggerMs,
      replay: planned.kind === 'replay',
    },
    signal
  )

/** No run of a test takes more; without a limit one that goes in circles would never yield. */
export const MAX_PASSES = 200

/**
 * An AvailableNow run whose workers stop after a batch of records each, one worker at a time; it ends when nothing is new.
 * A worker that fails is called again at once, as the state machine does, `repeats` times.
 */
export async function runTimed(context: BatchContext, run: Run, repeats = 0): Promise<void> {
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const planned = await planBatch(context, run, signal)
    if (planned.kind === 'busy') throw new Error('the run is busy')
    if (planned.kind === 'noNewData' || planned.kind === 'delayed') return context.lease.release(planned.token, signal)
    for (const task of planned.tasks) await repeated(repeats, () => workInTime(context, run, planned, task, 1))
    const outcome = await commit(context, run, planned)
    if (outcome.kind === 'superseded') throw new Error('the run is superseded')
  }
  throw new Error('the run does not come to its end')
}

async function repeated<T>(repeats: number, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (repeats === 0) throw error
    return repeated(repeats - 1, call)
  }
}
