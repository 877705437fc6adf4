/** On a broker of its own, that creates topics by itself, checks ACLs and certificates, and is stopped in between. */
import { mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AclOperationTypes, AclPermissionTypes, AclResourceTypes, Kafka, logLevel, ResourcePatternTypes } from 'kafkajs'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { createOffsetReader } from '../../src/kafka/offset-reader.ts'
import type { OffsetReader } from '../../src/ports.ts'
import { brokerUser, startBroker, type Broker } from '../support/broker.ts'
import { makeClientCertificate, type ClientCertificate } from '../support/client-certificate.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { numbered, openQuery } from '../support/query-run.ts'
import { rangeReaderFor, readRows, textsOf } from '../support/range-rows.ts'
import { openTopics, uniqueTopic, waitUntil, type Topics } from '../support/topics.ts'

let broker: Broker
let topics: Topics
let client: ClientCertificate
let home: string
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'sluice-guarded-'))
  client = await makeClientCertificate('client', 'key-secret')
  await writeFile(join(home, 'clients.pem'), client.certificate)
  broker = await startBroker({
    autoCreateTopics: true,
    properties: {
      'listener.name.sasl_ssl.ssl.client.auth': 'required',
      'listener.name.sasl_ssl.ssl.truststore.type': 'PEM',
      'listener.name.sasl_ssl.ssl.truststore.location': join(home, 'clients.pem'),
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      'super.users': 'User:ANONYMOUS',
    },
  })
  topics = await openTopics(broker.bootstrap)
})
afterAll(async () => {
  await topics.close()
  await broker.stop()
  await rm(home, { recursive: true })
})

const { signal } = new AbortController()
const login = (): Record<string, string> => ({
  'bootstrap.servers': broker.saslPlaintext,
  'security.protocol': 'SASL_PLAINTEXT',
  'sasl.mechanism': 'PLAIN',
  'sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required username="${brokerUser.username}" password="${brokerUser.password}";`,
})

/** To the user of `login`. */
const grant = (topic: string, operation: AclOperationTypes): Promise<boolean> =>
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

test("a client's certificate is shown where the broker asks for one", async () => {
  const topic = await topics.create()
  const tls = {
    ...login(),
    'bootstrap.servers': broker.saslSsl,
    'security.protocol': 'SASL_SSL',
    'ssl.truststore.certificates': broker.caPem,
  }
  const own = {
    'ssl.keystore.certificate.chain': client.certificate,
    'ssl.keystore.key': client.encryptedKey,
    'ssl.key.password': 'key-secret',
  }
  const reader = offsetReader(topic, { ...tls, ...own })
  await grant(topic, AclOperationTypes.DESCRIBE)
  await waitUntil('the planner may look', async () => {
    const found = await reader.assigned(signal).catch(() => null)
    return found?.partitions.length === 1
  })
  const without = offsetReader(topic, tls)
  await expect(without.assigned(signal)).rejects.toMatchObject({
    name: 'KAFKA_UNREACHABLE',
    message: expect.stringMatching(/alert (bad certificate|certificate required)/),
  })
  await Promise.all([reader.close(), without.close()])
})

test('a query is refused on another cluster by its topic ids, though names and offsets fit', async () => {
  await using tables = openDeltaSession()
  await using here = await openTopics(inject('kafka').bootstrap)
  const topic = await here.create()
  await here.produce(topic, numbered(2))
  const options = { 'kafka.bootstrap.servers': inject('kafka').bootstrap, subscribe: topic }
  await using query = await openQuery({ options, tables })
  await query.run()
  await topics.createNamed(topic)
  await topics.produce(topic, numbered(5, { first: 100 }))
  const there = { 'kafka.bootstrap.servers': broker.bootstrap }
  await expect(query.run({ options: there })).rejects.toMatchObject({
    name: 'KAFKA_DATA_LOSS',
    message: expect.stringContaining('TOPIC_RECREATED'),
  })
  expect(query.batches()).toHaveLength(1)
  const [, next] = await query.run({ options: { ...there, failOnDataLoss: false } })
  expect(next).toMatchObject({
    ranges: ['0 [0, 5)'],
    rows: 5,
    commit: { dataLoss: [{ from: 2n, until: 0n, newEnd: 5n }] },
  })
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
  await grant(topic, AclOperationTypes.DESCRIBE)
  await waitUntil('the planner may look', async () => {
    const found = await reader.assigned(signal).catch(() => null)
    return found?.partitions.length === 1
  })
  expect((await reader.latest([{ topic, partition: 0 }], signal)).get(topic)?.get(0)).toBe(1n)
  await expect(readRows(ranges, { topic, from: 0, until: 1 })).rejects.toMatchObject(lacks('READ'))
  await grant(topic, AclOperationTypes.READ)
  await waitUntil('the worker may read', async () => {
    const read = await readRows(ranges, { topic, from: 0, until: 1 }).catch(() => null)
    return read?.rows.length === 1
  })
  await Promise.all([reader.close(), ranges.close()])
})

test('B60: describe and read on the topic are enough, for a pattern and with a group id too', async () => {
  await using tables = openDeltaSession()
  const topic = await topics.create({ prefix: 'seen' })
  const secret = await topics.create({ prefix: 'seen-secret' })
  await topics.produce(topic, numbered(3))
  await topics.produce(secret, numbered(1))
  for (const right of [AclOperationTypes.DESCRIBE, AclOperationTypes.READ]) await grant(topic, right)
  const settings = Object.fromEntries(Object.entries(login()).map(([name, value]) => [`kafka.${name}`, value]))
  const ranges = rangeReaderFor(broker.saslPlaintext, {}, login())
  await waitUntil('the rights have arrived', async () => {
    const read = await readRows(ranges, { topic, from: 0, until: 1 }).catch(() => null)
    return read?.rows.length === 1
  })
  for (const options of [
    { subscribe: topic },
    { subscribePattern: '^seen' },
    { subscribe: topic, 'kafka.group.id': 'g' },
  ]) {
    await using query = await openQuery({ options: { ...settings, ...options, maxOffsetsPerTrigger: 2 }, tables })
    const [first, second] = await query.run()
    expect([first?.ranges, second?.ranges]).toEqual([['0 [0, 2)'], ['0 [2, 3)']])
    expect(first?.commit?.progress.sources[0]?.metrics).toMatchObject({ maxOffsetsBehindLatest: '1' })
    expect(first?.commit?.progress.sluice.offsetsBehindLatestAtCommit).toBe(1n)
  }
  await using denied = await openQuery({ options: { ...settings, subscribe: secret }, tables })
  await expect(denied.run()).rejects.toMatchObject({
    name: 'KAFKA_AUTHORIZATION_FAILED',
    parameters: { resource: `topic ${secret}`, right: 'DESCRIBE' },
  })
  await ranges.close()
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
