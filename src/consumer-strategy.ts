/** Which partitions a query reads: `subscribe` or `assign` (spark-semantics 1.2). */
import { isObject, nameOf } from './offsets.ts'
import type { TopicPartition } from './offsets.ts'

export type ConsumerStrategy =
  | { readonly kind: 'subscribe'; readonly topics: readonly string[] }
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

/** As Spark prints it: `Subscribe[t1, t2]`, `Assign[t-0, t-1]`. */
export const describeStrategy = (strategy: ConsumerStrategy): string =>
  strategy.kind === 'subscribe'
    ? `Subscribe[${strategy.topics.join(', ')}]`
    : `Assign[${strategy.partitions.map(nameOf).join(', ')}]`
