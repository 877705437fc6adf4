/** Exit codes of the CLI (api.md), and which error ends with which. */
import { isSluiceError } from '../errors.ts'
import type { ErrorCondition } from '../errors.ts'

export const EXIT = { done: 0, failed: 1, usage: 2, busy: 75, interrupted: 130 } as const

const usage: readonly ErrorCondition[] = [
  'OPTION_UNKNOWN',
  'OPTION_INVALID',
  'OPTION_CONFLICT',
  'OPTION_NOT_SUPPORTED',
  'QUERY_INVALID',
  'MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET',
  'UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET',
]
const busy: readonly ErrorCondition[] = ['DIRECTORY_IN_USE', 'CONCURRENT_STREAM_LOG_UPDATE']

export function exitCodeOf(error: unknown): number {
  if (!isSluiceError(error)) return EXIT.failed
  if (usage.includes(error.name)) return EXIT.usage
  return busy.includes(error.name) ? EXIT.busy : EXIT.failed
}
