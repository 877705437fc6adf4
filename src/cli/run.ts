/** `sluice run QUERY --local DIR`: runs a query in this process. */
import { randomUUID } from 'node:crypto'
import { SluiceError, reasonOf } from '../errors.ts'
import { runQuery } from '../local/runner.ts'
import { stringifyExact } from '../offsets.ts'
import type { Query } from '../query.ts'
import { openLocalRuntime, optionsOf } from '../runtime.ts'
import { Trigger } from '../trigger.ts'
import { EXIT, exitCodeOf } from './exit.ts'
import { loadQuery } from './load-query.ts'
import { runReport } from './run-report.ts'

export interface RunFlags {
  readonly local: string
  readonly availableNow?: boolean
  readonly parallelism: number
  readonly json?: boolean
}

export async function runCommand(path: string, flags: RunFlags): Promise<number> {
  const interrupted = new AbortController()
  const interrupt = (): void => interrupted.abort()
  // The first signal unwinds; a second one finds the default again and ends the process.
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt)
  try {
    return await run(await loadQuery(path), flags, interrupted.signal)
  } catch (error) {
    if (interrupted.signal.aborted) return EXIT.interrupted
    fail(error, flags.json === true)
    return exitCodeOf(error)
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
  }
}

async function run(query: Query, flags: RunFlags, signal: AbortSignal): Promise<number> {
  const report = runReport({ json: flags.json === true, options: optionsOf(query), queryName: query.name })
  const runtime = await openLocalRuntime(query, flags.local, signal)
  try {
    const trigger = flags.availableNow === true ? Trigger.availableNow() : query.trigger
    const request = { runId: randomUUID(), trigger, parallelism: flags.parallelism, onEvent: report.event }
    const result = await runQuery(runtime.context, request, signal)
    report.end(result)
    return result.kind === 'busy' ? EXIT.busy : EXIT.done
  } finally {
    report.clear()
    await runtime.close()
  }
}

function fail(error: unknown, json: boolean): void {
  const condition = error instanceof SluiceError ? error.name : 'FAILED'
  if (json) process.stdout.write(`${stringifyExact({ event: 'failed', condition, message: reasonOf(error) })}\n`)
  // An error that is not in the catalogue is a defect: its stack helps whoever reports it.
  const text = error instanceof SluiceError || !(error instanceof Error) ? reasonOf(error) : (error.stack ?? '')
  process.stderr.write(`sluice: ${condition}: ${text}\n`)
}
