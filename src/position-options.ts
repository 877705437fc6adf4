/**
 * The options that say where a read starts and where it ends (spark-semantics 1.2 and 1.4):
 * `startingTimestamp` before `startingOffsetsByTimestamp` before `startingOffsets`, and the same for the end.
 */
import { SluiceError } from './errors.ts'
import { parseOffsetRangeLimit, parseTimestamps } from './offset-range-limit.ts'
import type { NoMatchStrategy, OffsetRangeLimit } from './offset-range-limit.ts'
import { invalid, parsing, textOf } from './option-values.ts'
import type { GivenOption } from './option-values.ts'
import { MAX_INT64, compareTopicPartitions, nameOf } from './offsets.ts'

type Options = ReadonlyMap<string, GivenOption>

/** The start that was given, `absent` where none was. Of several only the first in precedence is looked at. */
export const startFrom = (options: Options, absent: OffsetRangeLimit): OffsetRangeLimit =>
  limitFrom(options, 'starting', noMatchFrom(options)) ?? absent

const startOptions = ['startingTimestamp', 'startingOffsetsByTimestamp', 'startingOffsets']
const STRATEGY = 'startingOffsetsByTimestampStrategy'

/** The names of the start options that were given, in their precedence; a notice for each that does not count. */
export function startGiven(options: Options): {
  readonly names: readonly string[]
  readonly warnings: readonly string[]
} {
  const [first, ...others] = startOptions.filter((name) => options.has(name))
  const isStrategyGiven = options.has(STRATEGY)
  return {
    names: [...(first === undefined ? [] : [first]), ...others, ...(isStrategyGiven ? [STRATEGY] : [])],
    warnings: [
      ...others.map((name) => `Option '${name}' is not used: '${first}' comes before it.`),
      ...(isStrategyGiven && (first === undefined || first === 'startingOffsets')
        ? [`Option '${STRATEGY}' has no effect without a timestamp.`]
        : []),
    ],
  }
}

/**
 * The notice that a resumed query does not look at its starting options (S3, B06); null where none was given.
 * @param offsets where it resumes, as Spark's offset JSON
 */
export function unusedStart(
  { startOptions: names }: { readonly startOptions: readonly string[] },
  offsets: string
): string | null {
  if (names.length === 0) return null
  const listed = names.map((name) => `'${name}'`).join(', ')
  return (
    `${names.length === 1 ? `option ${listed} is` : `options ${listed} are`} not used: ` +
    `the query resumes from its log, at ${offsets}. To read again, give the query another name.`
  )
}

/** The end that was given, `latest` where none was. A partition without a match is read to its latest. */
export const endFrom = (options: Options): OffsetRangeLimit =>
  limitFrom(options, 'ending', 'latest') ?? { kind: 'latest' }

function limitFrom(options: Options, side: 'starting' | 'ending', noMatch: NoMatchStrategy): OffsetRangeLimit | null {
  const timestamp = options.get(`${side}Timestamp`)
  if (timestamp !== undefined) return { kind: 'globalTimestamp', timestamp: timestampOf(timestamp), noMatch }
  const timestamps = options.get(`${side}OffsetsByTimestamp`)
  if (timestamps !== undefined) return { kind: 'timestamps', timestamps: timestampsOf(timestamps), noMatch }
  const offsets = options.get(`${side}Offsets`)
  return offsets === undefined ? null : offsetsOf(offsets)
}

const offsetsOf = (option: GivenOption): OffsetRangeLimit =>
  parsing(option, `Expected 'earliest', 'latest' or e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}`, () =>
    parseOffsetRangeLimit(option.value)
  )

const timestampsOf = (option: GivenOption) =>
  parsing(option, 'Expected e.g. {"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}', () =>
    parseTimestamps(option.value)
  )

function timestampOf(option: GivenOption): bigint {
  const text = textOf(option).trim()
  const timestamp = /^\d{1,19}$/.test(text) ? BigInt(text) : -1n
  if (timestamp < 0n || timestamp > MAX_INT64)
    invalid(option.name, `Expected a single long value, in milliseconds since the epoch, got ${option.shown}`)
  return timestamp
}

function noMatchFrom(options: Options): NoMatchStrategy {
  const option = options.get(STRATEGY)
  if (option === undefined) return 'error'
  const text = textOf(option).trim().toLowerCase()
  if (text === 'error' || text === 'latest') return text
  return invalid(option.name, `No value found for ${option.shown}: it takes error or latest`)
}

/**
 * What a bounded read refuses: a start at the latest offset and an end at the earliest.
 * @throws OPTION_INVALID
 */
export function checkBatchLimits(start: OffsetRangeLimit, end: OffsetRangeLimit): void {
  refuse(start, 'latest', 'startingOffsets', "starting offset can't be latest for batch queries on Kafka")
  refuse(end, 'earliest', 'endingOffsets', "ending offset can't be earliest for batch queries on Kafka")
}

function refuse(limit: OffsetRangeLimit, word: 'earliest' | 'latest', option: string, reason: string): void {
  if (limit.kind === word) invalid(option, reason)
  if (limit.kind !== 'specific') return
  for (const [topic, partitions] of limit.positions)
    for (const [partition, position] of partitions)
      if (position === word) invalid(option, `${reason}: ${topic}-${partition} is ${word === 'latest' ? -1 : -2}`)
}

/**
 * Maps of one kind on both sides must name the same partitions, none with a start above its end. Asks nobody.
 * @throws MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET, UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET
 */
export function checkStartAgainstEnd(start: OffsetRangeLimit, end: OffsetRangeLimit): void {
  if (start.kind === 'specific' && end.kind === 'specific') compareMaps('offset', start.positions, end.positions)
  if (start.kind === 'timestamps' && end.kind === 'timestamps')
    compareMaps('timestamp', start.timestamps, end.timestamps)
}

type Positions = ReadonlyMap<string, ReadonlyMap<number, bigint | 'earliest' | 'latest'>>

function compareMaps(what: 'offset' | 'timestamp', start: Positions, end: Positions): void {
  const [first, last] = [namesIn(start), namesIn(end)]
  if (first !== last)
    throw new SluiceError('MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET', {
      start: first,
      end: last,
    })
  for (const [topic, partitions] of start)
    for (const [partition, from] of partitions) {
      const until = end.get(topic)?.get(partition)
      if (typeof from !== 'bigint' || typeof until !== 'bigint' || from <= until) continue
      throw new SluiceError('UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET', {
        what,
        topic,
        partition,
        start: String(from),
        end: String(until),
      })
    }
}

const namesIn = (positions: Positions): string =>
  [...positions]
    .flatMap(([topic, partitions]) => [...partitions.keys()].map((partition) => ({ topic, partition })))
    .toSorted(compareTopicPartitions)
    .map(nameOf)
    .join(', ') || 'none'
