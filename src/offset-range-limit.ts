/**
 * Where a query starts: `earliest`, `latest`, or a map of specific offsets (spark-semantics 1.5 and 4). Kafka's -1 and
 * -2 are words of the option's JSON; they are turned into `latest` and `earliest` here and never leave this file.
 */
import { SluiceError } from './errors.ts'
import {
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

export type OffsetRangeLimit =
  | { readonly kind: 'earliest' | 'latest' }
  | { readonly kind: 'specific'; readonly positions: ReadonlyMap<string, ReadonlyMap<number, StartingPosition>> }

/** What Kafka answered for the partitions that the query's strategy selects. */
export interface ObservedPartitions {
  readonly assigned: readonly TopicPartition[]
  readonly earliest: PartitionOffsets
  readonly latest: PartitionOffsets
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
 * The offsets at which a fresh query starts. A specific map must name exactly the assigned partitions. Its numbers are
 * taken as they are: one beyond the log's end is found as data loss by the first plan. A partition that Kafka has no
 * offset for any more is left out.
 * @throws KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED
 */
export function resolveStart(limit: OffsetRangeLimit, observed: ObservedPartitions): PartitionOffsets {
  const positionOf =
    limit.kind === 'specific'
      ? specificPositions(limit.positions, observed.assigned)
      : (): StartingPosition => limit.kind
  return offsetsOf(
    observed.assigned.flatMap((tp) => {
      const position = positionOf(tp)
      const offset = typeof position === 'bigint' ? position : offsetAt(observed[position], tp)
      return offset === undefined ? [] : [{ ...tp, offset }]
    })
  )
}

function specificPositions(
  positions: ReadonlyMap<string, ReadonlyMap<number, StartingPosition>>,
  assigned: readonly TopicPartition[]
): (tp: TopicPartition) => StartingPosition {
  const specified = [...positions].flatMap(([topic, partitions]) =>
    [...partitions.keys()].map((partition) => ({ topic, partition }))
  )
  const assignedNames = new Set(assigned.map(nameOf))
  const missing = assigned.filter((tp) => positions.get(tp.topic)?.get(tp.partition) === undefined)
  const extra = specified.filter((tp) => !assignedNames.has(nameOf(tp)))
  if (missing.length > 0 || extra.length > 0)
    throw new SluiceError('KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED', {
      specified: namesOf(specified),
      assigned: namesOf(assigned),
      missing: namesOf(missing),
      extra: namesOf(extra),
    })
  return (tp) => positions.get(tp.topic)?.get(tp.partition) ?? 'latest' // never absent: the sets are equal
}

const namesOf = (partitions: readonly TopicPartition[]): string =>
  partitions.toSorted(compareTopicPartitions).map(nameOf).join(', ') || 'none'
