import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { hasKcat, positionsOf, readTopic, readTopicByJava, readTopicByKcat } from '../support/kafka-reader.ts'
import { startProducerTool, type ProducerTool, type RecordToSend } from '../support/producer.ts'
import { compactedQuickly, openTopics, waitUntil, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const binary = Buffer.from([0, 10, 13, 255, 0, 32])

let topics: Topics
let tool: ProducerTool
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  topics = await openTopics(bootstrap)
})
afterAll(async () => {
  await topics.close()
  await tool.stop()
})

const oddRecords: readonly RecordToSend[] = [
  { partition: 0, key: binary, value: binary, timestamp: 1_000_000_000_000 },
  { partition: 1, key: null, value: null, timestamp: 0 },
  { partition: 1, key: '', value: '', headers: [] },
  {
    partition: 1,
    key: 'k',
    value: 'v',
    headers: [
      ['a', binary],
      ['a', null],
      ['', ''],
    ],
  },
]

describe('the independent readers', () => {
  test('the Java consumer gives back keys, values, timestamps and headers as the Java producer sent them', async () => {
    const topic = await topics.create({ partitions: 2 })
    const producer = await tool.open()
    const sent = await producer.send(topic, oddRecords)
    expect(sent).toEqual([0n, 0n, 1n, 2n].map((offset, at) => ({ partition: at === 0 ? 0 : 1, offset })))
    const read = await readTopicByJava(bootstrap, topic)
    const bytes = (value: RecordToSend['key']): Buffer | null => (value == null ? null : Buffer.from(value))
    expect(read).toEqual(
      oddRecords.map((record, at) => ({
        topic,
        ...sent[at],
        timestamp: record.timestamp === undefined ? read[at]?.timestamp : BigInt(record.timestamp),
        timestampType: 0,
        key: bytes(record.key),
        value: bytes(record.value),
        headers: (record.headers ?? []).map(([name, value]) => [name, bytes(value)]),
      }))
    )
    await producer.close()
  })

  test('kcat gives back the same records as the Java consumer', async ({ skip }) => {
    if (!(await hasKcat())) skip('kcat is not installed')
    const topic = await topics.create({ partitions: 2 })
    const producer = await tool.open({ 'compression.type': 'zstd' })
    await producer.send(topic, oddRecords)
    const byJava = await readTopicByJava(bootstrap, topic)
    expect(await readTopicByKcat(bootstrap, topic)).toEqual(
      byJava.map(({ headers: _headers, timestampType: _type, ...record }) => record)
    )
    await producer.close()
  })

  test('an empty topic has no records', async () => {
    const topic = await topics.create()
    expect(await readTopic(bootstrap, topic)).toEqual([])
    expect(await readTopicByJava(bootstrap, topic, 'read_uncommitted')).toEqual([])
  })

  test('interleaved transactions: the aborted one is seen by read_uncommitted alone', async () => {
    const topic = await topics.create()
    const [one, two] = await Promise.all(
      ['one', 'two'].map((name) => tool.open({ 'transactional.id': `${topic}-${name}` }))
    )
    if (one === undefined || two === undefined) throw new Error('two producers were asked for')
    await one.begin()
    await two.begin()
    await one.send(topic, [{ key: 'kept' }])
    await two.send(topic, [{ key: 'dropped' }])
    await one.send(topic, [{ key: 'kept too' }])
    await two.abort()
    await one.commit()
    const keys = async (isolation: 'read_committed' | 'read_uncommitted'): Promise<string[]> =>
      (await readTopic(bootstrap, topic, isolation)).map((record) => String(record.key))
    expect(await keys('read_committed')).toEqual(['kept', 'kept too'])
    expect(await keys('read_uncommitted')).toEqual(['kept', 'dropped', 'kept too'])
    expect((await readTopicByJava(bootstrap, topic)).map((record) => String(record.key))).toEqual(['kept', 'kept too'])
  })
})

describe('the producers', () => {
  for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
    test(`fill writes numbered records in ${codec} batches`, async () => {
      const topic = await topics.create()
      const producer = await tool.open({ 'compression.type': codec, 'batch.size': 1_000_000, 'linger.ms': 1000 })
      expect(await producer.fill(topic, { count: 20_000, valueSize: 100 })).toEqual({ first: 0n, last: 19_999n })
      const records = await readTopic(bootstrap, topic)
      expect(records).toHaveLength(20_000)
      expect(records.every(({ key, value, offset }) => key?.readBigInt64BE() === offset && value?.length === 100)).toBe(
        true
      )
      await producer.close()
    })
  }

  test('kafkajs writes what the readers see', async () => {
    const topic = await topics.create({ partitions: 3 })
    await topics.produce(
      topic,
      [0, 1, 2, 2].map((partition) => ({ partition, key: 'k', value: 'v' }))
    )
    expect(positionsOf(await readTopic(bootstrap, topic))).toEqual(new Set(['0:0', '1:0', '2:0', '2:1']))
  })

  test('a refused call fails with the words of the Java client', async () => {
    const producer = await tool.open({ 'max.request.size': 1000 })
    const topic = await topics.create()
    await expect(producer.send(topic, [{ value: 'x'.repeat(2000) }])).rejects.toThrow('RecordTooLargeException')
  })
})

describe('the topics', () => {
  test('deleted records are gone and the offsets go on', async () => {
    const topic = await topics.create()
    await topics.produce(
      topic,
      ['a', 'b', 'c'].map((value) => ({ partition: 0, value }))
    )
    await tool.deleteRecords(topic, { 0: 2 })
    expect(positionsOf(await readTopic(bootstrap, topic))).toEqual(new Set(['0:2']))
  })

  test('a compacted topic loses superseded records within seconds', async () => {
    const topic = await topics.create({ config: compactedQuickly })
    const send = (value: string): Promise<void> => topics.produce(topic, [{ partition: 0, key: 'same', value }])
    await send('first')
    await waitUntil('the first record is compacted away', async () => {
      // Each new record can close the segment before it; the open one is never compacted.
      await send('later')
      return !positionsOf(await readTopic(bootstrap, topic)).has('0:0')
    })
    const left = await readTopic(bootstrap, topic)
    expect(left.at(-1)?.value?.toString()).toBe('later')
  })

  test('a topic that is deleted and created again starts at offset 0', async () => {
    const topic = await topics.create()
    await topics.produce(topic, [{ value: 'old' }, { value: 'old' }])
    await topics.delete(topic)
    await topics.createNamed(topic)
    await topics.produce(topic, [{ value: 'new' }])
    expect((await readTopic(bootstrap, topic)).map(({ offset, value }) => `${offset} ${String(value)}`)).toEqual([
      '0 new',
    ])
  })
})
