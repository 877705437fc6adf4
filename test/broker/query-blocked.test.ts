/** What open transactions hold back, on a real broker: planned around, told with each batch, gone with the transaction. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { openDeltaSession } from '../support/delta-session.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { numbered, openQuery } from '../support/query-run.ts'
import { openTopics, waitUntil, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const tables = openDeltaSession()
let topics: Topics
let tool: ProducerTool
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  topics = await openTopics(bootstrap)
})
afterAll(async () => {
  await topics.close()
  await tool.stop()
  await tables.close()
})

test('each batch tells the offsets behind the oldest open transaction, and since when it stands there', async () => {
  const topic = await topics.create({ partitions: 2 })
  const producer = await tool.open({ 'transactional.id': topic })
  await topics.produce(topic, numbered(2))
  await producer.begin()
  await producer.send(topic, [{ partition: 0, value: 'open' }])
  const options = { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, 'kafka.isolation.level': 'read_committed' }
  await using query = await openQuery({ options, tables })
  const blockedIn = async () => (await query.run()).at(-1)?.commit?.progress.sluice.blocked

  const [first] = (await blockedIn()) ?? []
  expect(first).toMatchObject({ topic, partition: 0, lastStableOffset: 2n, offsets: 1n })
  await topics.produce(topic, numbered(3)) // plain records, behind the open one
  await topics.produce(topic, numbered(1, { partition: 1 }))
  expect(await blockedIn()).toEqual([{ ...first, offsets: 4n }])
  expect(query.batches().map(({ ranges }) => ranges)).toEqual([['0 [0, 2)'], ['1 [0, 1)']])

  expect(await query.run()).toHaveLength(2) // nothing but what waits
  expect(query.events().at(-1)).toEqual({ kind: 'blocked', partitions: [{ ...first, offsets: 4n }] })

  await producer.abort()
  await producer.close()
  await waitUntil('the marker is there', async () => {
    const offsets = await topics.admin.fetchTopicOffsets(topic) // its end is the last stable offset
    return offsets.some(({ partition, high }) => partition === 0 && high === '7')
  })
  expect(await blockedIn()).toEqual([])
  expect(query.batches().at(-1)).toMatchObject({ ranges: ['0 [2, 7)'], rows: 3 })
})
