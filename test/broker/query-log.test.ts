/** What the log decides: replays of planned batches, holes that are refused, losses that leave no plan. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { BatchContext } from '../../src/context.ts'
import { t } from '../../src/index.ts'
import { logKeys } from '../../src/log.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { withLog } from '../support/local-run.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { numbered, openQuery, positionsIn, type Options, type OpenQuery } from '../support/query-run.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const { signal } = new AbortController()
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

async function queryOver(count: number, options: Options = {}): Promise<OpenQuery & { topic: string }> {
  const topic = await topics.create()
  await topics.produce(topic, numbered(count))
  const query = await openQuery({
    options: { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, ...options },
    tables,
  })
  return { ...query, topic }
}

describe('a planned batch that was not committed', () => {
  test('B16 X15: is read again as planned, from batch 0 and offset 0 on, though options and the topic changed', async () => {
    await using query = await queryOver(30, { maxOffsetsPerTrigger: 10 })
    const [planned] = await query.dieAt(/^before object\.close/) // the worker dies
    expect(planned).toMatchObject({ ranges: ['0 [0, 10)'], commit: null })
    await topics.produce(query.topic, numbered(10, { first: 30 }))
    const batches = await query.run({ options: { maxOffsetsPerTrigger: 3, minPartitions: 5 } })
    expect(batches.slice(0, 3).map(({ ranges }) => ranges)).toEqual([
      ['0 [0, 10)'],
      ['0 [10, 11)', '0 [11, 12)', '0 [12, 13)'],
      ['0 [13, 14)', '0 [14, 15)', '0 [15, 16)'],
    ])
    expect(batches).toHaveLength(11)
    const [replayed] = batches[0]?.commit?.progress.sources ?? []
    expect(replayed).toMatchObject({ latestOffset: null })
    expect(replayed).not.toHaveProperty('metrics')
    expect(await query.positions()).toEqual(positionsIn(0, 0, 40))
  })

  test('K57: gets past planning when partitions were added meanwhile, and fails again in the mapping alone', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(5))
    let isBroken = true
    const map = ({ offset }: { offset: bigint }): { offset: bigint } => {
      if (isBroken && offset === 3n) throw new Error('cannot map')
      return { offset }
    }
    const options = { 'kafka.bootstrap.servers': bootstrap, subscribe: topic }
    await using query = await openQuery({ options, tables, mapping: { schema: { offset: t.long.notNull() }, map } })
    const failed = { name: 'MAPPING_FAILED', parameters: { topic, partition: 0, offset: '3' } }
    await expect(query.run()).rejects.toMatchObject(failed)
    await topics.grow(topic, 3)
    await topics.produce(topic, numbered(2, { partition: 2 }))
    await expect(query.run()).rejects.toMatchObject(failed)
    expect(query.batches()).toMatchObject([{ ranges: ['0 [0, 5)'], commit: null }])
    isBroken = false
    expect(await query.run()).toMatchObject([{ rows: 5 }, { ranges: ['2 [0, 2)'], rows: 2 }])
    expect((await query.read()).rows).toHaveLength(7)
  })
})

describe('a hole in the log', () => {
  /** Batches 0 to 2, the last one not committed. */
  async function threeBatches(): Promise<OpenQuery> {
    const query = await queryOver(6, { maxOffsetsPerTrigger: 2 })
    await query.dieAt(/^before log\.add commits\/2$/)
    return query
  }

  const offsets = logKeys.offsets
  test.each([
    { is: 'E3: offsets/1 is missing', remove: offsets(1), add: null, says: /^batch 1 doesn't exist/ },
    { is: 'commits/1 is missing', remove: logKeys.commits(1), add: null, says: /^batch 1 of commits doesn't exist/ },
    { is: 'broken JSON', remove: offsets(2), add: '{"v":1,"batchId":2,', says: /^offsets\/2 cannot be read/ },
    { is: 'a version above ours', remove: offsets(2), add: '{"v":99999}', says: /^offsets\/2 has version v99999/ },
  ])('B37 $is: refused by name, and nothing is read', async ({ remove, add, says }) => {
    await using query = await threeBatches()
    await withLog(query.directory, 'query', async (log) => {
      await log.remove(remove, signal)
      if (add !== null) await log.add(remove, add, signal)
    })
    const change = (context: BatchContext): BatchContext => ({
      ...context,
      ranges: { ...context.ranges, read: () => expect.unreachable('a range was read') },
    })
    const refused = query.run({ change })
    await expect(refused).rejects.toThrow(says)
  })

  test('B37 E3 commits/2 without offsets/2: refused by name', async () => {
    await using query = await queryOver(6, { maxOffsetsPerTrigger: 2 })
    await query.run()
    await withLog(query.directory, 'query', (log) => log.remove(offsets(2), signal))
    await expect(query.run()).rejects.toThrow(/^batch 2 doesn't exist .*commits\/2 is there/)
  })
})

describe('lost offsets', () => {
  test('X3: found by the planner they leave no plan, fail each restart, and are reported in tolerant mode', async () => {
    await using query = await queryOver(5)
    await query.run()
    await topics.delete(query.topic)
    await topics.createNamed(query.topic)
    await topics.produce(query.topic, numbered(3, { first: 100 }))
    for (let start = 1; start <= 2; start++) {
      await expect(query.run()).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
      expect(query.batches()).toHaveLength(1)
    }
    const [, second] = await query.run({ options: { failOnDataLoss: false } })
    expect(second).toMatchObject({
      ranges: ['0 [0, 3)'],
      rows: 3,
      commit: { dataLoss: [{ topic: query.topic, partition: 0, reason: 'TOPIC_RECREATED' }] },
    })
    expect((await query.values()).toSorted((a, b) => Number(a) - Number(b))).toEqual([
      '0', '1', '2', '3', '4', '100', '101', '102',
    ]) // prettier-ignore
  })

  test.each([
    { before: 10, rows: 10, lost: { from: 5n, until: 10n } },
    { before: 20, rows: 0, lost: { from: 5n, until: 20n } },
  ])('B25 X9: found by the worker ($before): the batch fails as planned, or skips them by name', async (wanted) => {
    const { before, rows, lost } = wanted
    await using query = await queryOver(20)
    const { topic } = query
    const options = { startingOffsets: `{"${topic}":{"0":5}}` }
    const hook = async (point: string): Promise<void> => {
      if (point !== 'after log.add offsets/0') return
      await tool.deleteRecords(topic, { 0: before })
      await topics.produce(topic, numbered(20, { first: 20 }))
    }
    await expect(query.run({ options, hook })).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
    await expect(query.run({ options })).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
    expect(query.batches()).toMatchObject([{ ranges: ['0 [5, 20)'], commit: null }])
    await expect(query.read()).rejects.toThrow('TableNotFound')
    const [first] = await query.run({ options: { ...options, failOnDataLoss: false } })
    expect(first).toMatchObject({
      ranges: ['0 [5, 20)'],
      rows,
      commit: { dataLoss: [{ topic, partition: 0, ...lost }] },
    })
    expect(await query.positions()).toEqual(positionsIn(0, before, 40))
  })

  test('X9: there is none where transactions left gaps before the wanted offset, in both modes', async () => {
    const topic = await topics.create()
    const producer = await tool.open({ 'transactional.id': topic })
    for (const value of ['0', '2', '4', '6']) {
      await producer.begin()
      await producer.send(topic, [{ value }])
      await producer.commit()
    }
    await producer.close()
    for (const failOnDataLoss of [true, false])
      for (const level of ['read_committed', 'read_uncommitted']) {
        const options = {
          'kafka.bootstrap.servers': bootstrap,
          subscribe: topic,
          failOnDataLoss,
          'kafka.isolation.level': level,
          startingOffsets: `{"${topic}":{"0":1}}`,
        }
        await using query = await openQuery({ options, tables })
        expect(await query.run()).toMatchObject([{ ranges: ['0 [1, 8)'], rows: 3, commit: { dataLoss: [] } }])
        expect(await query.values()).toEqual(['2', '4', '6'])
      }
  })
})
