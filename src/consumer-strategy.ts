/** Which partitions a query reads: `subscribe`, `subscribePattern` or `assign` (spark-semantics 1.2 and 2.1). */
import { javaRegex } from './java-regex.ts'
import { isObject, nameOf } from './offsets.ts'
import type { TopicPartition } from './offsets.ts'

export type ConsumerStrategy =
  | { readonly kind: 'subscribe'; readonly topics: readonly string[] }
  | { readonly kind: 'subscribePattern'; readonly pattern: string; readonly regex: RegExp }
  | { readonly kind: 'assign'; readonly partitions: readonly TopicPartition[] }

/** Comma-separated topics, trimmed, empty ones dropped, each once. @throws SyntaxError */
export function parseSubscribe(text: string): ConsumerStrategy {
  const topics = text
    .split(',')
    .map((topic) => topic.trim())
    .filter((topic) => topic !== '')
  if (topics.length === 0) throw new SyntaxError('No topics to subscribe to')
  return { kind: 'subscribe', topics: [...new Set(topics)] }
}

/** A Java regular expression; topics in whose name it finds a match are read. @throws SyntaxError */
export function parseSubscribePattern(text: string): ConsumerStrategy {
  const pattern = text.trim()
  return { kind: 'subscribePattern', pattern, regex: javaRegex(pattern) }
}

/** `{"topicA":[0,1],"topicB":[2]}` as text or object, in its order, each partition once. @throws SyntaxError */
export function parseAssign(value: unknown): ConsumerStrategy {
  if (typeof value === 'string' && !value.trim().startsWith('{')) throw new SyntaxError('No topicpartitions to assign')
  const parsed: unknown = typeof value === 'string' ? JSON.parse(value) : value
  if (!isObject(parsed)) throw new SyntaxError('not an object of topics')
  const partitions = Object.entries(parsed).flatMap(([topic, list]) => partitionsOf(topic, list))
  if (partitions.length === 0) throw new SyntaxError('No topicpartitions to assign')
  return { kind: 'assign', partitions }
}

function partitionsOf(topic: string, list: unknown): TopicPartition[] {
  const name = JSON.stringify(topic)
  if (!Array.isArray(list)) throw new SyntaxError(`the value of topic ${name} is not a list of partitions`)
  return [...new Set<unknown>(list)].map((partition) => {
    if (!isPartition(partition))
      throw new SyntaxError(`${JSON.stringify(partition)} in the list of topic ${name} is not a partition number`)
    return { topic, partition }
  })
}

const isPartition = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0x7fffffff

/** The topics that are named; null where all that exist are looked at. */
export function namedTopics(strategy: ConsumerStrategy): readonly string[] | null {
  switch (strategy.kind) {
    case 'subscribe':
      return strategy.topics
    case 'subscribePattern':
      return null
    case 'assign':
      return [...new Set(strategy.partitions.map(({ topic }) => topic))]
    default:
      return strategy satisfies never
  }
}

/** Whether the query reads a partition, should it exist. */
export function selectorOf(strategy: ConsumerStrategy): (tp: TopicPartition) => boolean {
  if (strategy.kind === 'subscribePattern') return ({ topic }) => strategy.regex.test(topic)
  if (strategy.kind === 'subscribe') {
    const topics = new Set(strategy.topics)
    return ({ topic }) => topics.has(topic)
  }
  const listed = new Set(strategy.partitions.map(nameOf))
  return (tp) => listed.has(nameOf(tp))
}

/** As Spark prints it: `Subscribe[t1, t2]`, `SubscribePattern[t.*]`, `Assign[t-0, t-1]`. */
export function describeStrategy(strategy: ConsumerStrategy): string {
  switch (strategy.kind) {
    case 'subscribe':
      return `Subscribe[${strategy.topics.join(', ')}]`
    case 'subscribePattern':
      return `SubscribePattern[${strategy.pattern}]`
    case 'assign':
      return `Assign[${strategy.partitions.map(nameOf).join(', ')}]`
    default:
      return strategy satisfies never
  }
}
