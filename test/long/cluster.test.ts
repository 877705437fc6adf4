import { afterAll, beforeAll, expect, test } from 'vitest'
import { startBroker, type Broker } from '../support/broker.ts'
import { positionsOf, readTopic } from '../support/kafka-reader.ts'
import { openTopics, waitUntil, type Topics } from '../support/topics.ts'

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

const leaderOf = async (topic: string): Promise<number | undefined> => {
  const metadata = await topics.admin.fetchTopicMetadata({ topics: [topic] })
  return metadata.topics[0]?.partitions[0]?.leader
}

test('three nodes keep a topic readable when its leader is killed, and take the leader back', async () => {
  const topic = await topics.create({ replicationFactor: 3 })
  await topics.produce(topic, [{ value: 'before' }])
  const old = await leaderOf(topic)
  const node = broker.nodes.find(({ id }) => id === old)
  await node?.kill()
  await waitUntil('another node leads', async () => {
    const leader = await leaderOf(topic).catch(() => old)
    return leader !== undefined && leader > 0 && leader !== old
  })
  await topics.produce(topic, [{ value: 'after' }])
  expect(positionsOf(await readTopic(broker.bootstrap, topic))).toEqual(new Set(['0:0', '0:1']))
  await node?.start()
  await broker.ready()
  const { brokers } = await topics.admin.describeCluster()
  expect(new Set(brokers.map(({ nodeId }) => nodeId))).toEqual(new Set([1, 2, 3]))
})
