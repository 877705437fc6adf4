/**
 * Topic partitions and offset maps. An offset in any log is the next offset to read (spark-semantics 0.1), so a
 * range is `[from, until)` and a stored end is the next start. Offsets are bigint: 64-bit, exact.
 */

export interface TopicPartition {
  readonly topic: string
  readonly partition: number
}

/** topic -> partition -> offset. Immutable by habit: functions return new maps. */
export type PartitionOffsets = ReadonlyMap<string, ReadonlyMap<number, bigint>>

export interface PartitionOffset extends TopicPartition {
  readonly offset: bigint
}

export const MAX_INT64 = 2n ** 63n - 1n

/** Builds a map from entries; a later entry of the same partition wins. */
export function offsetsOf(entries: Iterable<PartitionOffset>): PartitionOffsets {
  const map = new Map<string, Map<number, bigint>>()
  for (const { topic, partition, offset } of entries) partitionsIn(map, topic).set(partition, offset)
  return map
}

function partitionsIn<T>(map: Map<string, Map<number, T>>, topic: string): Map<number, T> {
  let partitions = map.get(topic)
  if (!partitions) map.set(topic, (partitions = new Map()))
  return partitions
}

/** All entries, ordered by topic (code units), then partition. */
export function entriesOf(offsets: PartitionOffsets): PartitionOffset[] {
  return [...offsets.keys()].toSorted().flatMap((topic) => {
    const partitions = offsets.get(topic) ?? new Map<number, bigint>()
    return [...partitions].toSorted(([a], [b]) => a - b).map(([partition, offset]) => ({ topic, partition, offset }))
  })
}

export const offsetAt = (offsets: PartitionOffsets, tp: TopicPartition): bigint | undefined =>
  offsets.get(tp.topic)?.get(tp.partition)

/** Equal as maps: the order of keys says nothing (K107). */
export function sameOffsets(a: PartitionOffsets, b: PartitionOffsets): boolean {
  const left = entriesOf(a)
  return left.length === entriesOf(b).length && left.every((e) => offsetAt(b, e) === e.offset)
}

/** Partitions of `a` that `b` does not have, ordered. */
export const partitionsNotIn = (a: PartitionOffsets, b: PartitionOffsets): TopicPartition[] =>
  entriesOf(a)
    .filter((tp) => offsetAt(b, tp) === undefined)
    .map(({ topic, partition }) => ({ topic, partition }))

/** The map without some topics. */
export const withoutTopics = (offsets: PartitionOffsets, topics: ReadonlySet<string>): PartitionOffsets =>
  new Map([...offsets].filter(([topic]) => !topics.has(topic)))

export const nameOf = (tp: TopicPartition): string => `${tp.topic}-${tp.partition}`

export const compareTopicPartitions = (a: TopicPartition, b: TopicPartition): number =>
  a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition

// -- exact JSON. Node 24 hands a reviver the source text of each number and writes digits through JSON.rawJSON,
// so int64 values never pass through a double.

interface RawJson {
  rawJSON(text: string): unknown
}

/** Writes a value as compact JSON; every bigint becomes its digits. */
export const stringifyExact = (value: unknown): string =>
  JSON.stringify(value, (_key, v: unknown) =>
    typeof v === 'bigint' ? (JSON as unknown as RawJson).rawJSON(String(v)) : v
  )

/** Parses JSON; integers that a double cannot hold become bigint, all others stay number. */
export function parseExact(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text) // no number needs more than a double, and a reviver is slow
  const revive = (_key: string, value: unknown, context: { source?: string }): unknown =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source ?? '')
      ? BigInt(context.source ?? '')
      : value
  return JSON.parse(text, revive as (key: string, value: unknown) => unknown)
}

/** Spark's offset JSON, compact, topics and partitions sorted: `{"t":{"0":23,"1":5}}`. */
export function offsetsToJson(offsets: PartitionOffsets): string {
  const topics = [...offsets.keys()].toSorted().map((topic) => {
    const partitions = [...(offsets.get(topic) ?? [])].toSorted(([a], [b]) => a - b)
    return `${JSON.stringify(topic)}:{${partitions.map(([p, o]) => `"${p}":${o}`).join(',')}}`
  })
  return `{${topics.join(',')}}`
}

/**
 * Parses Spark's offset JSON as a log holds it: offsets from 0 to 2^63-1. The -1 and -2 of startingOffsets are read by
 * offset-range-limit alone.
 * @throws SyntaxError with a reason that the caller wraps with the option or entry name.
 */
export function offsetsFromJson(text: string): PartitionOffsets {
  return partitionValuesFrom(parseExact(text), offsetFrom)
}

/**
 * Reads `{"topic":{"0":value}}`, already parsed, with one reader for the values; `name` is `topic-partition`.
 * @throws SyntaxError
 */
export function partitionValuesFrom<T>(
  parsed: unknown,
  read: (name: string, value: unknown) => T
): ReadonlyMap<string, ReadonlyMap<number, T>> {
  if (!isObject(parsed)) throw new SyntaxError('not a JSON object of topics')
  const map = new Map<string, Map<number, T>>()
  for (const [topic, partitions] of Object.entries(parsed)) {
    if (!isObject(partitions))
      throw new SyntaxError(`the value of topic ${JSON.stringify(topic)} is not an object of partitions`)
    for (const [partition, value] of Object.entries(partitions))
      partitionsIn(map, topic).set(partitionFrom(topic, partition), read(`${topic}-${partition}`, value))
  }
  return map
}

/**
 * An offset from parsed JSON: an exact integer from `min` (0) to 2^63-1. A number beyond 2^53 is refused: a double has
 * rounded it already.
 * @throws SyntaxError
 */
export function offsetFrom(name: string, value: unknown, min: bigint = 0n): bigint {
  const offset = typeof value === 'bigint' ? value : Number.isSafeInteger(value) ? BigInt(value as number) : null
  if (offset === null || offset < min || offset > MAX_INT64)
    throw new SyntaxError(`the offset ${textOf(value)} of ${name} is not an integer from ${min} to ${MAX_INT64}`)
  return offset
}

/** A partition number from the key of a JSON object. @throws SyntaxError */
export function partitionFrom(topic: string, text: string): number {
  if (!/^(0|[1-9]\d{0,9})$/.test(text) || Number(text) > 0x7fffffff)
    throw new SyntaxError(
      `partition ${JSON.stringify(text)} of topic ${JSON.stringify(topic)} is not a partition number`
    )
  return Number(text)
}

/** The JSON form for embedding in larger entries: plain nested objects of bigint. */
export const offsetsToObject = (offsets: PartitionOffsets): Record<string, Record<string, bigint>> => {
  const result = Object.create(null) as Record<string, Record<string, bigint>> // '__proto__' is a legal topic name
  for (const { topic, partition, offset } of entriesOf(offsets)) (result[topic] ??= {})[partition] = offset
  return result
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

// A value for a message; an object or a text is shown as JSON.
const textOf = (value: unknown): string => (typeof value === 'number' ? String(value) : stringifyExact(value))
