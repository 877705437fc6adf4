/** On a broker of its own, that creates topics by itself, checks ACLs and is stopped in between. */
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { AclOperationTypes, AclPermissionTypes, AclResourceTypes, Kafka, logLevel, ResourcePatternTypes } from 'kafkajs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createOffsetReader } from '../../src/kafka/offset-reader.ts'
import type { OffsetReader } from '../../src/ports.ts'
import { brokerUser, startBroker, type Broker } from '../support/broker.ts'
import { rangeReaderFor, readRows, textsOf } from '../support/range-rows.ts'
import { openTopics, uniqueTopic, waitUntil, type Topics } from '../support/topics.ts'

let broker: Broker
let topics: Topics
beforeAll(async () => {
  broker = await startBroker({
    autoCreateTopics: true,
    properties: {
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      'super.users': 'User:ANONYMOUS',
    },
  })
  topics = await openTopics(broker.bootstrap)
})
afterAll(async () => {
  await topics.close()
  await broker.stop()
})

const { signal } = new AbortController()
const login = (): Record<string, string> => ({
  'bootstrap.servers': broker.saslPlaintext,
  'security.protocol': 'SASL_PLAINTEXT',
  'sasl.mechanism': 'PLAIN',
  'sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required username="${brokerUser.username}" password="${brokerUser.password}";`,
})

const offsetReader = (topic: string, kafka: Record<string, string>): OffsetReader =>
  createOffsetReader({
    kafka,
    clientId: 'sluice-test',
    strategy: { kind: 'subscribe', topics: [topic] },
    isolationLevel: 'read_uncommitted',
    fetchOffsetNumRetries: 2,
    fetchOffsetRetryIntervalMs: 50,
  })

test('looking at a missing topic never creates it, where any other client would, B17', async () => {
  const [missing, created] = [uniqueTopic('missing'), uniqueTopic('created')]
  const reader = offsetReader(missing, { 'bootstrap.servers': broker.bootstrap })
  const ranges = rangeReaderFor(broker.bootstrap)
  await expect(reader.assigned(signal)).rejects.toMatchObject({
    name: 'TOPIC_NOT_FOUND',
    parameters: { topics: missing },
  })
  expect((await reader.topicIds([missing], signal)).size).toBe(0)
  const partition = { topic: missing, partition: 0 }
  expect((await reader.latest([partition], signal)).size).toBe(0)
  expect((await reader.earliest([partition], signal)).size).toBe(0)
  const reading = readRows(ranges, { topic: missing, from: 0, until: 1 }, { signal: AbortSignal.timeout(500) })
  await expect(reading).rejects.toMatchObject({ name: 'ABORTED' })
  await Promise.all([reader.close(), ranges.close()])
  const admin = new Kafka({ brokers: [broker.bootstrap], logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  const producer = new Kafka({ brokers: [broker.bootstrap], logLevel: logLevel.NOTHING }).producer()
  await producer.connect()
  await producer.send({ topic: created, messages: [{ value: 'x' }] })
  const listed = await admin.listTopics()
  await Promise.all([producer.disconnect(), admin.disconnect()])
  expect(listed).toContain(created)
  expect(listed).not.toContain(missing)
})

test('a missing right is named at once: DESCRIBE for the planner, READ for the worker', async () => {
  const topic = await topics.create()
  await topics.produce(topic, [{ value: 'x' }])
  const reader = offsetReader(topic, login())
  const ranges = rangeReaderFor(broker.saslPlaintext, {}, login())
  const lacks = (right: string) => ({
    name: 'KAFKA_AUTHORIZATION_FAILED',
    retryable: false,
    parameters: { resource: `topic ${topic}`, right },
  })
  await expect(reader.assigned(signal)).rejects.toMatchObject(lacks('DESCRIBE'))
  await expect(reader.latest([{ topic, partition: 0 }], signal)).rejects.toMatchObject(lacks('DESCRIBE'))
  await expect(readRows(ranges, { topic, from: 0, until: 1 })).rejects.toMatchObject(lacks('DESCRIBE'))
  const grant = (operation: AclOperationTypes): Promise<boolean> =>
    topics.admin.createAcls({
      acl: [
        {
          resourceType: AclResourceTypes.TOPIC,
          resourceName: topic,
          resourcePatternType: ResourcePatternTypes.LITERAL,
          principal: `User:${brokerUser.username}`,
          host: '*',
          operation,
          permissionType: AclPermissionTypes.ALLOW,
        },
      ],
    })
  await grant(AclOperationTypes.DESCRIBE)
  await waitUntil('the planner may look', async () => {
    const found = await reader.assigned(signal).catch(() => null)
    return found?.partitions.length === 1
  })
  expect((await reader.latest([{ topic, partition: 0 }], signal)).get(topic)?.get(0)).toBe(1n)
  await expect(readRows(ranges, { topic, from: 0, until: 1 })).rejects.toMatchObject(lacks('READ'))
  await grant(AclOperationTypes.READ)
  await waitUntil('the worker may read', async () => {
    const read = await readRows(ranges, { topic, from: 0, until: 1 }).catch(() => null)
    return read?.rows.length === 1
  })
  await Promise.all([reader.close(), ranges.close()])
})

test('a stored segment that is damaged fails the range at that batch, B29', async () => {
  const topic = await topics.create()
  for (const first of [0, 5])
    await topics.produce(
      topic,
      Array.from({ length: 5 }, (_, i) => ({ value: `record-${first + i}.` }))
    )
  const [node] = broker.nodes
  if (node === undefined) throw new Error('the broker has one node')
  await node.stop()
  await flipBit(join(node.dataDir, 'log', `${topic}-0`), 'record-7')
  await node.start()
  await broker.ready()
  const reader = rangeReaderFor(broker.bootstrap)
  const before: string[] = []
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    const onRow = (row: { value: Buffer | null }): void => void before.push(String(row.value))
    await expect(readRows(reader, { topic, from: 0, until: 10 }, { onRow })).rejects.toMatchObject({
      name: 'CORRUPT_RECORD_BATCH',
      parameters: { topic, partition: 0, offset: '5' },
    })
  }
  expect(before).toHaveLength(10) // the first batch, at each attempt
  expect(textsOf((await readRows(reader, { topic, from: 0, until: 5 })).rows)).toEqual(before.slice(0, 5))
  await reader.close()
})

async function flipBit(folder: string, after: string): Promise<void> {
  const name = (await readdir(folder)).find((file) => file.endsWith('.log'))
  const file = await open(join(folder, name ?? ''), 'r+')
  const bytes = await file.readFile()
  const at = bytes.indexOf(after) + after.length
  await file.write(Buffer.from([bytes.readUInt8(at) ^ 1]), 0, 1, at)
  await file.close()
}
