/**
 * A process that asks for a topic's offsets, reads `[0, until)` of its partition 0, closes its readers and then has
 * nothing left to do: `node read-and-end.ts '{"kafka": {...}, "topic": "t", "until": 10}'`. Prints `row N` for each
 * row, then the name of the error, if there is one, and at last `closed`.
 */
import { createOffsetReader } from '../../src/kafka/offset-reader.ts'
import { createRangeReader } from '../../src/kafka/range-reader.ts'

interface Task {
  kafka: Record<string, string>
  topic: string
  until: number
}

const { kafka, topic, until }: Task = JSON.parse(process.argv[2] ?? '')
const options = { kafka, clientId: 'read-and-end', failOnDataLoss: true, pollTimeoutMs: 60_000 }
const { signal } = new AbortController()
const ranges = createRangeReader(options)
const offsets = createOffsetReader({
  ...options,
  strategy: { kind: 'subscribe', topics: [topic] },
  isolationLevel: 'read_uncommitted',
  fetchOffsetNumRetries: 2,
  fetchOffsetRetryIntervalMs: 10,
})
try {
  const { partitions } = await offsets.assigned(signal)
  await offsets.latest(partitions, signal)
  const range = { topic, partition: 0, from: 0n, until: BigInt(until) }
  for await (const batch of ranges.read(range, 'read_uncommitted', signal))
    for (let i = 0; i < batch.length; i++) console.log(`row ${batch.offset(i)}`)
} catch (e) {
  console.log(e instanceof Error ? e.name : 'not an error')
} finally {
  await Promise.all([offsets.close(), ranges.close()])
  console.log('closed')
}
