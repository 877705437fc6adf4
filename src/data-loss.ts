/**
 * What was expected in Kafka and is not there: the planner's checks (spark-semantics 3), the words for each finding, and
 * the one place where failOnDataLoss decides between an error and a report.
 */
import { SluiceError } from './errors.ts'
import { entriesOf, nameOf, offsetAt, partitionsNotIn } from './offsets.ts'
import type { PartitionOffset, PartitionOffsets, TopicPartition } from './offsets.ts'
import type { OffsetRange } from './ranges.ts'

/** The reason, in the words of Spark's KAFKA_DATA_LOSS sub-conditions; TOPIC_RECREATED is ours. */
export type DataLossReason =
  | 'INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS'
  | 'ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO'
  | 'PARTITIONS_DELETED'
  | 'PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT'
  | 'PARTITION_OFFSET_CHANGED'
  | 'COULD_NOT_READ_OFFSET_RANGE'
  | 'TOPIC_RECREATED'

/**
 * One loss. In general offsets `[from, until)` of a partition that nobody will deliver. A deleted partition has both at
 * its stored position; a changed or recreated one goes from the stored position to the one it goes on from, which
 * may be lower.
 */
export interface DataLossFinding extends TopicPartition {
  readonly reason: DataLossReason
  readonly from: bigint
  readonly until: bigint
  /** Of a recreated topic whose stored position means nothing any more: where the new one ended when that was found. */
  readonly newEnd?: bigint
}

export type TopicIds = ReadonlyMap<string, string>

/** Topics whose id is known on both sides and differs: deleted and created again (N4). */
export const recreatedTopics = (before: TopicIds, now: TopicIds): ReadonlySet<string> =>
  new Set([...now].filter(([topic, id]) => (before.get(topic) ?? id) !== id).map(([topic]) => topic))

export interface DataLossInput {
  readonly start: PartitionOffsets
  readonly end: PartitionOffsets
  /** What Kafka holds, where a cap may have cut `end`. */
  readonly latest?: PartitionOffsets
  /**
   * Earliest offsets of the partitions of `end` that `start` does not have, and of all partitions of recreated topics.
   * Partitions that vanished meanwhile are absent.
   */
  readonly earliestOfNew: PartitionOffsets
  /** `kafka.group.id` is set. */
  readonly groupIdGiven?: boolean
  /** Result of `recreatedTopics`. Their stored positions mean nothing any more: reading goes on at the earliest offset. */
  readonly recreated?: ReadonlySet<string>
}

export interface DataLossCheck {
  /** What is left to read, if the findings are tolerated: one range for each partition with data, ordered. */
  readonly ranges: readonly OffsetRange[]
  /** In the order of Spark's checks, each ordered by partition. */
  readonly findings: readonly DataLossFinding[]
}

/** Compares a batch's start and end maps with what Kafka has. Decides nothing: see `enforce`. */
export function checkDataLoss(input: DataLossInput): DataLossCheck {
  const { start, end, latest = end, earliestOfNew } = input
  const isRecreated = (tp: TopicPartition): boolean => input.recreated?.has(tp.topic) === true
  const entries = entriesOf(end).map((until) => {
    const stored = offsetAt(start, until)
    return { until, stored, from: stored === undefined || isRecreated(until) ? offsetAt(earliestOfNew, until) : stored }
  })
  const recreated = entries.flatMap(({ until, stored, from }) =>
    stored !== undefined && isRecreated(until)
      ? [{ ...finding('TOPIC_RECREATED', until, stored, from ?? 0n), newEnd: offsetAt(latest, until) ?? until.offset }]
      : []
  )
  const notFound = entries.flatMap(({ until, from }) =>
    from === undefined ? [finding('INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS', until, 0n, until.offset)] : []
  )
  const notFromZero = entries.flatMap(({ until, stored, from }) =>
    stored === undefined && from !== undefined && from !== 0n
      ? [finding('ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO', until, 0n, from)]
      : []
  )
  const changed = entries.flatMap(({ until, from }) =>
    from !== undefined && until.offset < from ? [finding('PARTITION_OFFSET_CHANGED', until, from, until.offset)] : []
  )
  return {
    ranges: entries.flatMap(({ until, from }) => rangeOf(until, from)),
    findings: [...recreated, ...notFound, ...notFromZero, ...deletedFindings(input), ...changed],
  }
}

function deletedFindings({ start, end, groupIdGiven }: DataLossInput): DataLossFinding[] {
  const reason = groupIdGiven === true ? 'PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT' : 'PARTITIONS_DELETED'
  return partitionsNotIn(start, end).map((tp) => {
    const stored = offsetAt(start, tp) ?? 0n
    return finding(reason, tp, stored, stored)
  })
}

const finding = (reason: DataLossReason, tp: TopicPartition, from: bigint, until: bigint): DataLossFinding => ({
  reason,
  topic: tp.topic,
  partition: tp.partition,
  from,
  until,
})

const rangeOf = ({ topic, partition, offset }: PartitionOffset, from: bigint | undefined): OffsetRange[] =>
  from === undefined || offset <= from ? [] : [{ topic, partition, from, until: offset }]

/** The error of a query of thousands of partitions still has to pass through a state machine. */
const MAX_DESCRIBED = 100

/** One clause for each finding, with its partition, its offsets and Spark's name for it. */
export function describeFindings(findings: readonly DataLossFinding[]): string {
  const clauses = findings.slice(0, MAX_DESCRIBED).map((f) => `${nameOf(f)}: ${wordsFor[f.reason](f)} (${f.reason})`)
  const more = findings.length - clauses.length
  return [...clauses, ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}

const wordsFor: Record<DataLossReason, (finding: DataLossFinding) => string> = {
  INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS: () => 'the new partition was gone before its earliest offset could be read',
  ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: (f) => `the new partition starts from offset ${f.until}, not from 0`,
  PARTITIONS_DELETED: (f) => `the partition is gone, it was read up to offset ${f.from}`,
  PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT: (f) =>
    `the partition is gone, it was read up to offset ${f.from} (kafka.group.id is set: make sure that no other query uses it)`,
  PARTITION_OFFSET_CHANGED: (f) => `offset was changed from ${f.from} to ${f.until}`,
  COULD_NOT_READ_OFFSET_RANGE: (f) => `offsets [${f.from}, ${f.until}) cannot be read any more`,
  TOPIC_RECREATED: (f) =>
    f.newEnd === undefined
      ? `offsets [${f.from}, ${f.until}) are gone with the topic, which was deleted and created again`
      : `the topic was deleted and created again: offset was changed from ${f.from} to ${f.newEnd}, and the new one starts from ${f.until}`,
}

/**
 * The one place where failOnDataLoss counts: throws, or returns the findings to be reported.
 * @throws KAFKA_DATA_LOSS naming each finding
 */
export function enforce(
  findings: readonly DataLossFinding[],
  failOnDataLoss: boolean,
  cause?: unknown
): readonly DataLossFinding[] {
  if (failOnDataLoss && findings.length > 0)
    throw new SluiceError('KAFKA_DATA_LOSS', { findings: describeFindings(findings) }, cause)
  return findings
}
