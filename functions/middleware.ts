/** The one middy stack of the three functions: structured logs, metrics, a deadline that stops the work in time. */
import { Logger } from '@aws-lambda-powertools/logger'
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware'
import { MetricUnit, Metrics } from '@aws-lambda-powertools/metrics'
import middyfy from '@middy/core'
import type { Context } from 'aws-lambda'
import { SluiceError, isSluiceError } from '../src/errors.ts'
import { progressToJson } from '../src/progress.ts'
import type { StreamingQueryProgress } from '../src/progress.ts'
import type { Query } from '../src/query.ts'
import type { OpenFunction } from '../src/runtime.ts'
import type { StepContext } from '../src/steps.ts'
import { WarmParts } from './warm-parts.ts'

export const logger = new Logger({ serviceName: 'sluice' })
export const metrics = new Metrics({ namespace: 'sluice', serviceName: 'sluice' })

type Step<R> = (context: StepContext, event: unknown, signal: AbortSignal) => Promise<R>

/** Before the platform ends the process: time for the step to unwind and drop its connections (P20). */
const UNWIND_MS = 3000

const MAX_TEXT = 4000
const cut = (text: string): string => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)} ... (cut)` : text)

/** Powertools' own middleware warns of each call without a metric, and most calls have none. */
const publishMetrics = (): void => {
  if (metrics.hasStoredMetrics()) metrics.publishStoredMetrics()
}

/** A handler of one step of a query. Its error's name is the condition, which the state machine matches. */
export const functionOf = <R>(
  name: 'planner' | 'worker' | 'committer',
  query: Query,
  open: OpenFunction,
  step: Step<R>
) => {
  const warm = new WarmParts(() => open(query))
  return middyfy<unknown, R>()
    .use(injectLambdaContext(logger, { logEvent: false }))
    .use({ after: publishMetrics, onError: publishMetrics })
    .handler(async (event, context) => {
      logger.appendKeys({ query: query.name, step: name })
      try {
        return await withinTime(name, context, (signal) =>
          warm.use(signal, (batch) => {
            const deadlineMs = batch.clock.now() + timeLeft(context)
            return step({ batch, trigger: query.trigger, deadlineMs }, event, signal)
          })
        )
      } catch (error) {
        const failure = error instanceof Error ? error : new Error(String(error))
        logger.error('step failed', failure)
        // Message and stack, which repeats it, become part of the execution's state, whose size has a limit; the log has all (B55).
        failure.message = cut(failure.message)
        failure.stack = cut(failure.stack ?? '')
        throw failure
      }
    })
}

const timeLeft = (context: Context): number => Math.max(0, context.getRemainingTimeInMillis() - UNWIND_MS)

/** Settles only when the work has; an abort by the deadline becomes a condition of its own. */
async function withinTime<R>(step: string, context: Context, work: (signal: AbortSignal) => Promise<R>): Promise<R> {
  const ms = timeLeft(context)
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), ms)
  try {
    return await work(deadline.signal)
  } catch (error) {
    if (!deadline.signal.aborted || !isSluiceError(error, 'ABORTED')) throw error
    throw new SluiceError('STEP_OUT_OF_TIME', { step, seconds: Math.round(ms / 1000) }, error)
  } finally {
    clearTimeout(timer)
  }
}

/** A committed batch, as a log line and as metrics. */
export function reportProgress(progress: StreamingQueryProgress, warnings: readonly string[]): void {
  for (const warning of warnings) logger.warn(warning, { batchId: progress.batchId })
  logger.info('batch committed', { batchId: progress.batchId, progress: progressToJson(progress) })
  metrics.addDimension('query', progress.name ?? '')
  metrics.addMetric('numInputRows', MetricUnit.Count, progress.numInputRows)
  metrics.addMetric('offsetsBehindLatest', MetricUnit.Count, Number(progress.sluice.offsetsBehindLatestAtCommit))
  metrics.addMetric('dataLoss', MetricUnit.Count, progress.sluice.dataLoss.length)
  const blocked = progress.sluice.blocked.reduce((total, { offsets }) => total + offsets, 0n)
  metrics.addMetric('blockedOffsets', MetricUnit.Count, Number(blocked))
}
