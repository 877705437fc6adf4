/** One trigger of a run by the protocol's steps, as an execution of the state machine makes it. */
import { commitBatch, planBatch, processRange } from '../../src/batch.ts'
import type { BatchContext, Run } from '../../src/context.ts'
import { decodeOffsets } from '../../src/log.ts'
import { entriesOf, offsetAt } from '../../src/offsets.ts'
import { newRun } from './world.ts'

const signal = new AbortController().signal

/** Plans a batch, commits it, and frees the lease. Answers how far each partition moved, or why there was no batch. */
export async function oneTrigger(context: BatchContext, run: Run): Promise<number[] | string> {
  const plan = await planBatch(context, run, signal)
  if (plan.kind === 'busy') return 'busy'
  const { token } = plan
  if (plan.kind === 'noNewData' || plan.kind === 'delayed') {
    await context.lease.release(token, signal)
    return plan.kind
  }
  const batch = { runId: run.runId, token, batchId: plan.batchId }
  for (const task of plan.tasks) await processRange(context, { ...batch, task }, signal)
  await commitBatch(context, { ...batch, triggerMs: plan.triggerMs, replay: plan.kind === 'replay' }, signal)
  await context.lease.release(token, signal)
  const text = await context.log.get({ log: 'offsets', id: plan.batchId }, signal)
  const { start, end } = decodeOffsets(plan.batchId, text ?? '')
  return entriesOf(end).map((e) => Number(e.offset - (offsetAt(start, e) ?? 0n)))
}

/** Starts of a query: by its schedule, by hand, by hand with Trigger.once. */
export const tick = (): Run => newRun()
export const byHand = (): Run => ({ ...newRun(), byHand: true })
export const once = (): Run => ({ ...newRun(), once: true, byHand: true })
