/** Effects 2 and 3: reads one task's ranges, stages its rows, reports. */
import query from '#query'
import { openWorker } from '../src/runtime.ts'
import { workStep } from '../src/steps.ts'
import { functionOf } from './middleware.ts'

export const handler = functionOf('worker', query, openWorker, workStep)
