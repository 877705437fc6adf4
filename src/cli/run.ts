/** `sluice run QUERY --local DIR`: runs a query in this process. */
import { randomUUID } from 'node:crypto'
import { backfillOf } from '../backfill.ts'
import { SluiceError } from '../errors.ts'
import { runQuery } from '../local/runner.ts'
import type { Query } from '../query.ts'
import { openLocalRuntime, optionsOf } from '../runtime.ts'
import { Trigger } from '../trigger.ts'
import { EXIT } from './exit.ts'
import { interruptible } from './interruptible.ts'
import { loadQuery } from './load-query.ts'
import { runReport } from './run-report.ts'

export interface RunFlags {
  readonly local: string
  readonly availableNow?: boolean
  readonly parallelism: number
  readonly json?: boolean
  readonly backfill?: string
  /** In the order given. */
  readonly option: readonly (readonly [name: string, value: string])[]
}

export function runCommand(path: string, flags: RunFlags): Promise<number> {
  return interruptible(flags.json === true, async (signal) => {
    return run(queryOf(await loadQuery(path), flags), flags, signal)
  })
}

function queryOf(query: Query, { backfill, option }: RunFlags): Query {
  if (backfill !== undefined) return backfillOf(query, backfill, Object.fromEntries(option))
  if (option.length > 0)
    throw new SluiceError('OPTION_CONFLICT', {
      options: "'--option'",
      reason: "a query's options stand in its module; --option goes with --backfill NAME",
    })
  return query
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
