/** Effects 4 and 5: publishes the batch in the sink and records that it is done. */
import query from '#query'
import { openCommitter } from '../src/runtime.ts'
import { commitStep } from '../src/steps.ts'
import { functionOf, reportProgress } from './middleware.ts'

export const handler = functionOf('committer', query, openCommitter, (context, event, signal) =>
  commitStep(context, event, signal, reportProgress)
)
