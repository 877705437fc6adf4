/** Transactions through a query: which records are rows, and how far a batch goes, under both isolation levels. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { openDeltaSession } from '../support/delta-session.ts'
import { positionsOf, readTopic, type Isolation } from '../support/kafka-reader.ts'
import { startProducerTool, type JavaProducer, type ProducerTool } from '../support/producer.ts'
import { numbered, openQuery, type OpenQuery } from '../support/query-run.ts'
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

type Level = 'read_committed' | 'read_uncommitted'

const over = (topic: string, level: Level, cap?: number): Promise<OpenQuery> =>
  openQuery({
    options: {
      'kafka.bootstrap.servers': bootstrap,
      subscribe: topic,
      'kafka.isolation.level': level,
      ...(cap !== undefined && { maxOffsetsPerTrigger: cap }),
    },
    tables,
  })

/** One value per record, in a transaction of its own. */
async function transaction(
  producer: JavaProducer,
  topic: string,
  values: readonly number[],
  outcome: 'commit' | 'abort' = 'commit'
): Promise<void> {
  await producer.begin()
  await producer.send(
    topic,
    values.map((value) => ({ value: String(value) }))
  )
  await producer[outcome]()
}

describe('an open transaction', () => {
  test('B18: stops read_committed at the last stable offset and read_uncommitted not at all', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(3))
    const producer = await tool.open({ 'transactional.id': topic })
    await producer.begin()
    await producer.send(topic, numbered(2, { first: 3 }))
    await using committed = await over(topic, 'read_committed')
    await using uncommitted = await over(topic, 'read_uncommitted')
    expect(await committed.run()).toMatchObject([{ ranges: ['0 [0, 3)'], rows: 3 }])
    expect(await uncommitted.run()).toMatchObject([{ ranges: ['0 [0, 5)'], rows: 5 }])
    await producer.commit()
    expect(await committed.run()).toMatchObject([{}, { ranges: ['0 [3, 6)'], rows: 2 }])
    expect(await uncommitted.run()).toMatchObject([{}, { ranges: ['0 [5, 6)'], rows: 0 }])
    await transaction(producer, topic, [6, 7], 'abort')
    await producer.close()
    expect(await committed.run()).toMatchObject([{}, {}, { ranges: ['0 [6, 9)'], rows: 0 }])
    expect(await uncommitted.run()).toMatchObject([{}, {}, { ranges: ['0 [6, 9)'], rows: 2 }])
    expect(await committed.values()).toEqual(['0', '1', '2', '3', '4'])
    expect(await uncommitted.values()).toEqual(['0', '1', '2', '3', '4', '6', '7']) // aborted records are rows
  })
})

describe('B20: aborted records', () => {
  test('(a) of interleaved transactions are no rows', async () => {
    const topic = await topics.create()
    const a = await tool.open({ 'transactional.id': `${topic}-a` })
    const b = await tool.open({ 'transactional.id': `${topic}-b` })
    await a.begin()
    await b.begin()
    await a.send(topic, numbered(2))
    await b.send(topic, numbered(1, { first: 2 }))
    await b.abort() // 3
    await a.send(topic, numbered(1, { first: 4 }))
    await a.abort() // 5
    await Promise.all([a.close(), b.close()])
    await topics.produce(topic, numbered(1, { first: 6 }))
    // Brokers write an abort's marker after they answered: which offset it takes is theirs to say.
    await waitUntil('all markers', async () => (await topics.admin.fetchTopicOffsets(topic))[0]?.high === '7')
    await using committed = await over(topic, 'read_committed')
    await using uncommitted = await over(topic, 'read_uncommitted')
    expect(await committed.run()).toMatchObject([{ ranges: ['0 [0, 7)'], rows: 1 }])
    await uncommitted.run()
    const seen = async (isolation: Isolation) =>
      [...positionsOf(await readTopic(bootstrap, topic, isolation))].toSorted()
    expect(await committed.positions()).toEqual(await seen('read_committed'))
    expect(await uncommitted.positions()).toEqual(await seen('read_uncommitted'))
    expect(await committed.values()).toEqual(['6'])
    expect(await uncommitted.values()).toEqual(['0', '1', '2', '4', '6'])
  })

  test('(b) (c) are known by the control flag: a key that looks like a marker is a key', async () => {
    const topic = await topics.create()
    const key = Buffer.alloc(4)
    const producer = await tool.open({ 'transactional.id': topic })
    for (const outcome of ['abort', 'commit'] as const) {
      await producer.begin()
      await producer.send(topic, [
        { key, value: `${outcome}ed` },
        { key, value: `${outcome}ed` },
      ])
      await producer[outcome]()
      await topics.produce(topic, [{ value: 'plain' }])
    }
    await producer.close()
    await using query = await over(topic, 'read_committed')
    await query.run()
    expect(await query.values()).toEqual(['plain', 'commited', 'commited', 'plain'])
  })
})

/** What the stages of Spark's test of transactions add, three offsets a batch: ranges, and the values among them. */
async function stages(query: OpenQuery, topic: string): Promise<string[][]> {
  const producer = await tool.open({ 'transactional.id': topic })
  const found: string[][] = []
  let batches = 0
  const run = async (): Promise<void> => {
    const logged = await query.run()
    const rows = await query.read({ columns: ['offset', 'value'] })
    const added = logged.slice(batches).map(({ ranges, plan }) => {
      const [range] = plan.tasks.flat()
      const values = rows.rows
        .filter(({ offset }) => range !== undefined && Number(offset) >= range.from && Number(offset) < range.until)
        .toSorted((x, y) => Number(x['offset']) - Number(y['offset']))
        .map(({ value }) => (typeof value === 'string' ? Buffer.from(value, 'base64').toString() : 'null'))
      return [...ranges, ...values].join(' ')
    })
    found.push(added)
    batches = logged.length
  }
  await run()
  await producer.begin()
  await producer.send(topic, numbered(5))
  await run()
  await producer.commit()
  await run()
  await transaction(producer, topic, [6, 7, 8, 9, 10], 'abort')
  await run()
  await transaction(producer, topic, [12, 13, 14, 15, 16])
  await run()
  await transaction(producer, topic, [18])
  await transaction(producer, topic, [20])
  await transaction(producer, topic, [22, 23])
  await run()
  await producer.close()
  return found
}

describe('batches of three offsets over committed, aborted and open transactions', () => {
  test('K23: read_committed', async () => {
    const topic = await topics.create()
    await using query = await over(topic, 'read_committed', 3)
    expect(await stages(query, topic)).toEqual([
      [''], // the empty batch 0
      [], // nothing of the open transaction
      ['0 [0, 3) 0 1 2', '0 [3, 6) 3 4'],
      ['0 [6, 9)', '0 [9, 12)'],
      ['0 [12, 15) 12 13 14', '0 [15, 18) 15 16'],
      ['0 [18, 21) 18 20', '0 [21, 24) 22 23', '0 [24, 25)'],
    ])
  })

  test('K24: read_uncommitted', async () => {
    const topic = await topics.create()
    await using query = await over(topic, 'read_uncommitted', 3)
    expect(await stages(query, topic)).toEqual([
      [''],
      ['0 [0, 3) 0 1 2', '0 [3, 5) 3 4'], // of the open transaction
      ['0 [5, 6)'], // a lone marker
      ['0 [6, 9) 6 7 8', '0 [9, 12) 9 10'],
      ['0 [12, 15) 12 13 14', '0 [15, 18) 15 16'],
      ['0 [18, 21) 18 20', '0 [21, 24) 22 23', '0 [24, 25)'],
    ])
  })

  test('K25: what a fetch brought of a later transaction is delivered by its own batch', async () => {
    const topic = await topics.create()
    const producer = await tool.open({ 'transactional.id': topic })
    await transaction(producer, topic, [0, 1, 2])
    await using query = await over(topic, 'read_committed')
    // Between plan and read, so that the fetch for [0, 4) brings it too.
    const hook = async (point: string): Promise<void> => {
      if (point !== 'after log.add offsets/0') return
      await transaction(producer, topic, [4, 5])
      await transaction(producer, topic, [7], 'abort')
      await transaction(producer, topic, [9])
    }
    expect(await query.run({ hook })).toMatchObject([{ ranges: ['0 [0, 4)'], rows: 3 }])
    expect(await query.run()).toMatchObject([{}, { ranges: ['0 [4, 11)'], rows: 3 }])
    await producer.close()
    expect(await query.values()).toEqual(['0', '1', '2', '4', '5', '9'])
  })
})
