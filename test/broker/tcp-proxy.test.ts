import { Kafka, logLevel } from 'kafkajs'
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { readTopicByKcat, readTopicByJava, hasKcat, type KafkaRecord } from '../support/kafka-reader.ts'
import { damaged, ownListener, startTcpProxy, type Exchange, type TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap, proxied } = inject('kafka')
const fetchKey = 1
const metadataKey = 3

let proxy: TcpProxy
let topics: Topics
let topic: string
beforeAll(async () => {
  proxy = await startTcpProxy(ownListener(proxied))
  topics = await openTopics(bootstrap)
  topic = await topics.create()
  await topics.produce(topic, [{ key: 'k', value: 'a value that is long enough' }])
})
afterEach(() => proxy.setRule(undefined))
afterAll(async () => {
  await topics.close()
  await proxy.close()
})

const read = async (): Promise<readonly KafkaRecord[]> =>
  (await hasKcat()) ? readTopicByKcat(proxy.bootstrap, topic) : readTopicByJava(proxy.bootstrap, topic)

const listTopics = async (): Promise<string[]> => {
  const retry = { retries: 0 }
  const admin = new Kafka({
    brokers: [proxy.bootstrap],
    logLevel: logLevel.NOTHING,
    retry,
    requestTimeout: 1000,
  }).admin()
  await admin.connect()
  return admin.listTopics().finally(() => admin.disconnect())
}

test('a client that starts from the proxy stays behind it', async () => {
  const seen: Exchange[] = []
  proxy.setRule((exchange) => {
    seen.push(exchange)
    return 'pass'
  })
  expect((await read()).map((record) => String(record.value))).toEqual(['a value that is long enough'])
  expect(new Set(seen.map((exchange) => exchange.apiKey))).toContain(fetchKey)
})

test('an answer can come late', async () => {
  const asked = Promise.withResolvers<'not answered yet'>()
  const late = Promise.withResolvers<'pass'>()
  proxy.setRule(({ apiKey }) => {
    if (apiKey !== metadataKey) return 'pass'
    asked.resolve('not answered yet')
    return late.promise
  })
  const names = listTopics()
  expect(await Promise.race([names, asked.promise])).toBe('not answered yet')
  late.resolve('pass')
  expect(await names).toContain(topic)
})

test('an answer can be cut, and the connection with it', async () => {
  proxy.setRule(({ apiKey }) => (apiKey === metadataKey ? { cutAfterBytes: 20 } : 'pass'))
  await expect(listTopics()).rejects.toThrow('Closed connection')
})

test('an answer can stay out', async () => {
  proxy.setRule(() => 'mute')
  await expect(listTopics()).rejects.toThrow('imed out')
})

test('a byte can be damaged on the way, and a client that checks sums sees it', async () => {
  proxy.setRule(({ apiKey, frame }) =>
    apiKey === fetchKey && frame.includes('a value that') ? damaged(frame, 'a value that') : 'pass'
  )
  await expect(read()).rejects.toThrow(/CRC|corrupt/i)
})
