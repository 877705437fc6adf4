/**
 * What may change between two runs of a query, row by row of README's table: allowed from the next plan on, allowed at once,
 * or refused by name before anything is planned.
 */
import { rename } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { t } from '../../src/index.ts'
import type { Mapper, Schema } from '../../src/index.ts'
import { brokerUser } from '../support/broker.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import {
  numbered,
  openQuery,
  positionsIn,
  type Options,
  type OpenQuery,
  type QueryParts,
} from '../support/query-run.ts'
import { openTopics, waitUntil, type Topics } from '../support/topics.ts'

const { bootstrap, saslPlaintext } = inject('kafka')
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

const common: Options = { 'kafka.bootstrap.servers': bootstrap, 'fetchOffset.retryIntervalMs': 10 }

async function filled(count: number, partitions = 1): Promise<string> {
  const topic = await topics.create({ partitions })
  for (let partition = 0; partition < partitions; partition++)
    await topics.produce(topic, numbered(count, { partition }))
  return topic
}

const query = (options: Options, more: Partial<QueryParts> = {}): Promise<OpenQuery> =>
  openQuery({ options: { ...common, ...options }, tables, ...more })

/** The same query, in its directory, as another version of its module has it. */
const changed = (it: OpenQuery, options: Options, more: Partial<QueryParts> = {}): Promise<OpenQuery> =>
  query(options, { directory: it.directory, ...more })

const rangesOf = (batches: Awaited<ReturnType<OpenQuery['run']>>): (readonly string[])[] =>
  batches.map(({ ranges }) => ranges)

/** Refused by name, and no entry is left. */
async function refused(it: OpenQuery, run: OpenQuery, expected: object, options: Options = {}): Promise<void> {
  await expect(run.run({ options })).rejects.toMatchObject(expected)
  expect(run.batches()).toHaveLength(it.batches().length)
}

describe('options', () => {
  test('limits and splits count from the next plan on', async () => {
    const topic = await filled(9)
    await using it = await query({ subscribe: topic, maxOffsetsPerTrigger: 4 })
    await it.dieAt(/^before object\.close/)
    const batches = await it.run({ options: { maxOffsetsPerTrigger: 3, minPartitions: 2 } })
    expect(rangesOf(batches)).toEqual([['0 [0, 4)'], ['0 [4, 5)', '0 [5, 7)'], ['0 [7, 8)', '0 [8, 9)']])
    await topics.produce(topic, numbered(4, { first: 9 }))
    const more = await it.run({ options: { maxOffsetsPerTrigger: 100, maxRecordsPerPartition: 3 } })
    expect(rangesOf(more).slice(3)).toEqual([['0 [9, 11)', '0 [11, 13)']])
    expect(await it.positions()).toEqual(positionsIn(0, 0, 13))
  })

  test('failOnDataLoss counts at once, on a replay too', async () => {
    const topic = await filled(4)
    await using it = await query({ subscribe: topic })
    await it.dieAt(/^before object\.close/)
    await tool.deleteRecords(topic, { 0: 1 })
    await expect(it.run()).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
    expect(await it.run({ options: { failOnDataLoss: false } })).toMatchObject([{ ranges: ['0 [0, 4)'], rows: 3 }])
  })

  test('the isolation level counts from the next plan on; a planned batch keeps its own', async () => {
    const topic = await filled(2)
    const producer = await tool.open({ 'transactional.id': topic })
    await producer.begin()
    await producer.send(topic, numbered(2, { first: 2 }))
    await using it = await query({ subscribe: topic })
    await it.dieAt(/^before object\.close/)
    const committed = { 'kafka.isolation.level': 'read_committed' }
    const batches = await it.run({ options: committed })
    expect(batches).toMatchObject([{ ranges: ['0 [0, 4)'], rows: 4, plan: { isolationLevel: 'read_uncommitted' } }])
    // The position is beyond the last stable offset: it waits there, without loss and without a second delivery.
    expect(await it.run({ options: committed })).toHaveLength(1)
    const held = { topic, partition: 0, lastStableOffset: 2n, offsets: 2n, since: expect.stringMatching(/Z$/) }
    expect(it.events().at(-1)).toEqual({ kind: 'blocked', partitions: [held] })
    await producer.commit()
    await producer.close()
    await waitUntil('the marker is there', async () => {
      const [offsets] = await topics.admin.fetchTopicOffsets(topic) // its end is the last stable offset
      return offsets?.high === '5'
    })
    await topics.produce(topic, numbered(1, { first: 5 }))
    const [, next] = await it.run({ options: committed })
    expect(next).toMatchObject({
      ranges: ['0 [4, 6)'],
      rows: 1,
      commit: { dataLoss: [], progress: { sluice: { blocked: [] } } },
    })
    expect(await it.positions()).toEqual([...positionsIn(0, 0, 4), '0:5'])
  })

  test('includeHeaders over bronze columns changes the table: refused', async () => {
    const topic = await filled(2)
    await using it = await query({ subscribe: topic })
    await it.run()
    await topics.produce(topic, numbered(1))
    await refused(
      it,
      it,
      { name: 'TABLE_SCHEMA_MISMATCH', message: expect.stringContaining('headers') },
      {
        includeHeaders: true,
      }
    )
    expect(await it.run()).toMatchObject([{}, { rows: 1 }])
  })

  test('client settings and waits count at once, on a replay too', async () => {
    const topic = await filled(3)
    await using it = await query({ subscribe: topic, 'kafkaConsumer.pollTimeoutMs': 1000, groupIdPrefix: 'a' })
    await it.dieAt(/^before object\.close/)
    const options = {
      'kafka.max.partition.fetch.bytes': 100,
      'kafkaConsumer.pollTimeoutMs': 5000,
      'fetchOffset.numRetries': 7,
      'kafka.client.id': 'b',
      'sluice.minBatchesToRetain': 5,
    }
    expect(await it.run({ options })).toMatchObject([{ ranges: ['0 [0, 3)'], rows: 3 }])
  })

  test('starting options are not used again', async () => {
    const topic = await filled(3)
    await using it = await query({ subscribe: topic })
    await it.run()
    await topics.produce(topic, numbered(1, { first: 3 }))
    const startingOffsets = `{"${topic}":{"0":1}}`
    expect(rangesOf(await it.run({ options: { startingOffsets } }))).toEqual([['0 [0, 3)'], ['0 [3, 4)']])
  })
})

test('brokers: other addresses and another login of the same cluster are allowed', async () => {
  const topic = await filled(2)
  await using it = await query({ subscribe: topic })
  await it.run()
  await topics.produce(topic, numbered(1, { first: 2 }))
  const login = 'org.apache.kafka.common.security.plain.PlainLoginModule required'
  const options = {
    'kafka.bootstrap.servers': saslPlaintext,
    'kafka.security.protocol': 'SASL_PLAINTEXT',
    'kafka.sasl.mechanism': 'PLAIN',
    'kafka.sasl.jaas.config': `${login} username="${brokerUser.username}" password="${brokerUser.password}";`,
  }
  expect(await it.run({ options })).toMatchObject([{}, { ranges: ['0 [2, 3)'], commit: { dataLoss: [] } }])
})

describe('topics', () => {
  test('one more starts from its beginning, whatever startingOffsets said', async () => {
    const [one, two] = [await filled(2), await filled(3)]
    await using it = await query({ subscribe: one, startingOffsets: 'latest' })
    await it.run()
    expect(rangesOf(await it.run({ options: { subscribe: `${one},${two}` } })).at(-1)).toEqual(['0 [0, 3)'])
  })

  test('one less is a loss: refused; tolerated it is forgotten by name', async () => {
    const [one, two] = [await filled(2), await filled(3)]
    await using it = await query({ subscribe: `${one},${two}` })
    await it.run()
    const less = { subscribe: one }
    await refused(
      it,
      it,
      { name: 'KAFKA_DATA_LOSS', message: expect.stringContaining(`${two}-0: the partition is gone`) },
      less
    )
    const [, next] = await it.run({ options: { ...less, failOnDataLoss: false } })
    expect(next?.commit?.dataLoss).toMatchObject([{ topic: two, partition: 0, reason: 'PARTITIONS_DELETED' }])
  })

  test('subscribe, assign and subscribePattern over the same partitions take turns', async () => {
    const topic = await filled(1, 2)
    await using subscribe = await query({ subscribe: topic })
    await using assign = await changed(subscribe, { assign: JSON.stringify({ [topic]: [0, 1] }) })
    await using pattern = await changed(subscribe, { subscribePattern: `^${topic}$` })
    await subscribe.run()
    for (const next of [assign, pattern, subscribe]) {
      await topics.produce(topic, numbered(1))
      expect((await next.run()).at(-1)).toMatchObject({ rows: 1, commit: { dataLoss: [] } })
    }
    expect(await subscribe.positions()).toEqual([...positionsIn(0, 0, 4), '1:0'])
  })
})

test('the trigger may change', async () => {
  const topic = await filled(4)
  await using it = await query({ subscribe: topic, maxOffsetsPerTrigger: 2 })
  await it.run({ stopAfter: 1 })
  expect(rangesOf(await it.run())).toEqual([['0 [0, 2)'], ['0 [2, 4)']])
})

describe('the mapping', () => {
  const schema: Schema = { n: t.long.notNull() }
  const mapped = (map: Mapper<Schema>, of: Schema = schema): Partial<QueryParts> => ({ mapping: { schema: of, map } })

  test('its code may change; a planned batch is then written by one version of it', async () => {
    const topic = await filled(2, 2)
    await using it = await query(
      { subscribe: topic },
      mapped((r) => ({ n: r.offset }))
    )
    const reported = Promise.withResolvers<void>()
    const hook = async (point: string): Promise<void> => {
      if (point === 'after log.add reports/0/000000/000000') reported.resolve()
      if (point !== 'before log.add reports/0/000000/000001') return
      await reported.promise
      throw new Error('died')
    }
    await expect(it.run({ hook })).rejects.toThrow('died')
    await using next = await changed(
      it,
      { subscribe: topic },
      mapped((r) => ({ n: r.offset + 100n }))
    )
    expect(await next.run()).toMatchObject([{ rows: 4 }])
    expect((await next.read()).rows.map((row) => Number(row['n'])).toSorted((a, b) => a - b)).toEqual([
      100, 100, 101, 101,
    ])
  })

  test('its schema may not: the table has another one', async () => {
    const topic = await filled(2)
    await using it = await query(
      { subscribe: topic },
      mapped((r) => ({ n: r.offset }))
    )
    await it.run()
    await topics.produce(topic, numbered(1))
    const wider = { ...schema, more: t.string }
    await using next = await changed(
      it,
      { subscribe: topic },
      mapped((r) => ({ n: r.offset, more: null }), wider)
    )
    await refused(it, next, { name: 'TABLE_SCHEMA_MISMATCH', message: expect.stringContaining('more') })
  })

  test('with a mapping, includeHeaders is its own business', async () => {
    const topic = await filled(1)
    await using it = await query(
      { subscribe: topic },
      mapped((r) => ({ n: BigInt(r.headers?.length ?? -1) }))
    )
    await it.run()
    const producer = await tool.open()
    await producer.send(topic, [{ value: 'x', headers: [['a', 'b']] }]) // prettier-ignore
    await producer.close()
    await it.run({ options: { includeHeaders: true } })
    expect((await it.read()).rows.map((row) => Number(row['n'])).toSorted((a, b) => a - b)).toEqual([-1, 1])
  })
})

describe('the table', () => {
  test('another path under the same name is refused: that table lacks what was committed', async () => {
    const topic = await filled(2)
    await using it = await query({ subscribe: topic })
    await it.run()
    await topics.produce(topic, numbered(1))
    await using other = await changed(it, { subscribe: topic }, { table: 'other' })
    await refused(it, other, { name: 'SINK_BEHIND_LOG', parameters: { recorded: 'none', committed: 0 } })
    // The way out: another name, which starts where it is told to.
    const startingOffsets = `{"${topic}":{"0":2}}`
    await using renamed = await changed(it, { subscribe: topic, startingOffsets }, { name: 'query-2', table: 'other' })
    expect(rangesOf(await renamed.run())).toEqual([['0 [2, 3)']])
  })

  test('the table itself may move: it brings its record of the query', async () => {
    const topic = await filled(2)
    await using it = await query({ subscribe: topic })
    await it.run()
    await rename(it.table, `${it.table}-moved`)
    await topics.produce(topic, numbered(1, { first: 2 }))
    await using moved = await changed(it, { subscribe: topic }, { table: 'table-moved' })
    expect(rangesOf(await moved.run())).toEqual([['0 [0, 2)'], ['0 [2, 3)']])
    expect(await moved.positions()).toEqual(positionsIn(0, 0, 3))
  })
})
