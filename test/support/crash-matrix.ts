/** Runs a query over real parts to its end while a hook kills it, or loses an answer, at one point; then goes on. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import type { BatchContext } from '../../src/context.ts'
import { runQuery } from '../../src/local/runner.ts'
import type { Query } from '../../src/query.ts'
import { Trigger } from '../../src/trigger.ts'
import { openFaultyRuntime } from './faulty-runtime.ts'
import type { EffectHook } from './faulty-runtime.ts'

export class Crash extends Error {}

const signal = new AbortController().signal

/** A run of the query to its end, whose points come in one order. */
export type WholeRun = (context: BatchContext) => Promise<void>

/** One AvailableNow run, one task at a time. */
export async function runAll(context: BatchContext): Promise<void> {
  const request = { runId: randomUUID(), trigger: Trigger.availableNow(), parallelism: 1, onEvent: () => {} }
  const result = await runQuery(context, request, signal)
  if (result.kind !== 'finished') throw new Error(`the run is ${result.kind}`)
}

async function inRuntime(query: Query, directory: string, hook: EffectHook, work: (c: BatchContext) => Promise<void>) {
  const runtime = await openFaultyRuntime(query, directory, hook)
  try {
    await work(runtime.context)
  } finally {
    await runtime.close()
  }
}

export const tableIn = (directory: string): string => join(directory, 'warehouse', 'table')

/** Every durable effect of an undisturbed run, in order; names that differ from run to run are cut. */
export async function effectsOf(query: Query, directory: string, run: WholeRun = runAll): Promise<string[]> {
  const points: string[] = []
  await inRuntime(
    query,
    directory,
    (point) => void points.push(point.replaceAll(/[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g, 'uuid')),
    run
  )
  return points
}

/** Dies at the n-th point: from there on the process has no effect. Then another process runs to the end. */
export async function dieAt(query: Query, directory: string, n: number, run: WholeRun = runAll): Promise<void> {
  let at = 0
  const hook = (): void => {
    if (at++ >= n) throw new Crash()
  }
  await inRuntime(query, directory, hook, async (context) => {
    await run(context).catch((error: unknown) => {
      if (at <= n) throw error
    })
  })
  if (at <= n) throw new Error(`point ${n} was not reached`)
  await inRuntime(query, directory, () => {}, run)
}

/** The n-th point's answer is lost; the process lives, and its next run goes on. */
export async function loseAnswerAt(query: Query, directory: string, n: number, run: WholeRun = runAll): Promise<void> {
  let at = 0
  const hook = (): void => {
    if (at++ === n) throw new Error('the answer was lost')
  }
  await inRuntime(query, directory, hook, async (context) => {
    await run(context).catch(() => {})
    if (at <= n) throw new Error(`point ${n} was not reached`)
    await run(context)
  })
}
