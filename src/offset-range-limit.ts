/**
 * Where a query starts: `earliest`, `latest`, a map of specific offsets, or timestamps (spark-semantics 1.5 and 4). Kafka's
 * -1 and -2 are words of the option's JSON; they are turned into `latest` and `earliest` here and never leave this file.
 */
import { SluiceError } from './errors.ts'
import {
  MAX_INT64,
  compareTopicPartitions,
  nameOf,
  offsetAt,
  offsetFrom,
  offsetsOf,
  parseExact,
  partitionValuesFrom,
} from './offsets.ts'
import type { PartitionOffsets, TopicPartition } from './offsets.ts'

export type StartingPosition = bigint | 'earliest' | 'latest'

/** What becomes of a partition that has no record at or after its timestamp: an error, or a start at its end. */
export type NoMatchStrategy = 'error' | 'latest'

/** Timestamps are milliseconds since the epoch. */
export type OffsetRangeLimit =
  | { readonly kind: 'earliest' | 'latest' }
  | { readonly kind: 'specific'; readonly positions: ReadonlyMap<string, ReadonlyMap<number, StartingPosition>> }
  | { readonly kind: 'timestamps'; readonly timestamps: PartitionOffsets; readonly noMatch: NoMatchStrategy }
  | { readonly kind: 'globalTimestamp'; readonly timestamp: bigint; readonly noMatch: NoMatchStrategy }

/** What Kafka answered for the partitions that the query's strategy selects. */
export interface ObservedPartitions {
  readonly assigned: readonly TopicPartition[]
  readonly earliest: PartitionOffsets
  /** Asked for before `matched`: then a record that comes in between is matched, and never slips between the two. */
  readonly latest: PartitionOffsets
  /** For `timestampsToMatch`, the first offset at or after each; partitions without a match are absent. */
  readonly matched?: PartitionOffsets
}

/**
 * Parses `earliest` or `latest` (any case, trimmed), JSON text, or the same map as an object.
 * @throws SyntaxError with a reason that the caller wraps with the option's name.
 */
export function parseOffsetRangeLimit(value: unknown): OffsetRangeLimit {
  if (typeof value !== 'string') return { kind: 'specific', positions: partitionValuesFrom(value, positionFrom) }
  const text = value.trim()
  const word = text.toLowerCase()
  if (word === 'earliest' || word === 'latest') return { kind: word }
  return { kind: 'specific', positions: partitionValuesFrom(parseExact(text), positionFrom) }
}

function positionFrom(name: string, value: unknown): StartingPosition {
  const offset = offsetFrom(name, value, -2n)
  return offset === -1n ? 'latest' : offset === -2n ? 'earliest' : offset
}

/**
 * `{"topicA":{"0":1000},"topicB":{"0":2000}}` as text or object: milliseconds since the epoch, from 0.
 * @throws SyntaxError with a reason that the caller wraps with the option's name.
 */
export const parseTimestamps = (value: unknown): PartitionOffsets =>
  partitionValuesFrom(typeof value === 'string' ? parseExact(value) : value, timestampFrom)

function timestampFrom(name: string, value: unknown): bigint {
  try {
    return offsetFrom(name, value)
  } catch (error) {
    throw new SyntaxError(`the timestamp of ${name} is not an integer from 0 to ${MAX_INT64}, in ms`, { cause: error })
  }
}

/** The partitions that a map names; none for a limit that says the same for all. */
export function namedPartitions(limit: OffsetRangeLimit): TopicPartition[] {
  const map = limit.kind === 'specific' ? limit.positions : limit.kind === 'timestamps' ? limit.timestamps : new Map()
  return [...map].flatMap(([topic, partitions]) => [...partitions.keys()].map((partition) => ({ topic, partition })))
}

/**
 * The timestamps to ask Kafka for; null for a limit without timestamps. A map must name exactly the assigned partitions.
 * @throws KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED
 */
export function timestampsToMatch(
  limit: OffsetRangeLimit,
  assigned: readonly TopicPartition[],
  position: 'start' | 'end' = 'start'
): PartitionOffsets | null {
  if (limit.kind === 'globalTimestamp') return offsetsOf(assigned.map((tp) => ({ ...tp, offset: limit.timestamp })))
  if (limit.kind !== 'timestamps') return null
  const sets = compareSets(limit, assigned)
  if (sets !== null) throw new SluiceError('KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED', { position, ...sets })
  return limit.timestamps
}

/**
 * The offsets at which a fresh query starts, or at which a bounded one ends. A specific map must name exactly the assigned partitions. Its numbers are
 * taken as they are: one beyond the log's end is found as data loss by the first plan. A partition that Kafka has no
 * offset for any more is left out.
 * @throws KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED, KAFKA_NO_OFFSET_FOR_TIMESTAMP
 */
export function resolveOffsets(
  limit: OffsetRangeLimit,
  observed: ObservedPartitions,
  position: 'start' | 'end' = 'start'
): PartitionOffsets {
  const positionOf = positionsOf(limit, observed, position)
  return offsetsOf(
    observed.assigned.flatMap((tp) => {
      const at = positionOf(tp)
      const offset = typeof at === 'bigint' ? at : offsetAt(observed[at], tp)
      return offset === undefined ? [] : [{ ...tp, offset }]
    })
  )
}

/**
 * The position of each assigned partition. `earliest` and `latest` stay words.
 * @throws KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED, KAFKA_NO_OFFSET_FOR_TIMESTAMP
 */
export function positionsOf(
  limit: OffsetRangeLimit,
  { assigned, latest, matched = new Map() }: Omit<ObservedPartitions, 'earliest'>,
  position: 'start' | 'end' = 'start'
): (tp: TopicPartition) => StartingPosition {
  switch (limit.kind) {
    case 'earliest':
    case 'latest':
      return () => limit.kind
    case 'specific': {
      const sets = compareSets(limit, assigned)
      if (sets !== null) throw new SluiceError('KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED', { position, ...sets })
      return (tp) => limit.positions.get(tp.topic)?.get(tp.partition) ?? 'latest' // never absent: the sets are equal
    }
    case 'timestamps':
    case 'globalTimestamp': {
      // One that has no end either is gone.
      const open = assigned.filter((tp) => offsetAt(matched, tp) === undefined && offsetAt(latest, tp) !== undefined)
      if (limit.noMatch === 'error' && open.length > 0)
        throw new SluiceError('KAFKA_NO_OFFSET_FOR_TIMESTAMP', { requests: open.map((tp) => requestOf(limit, tp)) })
      return (tp) => offsetAt(matched, tp) ?? 'latest'
    }
    default:
      return limit satisfies never
  }
}

function requestOf(
  limit: Extract<OffsetRangeLimit, { kind: 'timestamps' | 'globalTimestamp' }>,
  tp: TopicPartition
): string {
  const timestamp = limit.kind === 'globalTimestamp' ? limit.timestamp : offsetAt(limit.timestamps, tp)
  return `topic-partition ${nameOf(tp)} and timestamp ${timestamp}`
}

/** The partitions that a map names beside those that there are; null where they are the same. */
function compareSets(
  limit: OffsetRangeLimit,
  assigned: readonly TopicPartition[]
): Readonly<Record<'specified' | 'assigned' | 'missing' | 'extra', string>> | null {
  const specified = namedPartitions(limit)
  const [specifiedNames, assignedNames] = [new Set(specified.map(nameOf)), new Set(assigned.map(nameOf))]
  const missing = assigned.filter((tp) => !specifiedNames.has(nameOf(tp)))
  const extra = specified.filter((tp) => !assignedNames.has(nameOf(tp)))
  if (missing.length === 0 && extra.length === 0) return null
  return {
    specified: namesOf(specified),
    assigned: namesOf(assigned),
    missing: namesOf(missing),
    extra: namesOf(extra),
  }
}

const namesOf = (partitions: readonly TopicPartition[]): string =>
  partitions.toSorted(compareTopicPartitions).map(nameOf).join(', ') || 'none'
