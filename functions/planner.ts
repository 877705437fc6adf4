/** Effect 1: plans the next batch, or hands an unfinished one out again. Also frees the lease of a run that failed. */
import query from '#query'
import { openPlanner } from '../src/runtime.ts'
import { planStep } from '../src/steps.ts'
import { functionOf, logger } from './middleware.ts'

export const handler = functionOf('planner', query, openPlanner, (context, event, signal) =>
  planStep(context, event, signal, (text) => logger.warn(text))
)
