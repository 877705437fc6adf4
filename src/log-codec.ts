/**
 * How the text of an entry is read: its version first, then field by field, so that an entry that is damaged is refused
 * by name and nothing is guessed.
 */
import type { BlockedPartition } from './blocked.ts'
import type { DataLossFinding, DataLossReason, TopicIds } from './data-loss.ts'
import { SluiceError, reasonOf } from './errors.ts'
import type { Fingerprint, RangeReceipt } from './log.ts'
import { isObject, offsetFrom, parseExact, partitionValuesFrom, stringifyExact } from './offsets.ts'
import type { PartitionOffsets } from './offsets.ts'
import type { CommitMessage } from './ports.ts'
import type { OffsetRange } from './ranges.ts'

/** The newest version this release reads and the one it writes. */
export const LOG_VERSION = 1

/**
 * Reads an entry; `read` throws a SyntaxError for a field that is not as it should be.
 * @throws UNSUPPORTED_LOG_VERSION, LOG_ENTRY_UNREADABLE, both naming the entry
 */
export function decodeEntry<T>(entry: string, text: string, read: (json: Record<string, unknown>) => T): T {
  try {
    const json = objectOf(parseExact(text), 'the entry')
    const version = json['v']
    if (typeof version === 'number' && version > LOG_VERSION)
      throw new SluiceError('UNSUPPORTED_LOG_VERSION', { entry, found: version, supported: LOG_VERSION })
    if (version !== LOG_VERSION) throw new SyntaxError(`its version field 'v' is ${shown(version)}`)
    return read(json)
  } catch (error) {
    if (error instanceof SluiceError) throw error
    throw new SluiceError('LOG_ENTRY_UNREADABLE', { entry, reason: reasonOf(error) }, error)
  }
}

// -- fields

const shown = (value: unknown): string => (value === undefined ? 'missing' : stringifyExact(value))

const wrong = (field: string, value: unknown, wanted: string): never => {
  throw new SyntaxError(`field '${field}' is ${shown(value).slice(0, 100)}, not ${wanted}`)
}

export const textOf = (value: unknown, field: string): string =>
  typeof value === 'string' ? value : wrong(field, value, 'a text')

export const numberOf = (value: unknown, field: string): number =>
  typeof value === 'number' ? value : wrong(field, value, 'a number')

/** A whole number from 0 to 2^53 - 1. */
export const countOf = (value: unknown, field: string): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : wrong(field, value, 'a count')

/** An int64 whose digits may have been read as a number. */
export const int64Of = (value: unknown, field: string): bigint =>
  typeof value === 'bigint' || Number.isSafeInteger(value)
    ? BigInt(value as bigint | number)
    : wrong(field, value, 'a whole number')

export const booleanOf = (value: unknown, field: string): boolean =>
  typeof value === 'boolean' ? value : wrong(field, value, 'true or false')

export const arrayOf = (value: unknown, field: string): readonly unknown[] =>
  Array.isArray(value) ? value : wrong(field, value, 'a list')

export const objectOf = (value: unknown, field: string): Record<string, unknown> =>
  isObject(value) ? value : wrong(field, value, 'an object')

export const oneOf = <T extends string>(value: unknown, field: string, words: readonly T[]): T =>
  words.find((word) => word === value) ?? wrong(field, value, `one of ${words.join(', ')}`)

const pairOf = (value: unknown, field: string): [string, string] => {
  const [first, second] = arrayOf(value, field)
  return [textOf(first, field), textOf(second, field)]
}

export const topicIdsFrom = (value: unknown): TopicIds =>
  new Map(arrayOf(value, 'topicIds').map((pair) => pairOf(pair, 'topicIds')))

export const offsetsOfField = (value: unknown, field: string): PartitionOffsets =>
  partitionValuesFrom(objectOf(value, field), offsetFrom)

export function rangeFrom(value: unknown, field: string): OffsetRange {
  const { topic, partition, from, until } = objectOf(value, field)
  return {
    topic: textOf(topic, `${field}.topic`),
    partition: countOf(partition, `${field}.partition`),
    from: offsetFrom(`${field}.from`, from),
    until: offsetFrom(`${field}.until`, until),
  }
}

const reasons = Object.keys({
  INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS: true,
  ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: true,
  PARTITIONS_DELETED: true,
  PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT: true,
  PARTITION_OFFSET_CHANGED: true,
  COULD_NOT_READ_OFFSET_RANGE: true,
  TOPIC_RECREATED: true,
} satisfies Record<DataLossReason, true>) as DataLossReason[] // the compiler knows the keys, not Object.keys

/** The list of losses that plans, reports and commits carry. */
export const findingsFrom = (value: unknown): DataLossFinding[] =>
  arrayOf(value, 'dataLoss').map((finding) => {
    const { reason, newEnd } = objectOf(finding, 'dataLoss')
    return {
      ...rangeFrom(finding, 'dataLoss'),
      reason: oneOf(reason, 'dataLoss.reason', reasons),
      ...(newEnd === undefined ? {} : { newEnd: offsetFrom('dataLoss.newEnd', newEnd) }),
    }
  })

/** What plans and progress tell of open transactions. */
export const blockedFrom = (value: unknown): BlockedPartition[] =>
  arrayOf(value, 'blocked').map((one) => {
    const { topic, partition, lastStableOffset, offsets, since } = objectOf(one, 'blocked')
    return {
      topic: textOf(topic, 'blocked.topic'),
      partition: countOf(partition, 'blocked.partition'),
      lastStableOffset: offsetFrom('blocked.lastStableOffset', lastStableOffset),
      offsets: offsetFrom('blocked.offsets', offsets),
      since: textOf(since, 'blocked.since'),
    }
  })

// -- parts of entries

export function sameBatch(wanted: number, found: unknown): number {
  if (found !== wanted) throw new SyntaxError(`it names batch ${String(found)}`)
  return wanted
}

export function rangeFromTuple(topics: readonly string[], tuple: readonly unknown[]): OffsetRange {
  const [index, partition, from, until] = tuple
  const topic = textOf(topics[countOf(index, 'tasks')], 'topics')
  return {
    topic,
    partition: countOf(partition, 'tasks'),
    from: offsetFrom(topic, from),
    until: offsetFrom(topic, until),
  }
}

export function receiptFrom(value: unknown): RangeReceipt {
  const json = objectOf(value, 'ranges')
  return {
    ...rangeFrom(json, 'ranges'),
    records: countOf(json['records'], 'records'),
    rows: countOf(json['rows'], 'rows'),
    bytes: countOf(json['bytes'], 'bytes'),
    hash: textOf(json['hash'], 'hash'),
    highWatermark: json['highWatermark'] === null ? null : offsetFrom('highWatermark', json['highWatermark']),
  }
}

export function fingerprintFrom(value: unknown): Fingerprint {
  const json = objectOf(value, 'fingerprint')
  return { sink: textOf(json['sink'], 'fingerprint.sink'), mapping: textOf(json['mapping'], 'fingerprint.mapping') }
}

export function messageFrom(value: unknown): CommitMessage {
  const json = objectOf(value, 'message')
  return {
    objects: arrayOf(json['objects'], 'message.objects').map((o) => textOf(o, 'message.objects')),
    rows: countOf(json['rows'], 'message.rows'),
    bytes: countOf(json['bytes'], 'message.bytes'),
    detail: textOf(json['detail'], 'message.detail'),
  }
}
