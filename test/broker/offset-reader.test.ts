import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { once } from 'node:events'
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import type { ConsumerStrategy } from '../../src/consumer-strategy.ts'
import { createOffsetReader, type OffsetReaderOptions } from '../../src/kafka/offset-reader.ts'
import { entriesOf } from '../../src/offsets.ts'
import type { OffsetReader } from '../../src/ports.ts'
import { brokerUser } from '../support/broker.ts'
import { freePort } from '../support/ports.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { ownListener, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, uniqueTopic, waitUntil, type Topics } from '../support/topics.ts'

const { bootstrap, saslPlaintext, saslSsl, caPem, proxied } = inject('kafka')
const METADATA = 3

let topics: Topics
let tool: ProducerTool
let proxy: TcpProxy
const readers: OffsetReader[] = []
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  topics = await openTopics(bootstrap)
  proxy = await startTcpProxy(ownListener(proxied))
})
afterEach(async () => {
  proxy.setRule(undefined)
  await Promise.all(readers.splice(0).map((reader) => reader.close()))
})
afterAll(async () => {
  await topics.close()
  await tool.stop()
  await proxy.close()
})

const { signal } = new AbortController()

function readerOf(
  strategy: ConsumerStrategy,
  options: Partial<Omit<OffsetReaderOptions, 'kafka'>> = {},
  kafka: Readonly<Record<string, string>> = {}
): OffsetReader {
  const reader = createOffsetReader({
    clientId: 'sluice-test',
    isolationLevel: 'read_uncommitted',
    fetchOffsetNumRetries: 3,
    fetchOffsetRetryIntervalMs: 10,
    ...options,
    strategy,
    kafka: { 'bootstrap.servers': bootstrap, ...kafka },
  })
  readers.push(reader)
  return reader
}

const subscribe = (...names: string[]): ConsumerStrategy => ({ kind: 'subscribe', topics: names })

describe('the assigned partitions', () => {
  test('subscribe gives all partitions of the named topics and no third topic, K171', async () => {
    const [a, b] = [await topics.create({ partitions: 2 }), await topics.create({ partitions: 3 })]
    await topics.create()
    const { partitions, topicIds } = await readerOf(subscribe(b, a)).assigned(signal)
    const expected = [a, b].toSorted().flatMap((topic) => [0, 1, 2].map((partition) => ({ topic, partition })))
    expect(partitions).toEqual(expected.filter(({ topic, partition }) => topic === b || partition < 2))
    expect([...topicIds.keys()].toSorted()).toEqual([a, b].toSorted())
    expect([...topicIds.values()].every((id) => /^[\w-]{22}$/.test(id))).toBe(true)
  })

  test('assign leaves out listed partitions that do not exist, K170', async () => {
    const topic = await topics.create({ partitions: 2 })
    const partitions = [7, 1].map((partition) => ({ topic, partition }))
    const found = await readerOf({ kind: 'assign', partitions }).assigned(signal)
    expect(found.partitions).toEqual([{ topic, partition: 1 }])
  })

  test('internal topics are left out even when they are named', async () => {
    const topic = await topics.create()
    const producer = await tool.open({ 'transactional.id': topic }) // makes __transaction_state exist
    await producer.begin()
    await producer.send(topic, [{ value: 'x' }])
    await producer.commit()
    await producer.close()
    const found = await readerOf(subscribe(topic, '__transaction_state')).assigned(signal)
    expect(found.partitions).toEqual([{ topic, partition: 0 }])
  })

  test('a topic id changes when the topic is created again, and is absent while there is none', async () => {
    const topic = await topics.create()
    const reader = readerOf(subscribe(topic))
    const before = (await reader.topicIds([topic], signal)).get(topic)
    await topics.delete(topic)
    expect((await reader.topicIds([topic], signal)).size).toBe(0)
    await topics.createNamed(topic)
    const after = (await reader.topicIds([topic], signal)).get(topic)
    expect(after).toMatch(/^[\w-]{22}$/)
    expect(after).not.toBe(before)
  })

  test('X12: a missing topic is named after fetchOffset.numRetries attempts', async () => {
    const [there, missing] = [await topics.create(), uniqueTopic('missing')]
    let asked = 0
    proxy.setRule(({ apiKey }) => {
      if (apiKey === METADATA) asked += 1
      return 'pass'
    })
    const kafka = { 'bootstrap.servers': proxy.bootstrap }
    const reader = readerOf(subscribe(there, missing), { fetchOffsetNumRetries: 4 }, kafka)
    await expect(reader.assigned(signal)).rejects.toMatchObject({
      name: 'TOPIC_NOT_FOUND',
      parameters: { topics: missing },
    })
    expect(asked).toBe(4)
  })

  test('a topic that appears between two attempts is found', async () => {
    const topic = uniqueTopic()
    const reader = readerOf(subscribe(topic), { fetchOffsetNumRetries: 1000 })
    const found = reader.assigned(signal)
    await topics.createNamed(topic)
    expect((await found).partitions).toEqual([{ topic, partition: 0 }])
  })

  test('a name that no topic can have is a topic not found', async () => {
    await expect(readerOf(subscribe('not/a topic')).assigned(signal)).rejects.toMatchObject({
      name: 'TOPIC_NOT_FOUND',
      parameters: { topics: 'not/a topic' },
    })
  })
})

describe('the offsets', () => {
  const all = (topic: string, count: number) => Array.from({ length: count }, (_, partition) => ({ topic, partition }))

  test('latest is the high watermark, and the last stable offset under read_committed, B18', async () => {
    const topic = await topics.create()
    await topics.produce(topic, [{ value: '0' }, { value: '1' }, { value: '2' }])
    const producer = await tool.open({ 'transactional.id': topic })
    await producer.begin()
    await producer.send(topic, [{ value: '3' }, { value: '4' }])
    const latest = async (isolationLevel: 'read_committed' | 'read_uncommitted') =>
      (await readerOf(subscribe(topic), { isolationLevel }).latest(all(topic, 1), signal)).get(topic)?.get(0)
    expect(await latest('read_uncommitted')).toBe(5n)
    expect(await latest('read_committed')).toBe(3n)
    await producer.commit()
    await waitUntil('the commit marker is there', async () => (await latest('read_committed')) === 6n)
    expect(await latest('read_uncommitted')).toBe(6n)
    await producer.close()
  })

  test('earliest is the log start of each partition', async () => {
    const topic = await topics.create({ partitions: 2 })
    await topics.produce(
      topic,
      Array.from({ length: 6 }, (_, i) => ({ partition: i % 2, value: 'x' }))
    )
    await tool.deleteRecords(topic, { 1: 2 })
    const reader = readerOf(subscribe(topic))
    expect(entriesOf(await reader.earliest(all(topic, 2), signal)).map((e) => e.offset)).toEqual([0n, 2n])
    expect(entriesOf(await reader.latest(all(topic, 2), signal)).map((e) => e.offset)).toEqual([3n, 3n])
  })

  test('a partition that vanished is absent, the others are there', async () => {
    const topic = await topics.create()
    const found = await readerOf(subscribe(topic)).latest([...all(topic, 2), ...all(uniqueTopic(), 1)], signal)
    expect(entriesOf(found)).toEqual([{ topic, partition: 0, offset: 0n }])
  })

  test('of 300 partitions right after their creation are all there', async () => {
    const topic = await topics.create({ partitions: 300 })
    const reader = readerOf(subscribe(topic))
    const { partitions } = await reader.assigned(signal)
    expect(entriesOf(await reader.latest(partitions, signal))).toHaveLength(300)
  })
})

describe('connections', () => {
  const login = (mechanism: string, password: string = brokerUser.password): Record<string, string> => ({
    'sasl.mechanism': mechanism,
    'sasl.jaas.config': `org.apache.kafka.common.security.${mechanism === 'PLAIN' ? 'plain.Plain' : 'scram.Scram'}LoginModule required username="${brokerUser.username}" password="${password}";`,
  })
  const plaintext = { 'bootstrap.servers': saslPlaintext, 'security.protocol': 'SASL_PLAINTEXT' }
  const ssl = { 'bootstrap.servers': saslSsl, 'security.protocol': 'SASL_SSL' }
  let topic: string
  beforeAll(async () => {
    topic = await topics.create()
  })

  for (const mechanism of ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512']) {
    test(`log in by ${mechanism}, with and without TLS`, async () => {
      const overTls = { ...ssl, ...login(mechanism), 'ssl.truststore.certificates': caPem }
      for (const kafka of [{ ...plaintext, ...login(mechanism) }, overTls])
        expect((await readerOf(subscribe(topic), {}, kafka).assigned(signal)).partitions).toHaveLength(1)
    })

    test(`a wrong password by ${mechanism} is refused at once and appears nowhere`, async () => {
      const password = 'p@ss-that-is-wrong'
      const error: unknown = await readerOf(subscribe(topic), {}, { ...plaintext, ...login(mechanism, password) })
        .assigned(signal)
        .catch((e: unknown) => e)
      expect(error).toMatchObject({
        name: 'KAFKA_AUTHENTICATION_FAILED',
        retryable: false,
        parameters: { brokers: saslPlaintext, mechanism },
      })
      expect(inspect(error, { depth: 10 })).not.toContain(password)
    })
  }

  test('certificates are checked, host names unless the algorithm is empty', async () => {
    const kafka = { ...ssl, ...login('PLAIN') }
    const ask = (extra: Record<string, string>) =>
      readerOf(subscribe(topic), { fetchOffsetNumRetries: 1 }, { ...kafka, ...extra }).assigned(signal)
    await expect(ask({})).rejects.toMatchObject({
      name: 'KAFKA_UNREACHABLE',
      parameters: { reason: expect.stringContaining('self-signed certificate') },
    })
    // The relay's address is this machine too, and not in the certificate.
    const relay = await tcpServer('127.0.0.2', (socket) => {
      const onwards = connect(Number(saslSsl.split(':')[1]), '127.0.0.1')
      for (const end of [socket, onwards]) end.on('error', () => {})
      socket.pipe(onwards).pipe(socket)
    })
    const trusted = {
      'bootstrap.servers': addressOf(relay),
      'ssl.truststore.certificates': caPem.replaceAll('\n', ' '), // line breaks get lost in configuration files
    }
    await expect(ask(trusted)).rejects.toMatchObject({
      name: 'KAFKA_UNREACHABLE',
      parameters: { reason: expect.stringContaining('altnames') },
    })
    const unchecked = await ask({ ...trusted, 'ssl.endpoint.identification.algorithm': '' })
    expect(unchecked.partitions).toHaveLength(1)
    relay.close()
  })

  test('a mute first address ends in its time-out and the next one is asked, B33', async () => {
    const mute = await muteServer()
    const kafka = {
      'bootstrap.servers': `${addressOf(mute)},${bootstrap}`,
      'socket.connection.setup.timeout.ms': '300',
    }
    const found = await readerOf(subscribe(topic), { fetchOffsetNumRetries: 1 }, kafka).assigned(signal)
    expect(found.partitions).toEqual([{ topic, partition: 0 }])
    mute.close()
  })

  test('when no address answers, all of them are named', async () => {
    const [mute, closed] = [await muteServer(), `127.0.0.1:${await freePort()}`]
    const list = `${addressOf(mute)},${closed}`
    const kafka = { 'bootstrap.servers': list, 'socket.connection.setup.timeout.ms': '200' }
    const asking = readerOf(subscribe(topic), { fetchOffsetNumRetries: 2 }, kafka).assigned(signal)
    await expect(asking).rejects.toMatchObject({
      name: 'KAFKA_UNREACHABLE',
      retryable: true,
      parameters: { brokers: list, reason: expect.stringMatching(/within 200 ms.*ECONNREFUSED/) },
    })
    mute.close()
  })

  test('an answer that never comes ends in request.timeout.ms', async () => {
    proxy.setRule(({ apiKey }) => (apiKey === METADATA ? 'mute' : 'pass'))
    const kafka = { 'bootstrap.servers': proxy.bootstrap, 'request.timeout.ms': '200' }
    const asking = readerOf(subscribe(topic), { fetchOffsetNumRetries: 1 }, kafka).assigned(signal)
    await expect(asking).rejects.toMatchObject({
      name: 'KAFKA_UNREACHABLE',
      parameters: { reason: expect.stringContaining('timed out') },
    })
  })

  test('an abort ends a question that is under way, P20', async () => {
    const asked = Promise.withResolvers<void>()
    proxy.setRule(({ apiKey }) => {
      if (apiKey !== METADATA) return 'pass'
      asked.resolve()
      return 'mute'
    })
    const abort = new AbortController()
    const asking = readerOf(subscribe(topic), {}, { 'bootstrap.servers': proxy.bootstrap }).assigned(abort.signal)
    await asked.promise
    abort.abort()
    await expect(asking).rejects.toMatchObject({ name: 'ABORTED' })
    await expect(readerOf(subscribe(topic)).assigned(abort.signal)).rejects.toMatchObject({ name: 'ABORTED' })
  })

  test('a reader can be used again after close', async () => {
    const reader = readerOf(subscribe(topic))
    await reader.assigned(signal)
    await reader.close()
    expect((await reader.assigned(signal)).partitions).toHaveLength(1)
  })
})

async function tcpServer(host: string, onConnection: (socket: Socket) => void): Promise<Server> {
  const server = createServer(onConnection)
  server.listen(0, host)
  await once(server, 'listening')
  return server
}

const muteServer = (): Promise<Server> => tcpServer('127.0.0.1', (socket) => socket.on('error', () => {}))

function addressOf(server: Server): string {
  const { address, port } = server.address() as AddressInfo // it listens on TCP
  return `${address}:${port}`
}
