import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { RangeReader } from '../../src/ports.ts'
import { readTopic, readTopicByJava, readTopicByKcat } from '../support/kafka-reader.ts'
import { startProducerTool, type ProducerTool, type RecordToSend } from '../support/producer.ts'
import { offsetsOf, rangeReaderFor, readRows, textsOf } from '../support/range-rows.ts'
import { compactedQuickly, openTopics, waitUntil, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')

let topics: Topics
let tool: ProducerTool
let reader: RangeReader
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  topics = await openTopics(bootstrap)
  reader = rangeReaderFor(bootstrap)
})
afterAll(async () => {
  await reader.close()
  await topics.close()
  await tool.stop()
})

/** Records with a value of their own each, in one transaction per entry. */
async function transactions(topic: string, outcomes: readonly ('commit' | 'abort')[], sizes: readonly number[]) {
  const producer = await tool.open({ 'transactional.id': topic })
  for (const [index, outcome] of outcomes.entries()) {
    await producer.begin()
    const records = Array.from({ length: sizes[index] ?? 1 }, (_, i) => ({ value: `${index}/${i}` }))
    await producer.send(topic, records)
    await producer[outcome]()
  }
  await producer.close()
}

describe('the records of a range', () => {
  test('are those of the Java consumer, in every codec and field, B31 K26', async () => {
    const topic = await topics.create()
    const oddRecords: readonly RecordToSend[] = [
      { key: 'k', value: 'v', headers: [['a', '1'], ['b', '2'], ['a', '3'], ['10', 'x'], ['2', 'y']] }, // prettier-ignore
      { key: 'k', value: 'v', headers: [['n', null], ['e', '']] }, // prettier-ignore
      { key: 'k', value: null },
      { key: 'k', value: '' },
      { key: null, value: 'v' },
      { key: 'k', value: Buffer.from([0, 255]), timestamp: 1_790_899_200_123 },
      { key: null, value: null, timestamp: 0 },
    ]
    for (const codec of ['none', 'gzip', 'snappy', 'lz4', 'zstd']) {
      const producer = await tool.open({
        'compression.type': codec,
        'linger.ms': 100,
        'transactional.id': `${topic}${codec}`,
      })
      await producer.begin()
      await producer.send(topic, oddRecords)
      await producer.commit()
      await producer.close()
    }
    const { rows } = await readRows(reader, { topic, from: 0, until: 40 }, { isolation: 'read_committed' })
    expect(rows).toHaveLength(35)
    expect(rows).toEqual(await readTopicByJava(bootstrap, topic))
  })

  test('begin and end inside a compressed batch, each offset once, B24', async () => {
    const topic = await topics.create()
    const producer = await tool.open({ 'compression.type': 'gzip', 'linger.ms': 200 })
    await producer.send(
      topic,
      Array.from({ length: 10 }, (_, i) => ({ value: `v${i}` }))
    )
    await producer.close()
    const values = async (from: number, until: number): Promise<string[]> =>
      textsOf((await readRows(reader, { topic, from, until })).rows)
    expect(await Promise.all([values(0, 5), values(5, 10)])).toEqual([
      ['v0', 'v1', 'v2', 'v3', 'v4'],
      ['v5', 'v6', 'v7', 'v8', 'v9'],
    ])
    const byThrees = await Promise.all([values(0, 3), values(3, 6), values(6, 9), values(9, 10)])
    expect(byThrees.flat()).toEqual(Array.from({ length: 10 }, (_, i) => `v${i}`))
  })

  test('come out of batches of very many records as kcat sees them', async () => {
    const topic = await topics.create({ config: { 'max.message.bytes': '20000000' } })
    const config = {
      'compression.type': 'zstd',
      'batch.size': 16_000_000,
      'linger.ms': 3000,
      'max.request.size': 20_000_000,
    }
    const producer = await tool.open({ ...config, 'buffer.memory': 64_000_000 })
    await producer.fill(topic, { count: 300_000, valueSize: 8 })
    await producer.close()
    let largest = 0
    const reading = reader.read(
      { topic, partition: 0, from: 0n, until: 300_000n },
      'read_committed',
      new AbortController().signal
    )
    const positions = new Set<bigint>()
    for await (const batch of reading) {
      largest = Math.max(largest, batch.length)
      for (let i = 0; i < batch.length; i++) positions.add(batch.offset(i))
    }
    expect(largest).toBeGreaterThan(150_000)
    expect(positions).toEqual(new Set((await readTopic(bootstrap, topic)).map((record) => record.offset)))
  })

  test('stay apart when many ranges are read side by side, also of one partition', async () => {
    const topic = await topics.create({ partitions: 2 })
    const producer = await tool.open()
    for (const partition of [0, 1]) await producer.fill(topic, { partition, count: 3000, valueSize: 50 })
    await producer.close()
    const ranges = [0, 1].flatMap((partition) =>
      Array.from({ length: 10 }, (_, i) => ({ topic, partition, from: i * 300, until: (i + 1) * 300 }))
    )
    const read = await Promise.all(ranges.map((range) => readRows(reader, range)))
    expect(read.map(({ rows }) => rows.length)).toEqual(ranges.map(() => 300))
    const all = read.flatMap(({ rows }) => rows)
    expect(all.every(({ key, offset }) => key?.readBigInt64BE() === offset)).toBe(true)
    expect(new Set(all.map((row) => `${row.partition}:${row.offset}`)).size).toBe(6000)
  })

  test('are complete for a record larger than the fetch size, B32', async () => {
    const topic = await topics.create()
    const large = 'x'.repeat(900_000)
    for (const value of ['small', large, 'small too']) await topics.produce(topic, [{ value }])
    const small = rangeReaderFor(bootstrap, {}, { 'max.partition.fetch.bytes': '1024' })
    const { rows } = await readRows(small, { topic, from: 0, until: 3 })
    await small.close()
    expect(textsOf(rows)).toEqual(['small', large, 'small too'])
  })

  test('an empty range needs no broker', async () => {
    const unreachable = rangeReaderFor('127.0.0.1:1')
    expect(await readRows(unreachable, { topic: 't', from: 7, until: 7 })).toEqual({
      rows: [],
      end: { highWatermark: null, dataLoss: [] },
    })
  })
})

describe('offsets without records', () => {
  test('end a range by offset, not by the last row, B05', async () => {
    const topic = await topics.create()
    await transactions(topic, ['commit', 'abort'], [3, 2])
    const read = async (from: number, until: number) =>
      readRows(reader, { topic, from, until }, { isolation: 'read_committed' })
    expect(offsetsOf((await read(0, 4)).rows)).toEqual([0, 1, 2])
    expect(await read(4, 7)).toEqual({ rows: [], end: { highWatermark: 7n, dataLoss: [] } })
    expect(offsetsOf((await read(2, 7)).rows)).toEqual([2])
  })

  test('are no data loss while the log start is before them, B19', async () => {
    const topic = await topics.create()
    await transactions(topic, ['commit', 'commit', 'commit', 'commit'], [1, 1, 1, 1])
    for (const isolation of ['read_uncommitted', 'read_committed'] as const) {
      const { rows, end } = await readRows(reader, { topic, from: 0, until: 8 }, { isolation })
      expect(offsetsOf(rows)).toEqual([0, 2, 4, 6])
      expect(end.dataLoss).toEqual([])
    }
    await tool.deleteRecords(topic, { 0: 3 })
    await expect(readRows(reader, { topic, from: 0, until: 8 })).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
  })

  test('that compaction left behind are passed over, B22', async () => {
    const topic = await topics.create({ config: compactedQuickly })
    const producer = await tool.open({ 'compression.type': 'gzip', 'linger.ms': 50 })
    const round = (n: number): RecordToSend[] => Array.from({ length: 10 }, (_, i) => ({ key: `k${i}`, value: `${n}` }))
    for (let n = 0; n < 20; n++) await producer.send(topic, round(n))
    let newest = 200
    await waitUntil('most records are compacted away', async () => {
      await producer.send(topic, [{ key: 'roll', value: String(newest++) }])
      return (await readTopic(bootstrap, topic)).length < 60
    })
    await producer.close()
    // Compaction goes on meanwhile: what is read lies between what the Java consumer sees before and after.
    const before = await readTopicByJava(bootstrap, topic)
    const { rows, end } = await readRows(reader, { topic, from: 0, until: newest })
    const middle = await readRows(reader, { topic, from: 95, until: newest })
    const after = await readTopicByJava(bootstrap, topic)
    const seen = new Set(offsetsOf(before))
    expect(offsetsOf(rows).every((offset) => seen.has(offset))).toBe(true)
    expect(offsetsOf(rows)).toEqual(expect.arrayContaining(offsetsOf(after)))
    expect(offsetsOf(middle.rows).every((offset) => offset >= 95 && seen.has(offset))).toBe(true)
    expect([...end.dataLoss, ...middle.end.dataLoss]).toEqual([])
  })
})

describe('transactions', () => {
  test('interleaved ones: no aborted record, markers known by the control flag alone, B20', async () => {
    const topic = await topics.create()
    const [a, b] = await Promise.all(['a', 'b'].map((name) => tool.open({ 'transactional.id': `${topic}-${name}` })))
    const plain = await tool.open()
    if (a === undefined || b === undefined) throw new Error('two producers were asked for')
    const zeroKey = Buffer.alloc(4)
    await a.begin()
    await b.begin()
    await a.send(topic, [{ value: 'a0' }, { value: 'a1' }])
    await b.send(topic, [{ value: 'b2' }])
    await b.abort()
    await a.send(topic, [{ value: 'a4' }])
    await a.abort()
    await plain.send(topic, [{ value: 'plain6' }])
    const read = async (isolation: 'read_committed' | 'read_uncommitted', until: number) =>
      (await readRows(reader, { topic, from: 0, until }, { isolation })).rows
    // By value: the brokers write an abort's marker after they answered, so a marker may stand behind a later record.
    expect(textsOf(await read('read_committed', 7))).toEqual(['plain6'])
    expect(textsOf(await read('read_uncommitted', 7))).toEqual(['a0', 'a1', 'b2', 'a4', 'plain6'])
    await a.begin()
    await a.send(topic, [
      { key: zeroKey, value: 'aborted7' },
      { key: zeroKey, value: 'aborted8' },
    ])
    await a.abort()
    await plain.send(topic, [{ value: 'plain10' }])
    await b.begin()
    await b.send(topic, [{ key: zeroKey, value: 'kept11' }])
    await b.commit()
    const committed = await read('read_committed', 13)
    expect(textsOf(committed)).toEqual(['plain6', 'plain10', 'kept11'])
    expect(offsetsOf(committed)).toEqual(offsetsOf(await readTopicByKcat(bootstrap, topic)))
    await Promise.all([a, b, plain].map((producer) => producer.close()))
  })

  test('an aborted transaction that several fetches cut into pieces stays invisible, B20', async () => {
    const topic = await topics.create()
    const producer = await tool.open({ 'transactional.id': topic })
    await producer.begin()
    for (let i = 0; i < 5; i++) await producer.send(topic, [{ value: 'y'.repeat(3000) }])
    await producer.abort()
    await producer.begin()
    await producer.send(topic, [{ value: 'seen' }])
    await producer.commit()
    await producer.close()
    const small = rangeReaderFor(bootstrap, {}, { 'max.partition.fetch.bytes': '1000' })
    const { rows } = await readRows(small, { topic, from: 0, until: 8 }, { isolation: 'read_committed' })
    await small.close()
    expect(rows.map((row) => [row.offset, String(row.value)])).toEqual([[6n, 'seen']])
  })

  test('an open one at the end of the range is waited for, then KAFKA_TIMEOUT in both modes', async () => {
    const topic = await topics.create()
    const producer = await tool.open({ 'transactional.id': topic })
    await topics.produce(topic, [{ value: 'plain' }])
    await producer.begin()
    await producer.send(topic, [{ value: 'open' }])
    for (const failOnDataLoss of [true, false]) {
      const impatient = rangeReaderFor(bootstrap, { failOnDataLoss, pollTimeoutMs: 300 })
      const rows: string[] = []
      const reading = readRows(
        impatient,
        { topic, from: 0, until: 2 },
        { isolation: 'read_committed', onRow: (row) => void rows.push(String(row.value)) }
      )
      await expect(reading).rejects.toMatchObject({
        name: 'KAFKA_TIMEOUT',
        parameters: { topic, partition: 0, offset: '1', timeoutMs: 300 },
      })
      expect(rows).toEqual(['plain'])
      await impatient.close()
    }
    const patient = readRows(reader, { topic, from: 0, until: 2 }, { isolation: 'read_committed' })
    await producer.commit()
    expect(textsOf((await patient).rows)).toEqual(['plain', 'open'])
    await producer.close()
  })
})
