/**
 * Options of a bounded read: those of a stream, and where the read ends. Spark's defaults for batches are earliest and latest
 * (spark-semantics 1.2).
 */
import type { OffsetRangeLimit } from './offset-range-limit.ts'
import { canonicalName } from './option-names.ts'
import { collectOptions } from './option-values.ts'
import type { Environment } from './option-values.ts'
import { parseOptions } from './options.ts'
import type { KafkaOptions, SourceOptions } from './options.ts'
import { checkBatchLimits, checkStartAgainstEnd, endFrom, startFrom, startGiven } from './position-options.ts'

type OffsetsByPartition = string | Readonly<Record<string, Readonly<Record<string, number | bigint>>>>

/** Spark's options of a batch read. */
export type BatchKafkaOptions = Omit<KafkaOptions, 'startingOffsets'> & {
  /** `earliest` (default), or an offset for every partition, as JSON text or object; -2 is earliest. */
  readonly startingOffsets?: OffsetsByPartition
  /** `latest` (default), or an offset for every partition, exclusive; -1 is latest. */
  readonly endingOffsets?: OffsetsByPartition
  /** The end of each partition is its first record at or after a timestamp, in ms since the epoch. */
  readonly endingOffsetsByTimestamp?: OffsetsByPartition
  /** The same for all partitions. It comes before `endingOffsetsByTimestamp`, and that before `endingOffsets`. */
  readonly endingTimestamp?: string | number | bigint
}

export type BatchOptions = SourceOptions & { readonly endingOffsets: OffsetRangeLimit }

const startOptions: readonly string[] = ['startingTimestamp', 'startingOffsetsByTimestamp', 'startingOffsets']
const endOptions: readonly string[] = ['endingTimestamp', 'endingOffsetsByTimestamp', 'endingOffsets']

const isOneOf =
  (names: readonly string[]) =>
  (option: string): boolean =>
    names.includes(canonicalName(option) ?? '')

/** By name, in any case. */
export const isStartOption = isOneOf(startOptions)
export const isEndOption = isOneOf(endOptions)
export const isPositionOption = isOneOf([...startOptions, ...endOptions, 'startingOffsetsByTimestampStrategy'])

/** What only a stream does. */
const isTriggerOption = isOneOf([
  'maxOffsetsPerTrigger',
  'minOffsetsPerTrigger',
  'maxTriggerDelay',
  'sluice.maxBytesPerTrigger',
  'sluice.targetBytesPerWorker',
  'sluice.minBatchesToRetain',
])

/**
 * Parses the options of a batch read. The checks come in Spark's order: the start, the end, those of a stream's options,
 * the start against the end. Nobody is asked.
 * @throws as `parseOptions`, and MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET,
 * UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET
 */
export function parseBatchOptions(raw: Readonly<Record<string, unknown>>, env: Environment): BatchOptions {
  const options = parseBackfillOptions(raw, env)
  const ignored = Object.keys(raw).filter((name) => raw[name] !== undefined && isTriggerOption(name))
  const warnings = ignored.map((name) => `Option '${canonicalName(name) ?? name}' is ignored in a bounded read.`)
  return { ...options, warnings: [...options.warnings, ...warnings] }
}

/** The same for a backfill, which reads in batches: what limits them is kept. */
export function parseBackfillOptions(raw: Readonly<Record<string, unknown>>, env: Environment): BatchOptions {
  const given = Object.entries(raw)
  const { options: positions, warnings } = collectOptions(
    Object.fromEntries(given.filter(([name]) => isPositionOption(name))),
    env
  )
  const startingOffsets = startFrom(positions, { kind: 'earliest' })
  const endingOffsets = endFrom(positions)
  checkBatchLimits(startingOffsets, endingOffsets)
  const general = parseOptions(Object.fromEntries(given.filter(([name]) => !isPositionOption(name))), env)
  checkStartAgainstEnd(startingOffsets, endingOffsets)
  const start = startGiven(positions)
  return {
    ...general,
    startingOffsets,
    // A backfill that resumes uses its ending options as little as its starting ones.
    startOptions: [...start.names, ...endOptions.filter((name) => positions.has(name))],
    endingOffsets,
    warnings: [...warnings, ...general.warnings, ...start.warnings],
  }
}
