/** Three nodes: the leader of the partition dies in the middle of the range. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createOffsetReader } from '../../src/kafka/offset-reader.ts'
import type { PartitionOffsets } from '../../src/offsets.ts'
import { startBroker, type Broker } from '../support/broker.ts'
import { readTopic } from '../support/kafka-reader.ts'
import { startProducerTool } from '../support/producer.ts'
import { offsetsOf, rangeReaderFor, readRows } from '../support/range-rows.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const COUNT = 20_000
let broker: Broker
let topics: Topics
beforeAll(async () => {
  broker = await startBroker({ nodes: 3 })
  topics = await openTopics(broker.bootstrap)
})
afterAll(async () => {
  await topics.close()
  await broker.stop()
})

test('each record of the range comes once and in order, and offsets can be asked for meanwhile', async () => {
  const topic = await topics.create({ replicationFactor: 3 })
  const tool = startProducerTool(broker.bootstrap)
  const producer = await tool.open()
  await producer.fill(topic, { count: COUNT, valueSize: 100 })
  await producer.close()
  await tool.stop()
  const expected = offsetsOf(await readTopic(broker.bootstrap, topic))
  const { topics: described } = await topics.admin.fetchTopicMetadata({ topics: [topic] })
  const leader = broker.nodes.find((node) => node.id === described[0]?.partitions[0]?.leader)
  if (leader === undefined) throw new Error('the partition has no leader')
  const offsets = createOffsetReader({
    kafka: { 'bootstrap.servers': broker.bootstrap },
    clientId: 'sluice-test',
    strategy: { kind: 'subscribe', topics: [topic] },
    isolationLevel: 'read_committed',
    fetchOffsetNumRetries: 3,
    fetchOffsetRetryIntervalMs: 1000,
  })
  const { signal } = new AbortController()
  await offsets.latest([{ topic, partition: 0 }], signal)
  const reader = rangeReaderFor(broker.bootstrap, {}, { 'max.partition.fetch.bytes': '20000' })
  const latest: Promise<PartitionOffsets>[] = []
  const onRow = async ({ offset }: { offset: bigint }): Promise<void> => {
    if (offset !== BigInt(COUNT) / 2n) return
    await leader.kill()
    latest.push(offsets.latest([{ topic, partition: 0 }], signal))
  }
  const { rows, end } = await readRows(reader, { topic, from: 0, until: COUNT }, { onRow })
  expect(offsetsOf(rows)).toEqual(expected)
  expect(rows.every(({ key, offset }) => key?.readBigInt64BE() === offset)).toBe(true)
  expect(end).toEqual({ highWatermark: BigInt(COUNT), dataLoss: [] })
  expect(await Promise.all(latest)).toEqual([new Map([[topic, new Map([[0, BigInt(COUNT)]])]])])
  await Promise.all([reader.close(), offsets.close()])
})

test('a topic that is deleted in the middle of the read is a loss of the rest', async () => {
  const { bootstrap } = inject('kafka')
  const shared = await openTopics(bootstrap)
  const topic = await shared.create()
  for (let i = 0; i < 10; i++) await shared.produce(topic, [{ value: `${i}` }])
  const read = async (failOnDataLoss: boolean, onFirst: () => Promise<void>) => {
    const reader = rangeReaderFor(bootstrap, { failOnDataLoss }, { 'max.partition.fetch.bytes': '1' })
    try {
      const onRow = ({ offset }: { offset: bigint }) => (offset === 0n ? onFirst() : undefined)
      return await readRows(reader, { topic, from: 0, until: 10 }, { onRow })
    } finally {
      await reader.close()
    }
  }
  // Both stand at offset 1 when the topic goes.
  const both = Promise.withResolvers<void>()
  let waiting = 0
  const onFirst = async (): Promise<void> => {
    waiting += 1
    if (waiting === 2) shared.delete(topic).then(both.resolve, both.reject)
    await both.promise
  }
  const [tolerated, failed] = await Promise.allSettled([read(false, onFirst), read(true, onFirst)])
  // What was fetched ahead before the topic went is delivered; the loss begins where the rows end.
  const rows = tolerated.status === 'fulfilled' ? tolerated.value.rows.length : 0
  const finding = { topic, partition: 0, reason: 'COULD_NOT_READ_OFFSET_RANGE', from: BigInt(rows), until: 10n }
  expect(tolerated).toMatchObject({ status: 'fulfilled', value: { end: { dataLoss: [finding] } } })
  expect([1, 2]).toContain(rows)
  expect(failed).toMatchObject({ status: 'rejected', reason: { name: 'KAFKA_DATA_LOSS' } })
  await shared.close()
})
