/** What a batch holds: caps, splits, ends, empty batches. On a real broker into a Delta table that delta-rs reads. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { openDeltaSession } from '../support/delta-session.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { endsOf, numbered, openQuery, positionsIn, type Options, type OpenQuery } from '../support/query-run.ts'
import { openTopics, type Topics } from '../support/topics.ts'

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

/** A query over a topic whose partitions hold so many records, numbered through. */
async function queryOver(sizes: readonly number[], options: Options = {}): Promise<OpenQuery & { topic: string }> {
  const topic = await topics.create({ partitions: sizes.length })
  const records = sizes.flatMap((count, partition) =>
    numbered(count, { partition, first: sizes.slice(0, partition).reduce((a, b) => a + b, 0) })
  )
  if (records.length > 0) await topics.produce(topic, records)
  const query = await openQuery({
    options: { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, ...options },
    tables,
  })
  return { ...query, topic }
}

const rowsOf = (batches: Awaited<ReturnType<OpenQuery['run']>>): (number | null)[] => batches.map(({ rows }) => rows)

const everyPosition = (sizes: readonly number[]): string[] => sizes.flatMap((size, p) => positionsIn(p, 0, size))

describe('a cap', () => {
  test('B01 (a): quiet partitions move by one at least; to the end all 1013 rows, none twice', async () => {
    await using query = await queryOver([1000, 10, 3], { maxOffsetsPerTrigger: 100 })
    const [first] = await query.run({ stopAfter: 1 })
    expect(first?.ranges).toEqual(['0 [0, 98)', '1 [0, 1)', '2 [0, 1)'])
    await query.run()
    expect(await query.positions()).toEqual(everyPosition([1000, 10, 3]))
  })

  test('B01 (b): below the number of partitions each moves by one', async () => {
    const sizes = Array.from({ length: 8 }, () => 100)
    await using query = await queryOver(sizes, { maxOffsetsPerTrigger: 3 })
    const [first] = await query.run({ stopAfter: 1 })
    expect(first?.ranges).toEqual(sizes.map((_, p) => `${p} [0, 1)`))
    expect(await query.positions()).toEqual(sizes.map((_, p) => `${p}:0`))
  })

  test('B01 (c): shares are rounded down', async () => {
    await using query = await queryOver([25, 25, 25], { maxOffsetsPerTrigger: 10 })
    const [first] = await query.run({ stopAfter: 1 })
    expect(first?.ranges).toEqual(['0 [0, 3)', '1 [0, 3)', '2 [0, 3)'])
  })

  test('K7: 8+1+1, then 9+1, and again 9+1 twice after a stop and a start', async () => {
    await using query = await queryOver([101, 11, 1], { maxOffsetsPerTrigger: 10 })
    await query.run({ stopAfter: 2 })
    const batches = await query.run({ stopAfter: 2 })
    expect(batches.map(({ ranges }) => ranges)).toEqual([
      ['0 [0, 8)', '1 [0, 1)', '2 [0, 1)'],
      ['0 [8, 17)', '1 [1, 2)'],
      ['0 [17, 26)', '1 [2, 3)'],
      ['0 [26, 35)', '1 [3, 4)'],
    ])
    expect(await query.positions()).toEqual([...positionsIn(0, 0, 35), ...positionsIn(1, 0, 4), '2:0'])
  })

  test('K6: of 2^63-1 does not overflow from offset 5 on', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(10))
    const options = {
      'kafka.bootstrap.servers': bootstrap,
      subscribe: topic,
      startingOffsets: `{"${topic}":{"0":5}}`,
      maxOffsetsPerTrigger: '9223372036854775807',
    }
    await using query = await openQuery({ options, tables })
    const batches = await query.run()
    expect(batches.map(({ ranges }) => ranges)).toEqual([['0 [5, 10)']])
    expect(await query.values()).toEqual(['5', '6', '7', '8', '9'])
  })
})

describe('an AvailableNow run', () => {
  test('K2: 15 records in one of five partitions, five at a time: three batches, then it ends by itself', async () => {
    await using query = await queryOver([0, 0, 15, 0, 0], { maxOffsetsPerTrigger: 5 })
    const batches = await query.run()
    expect(batches.map(({ ranges }) => ranges)).toEqual([['2 [0, 5)'], ['2 [5, 10)'], ['2 [10, 15)']])
    expect(await query.values()).toEqual(numbered(15).map(({ value }) => value))
  })

  test('E29: takes what is there in several batches and ends; the next one takes only what came since', async () => {
    await using query = await queryOver([4], { maxOffsetsPerTrigger: 2 })
    expect(rowsOf(await query.run())).toEqual([2, 2])
    await topics.produce(query.topic, numbered(3, { first: 4 }))
    expect((await query.run()).map(({ ranges }) => ranges)).toEqual([
      ['0 [0, 2)'],
      ['0 [2, 4)'],
      ['0 [4, 6)'],
      ['0 [6, 7)'],
    ])
    expect(await query.values()).toEqual(numbered(7).map(({ value }) => value))
  })

  test('B03: has a fixed end, however much is written meanwhile', async () => {
    await using query = await queryOver([100, 100], { maxOffsetsPerTrigger: 40 })
    let written = 0
    const hook = async (point: string): Promise<void> => {
      if (!point.startsWith('before log.add offsets/') || written === 100) return // a moving end would be chased for ever
      await topics.produce(query.topic, numbered(10, { first: 1000 + written }))
      written += 10
    }
    const batches = await query.run({ hook })
    expect(batches.map(endsOf)).toEqual([
      ['0:20', '1:20'],
      ['0:40', '1:40'],
      ['0:60', '1:60'],
      ['0:80', '1:80'],
      ['0:100', '1:100'],
    ])
    expect(await query.positions()).toEqual(everyPosition([100, 100]))
    expect(written).toBe(50)
    await query.run()
    expect(await query.positions()).toEqual(everyPosition([150, 100]))
  })

  test('B05: ends on a tail of aborted records and markers, whose batch leaves no file', async () => {
    const options = { 'kafka.isolation.level': 'read_committed', maxOffsetsPerTrigger: 4 }
    await using query = await queryOver([0], options)
    const producer = await tool.open({ 'transactional.id': query.topic })
    for (const [size, outcome] of [
      [3, 'commit'],
      [2, 'abort'],
    ] as const) {
      // prettier-ignore
      await producer.begin()
      await producer.send(query.topic, numbered(size))
      await producer[outcome]()
    }
    await producer.close()
    const batches = await query.run()
    expect(batches.map(({ ranges }) => ranges)).toEqual([['0 [0, 4)'], ['0 [4, 7)']])
    expect(rowsOf(batches)).toEqual([3, 0])
    expect(batches[1]?.commit?.progress.sluice).toMatchObject({
      offsetsBehindLatestAtCommit: 0n,
      offsetsWithoutRecord: 3n,
      dataLoss: [],
    })
    expect(await query.values()).toEqual(['0', '1', '2'])
    expect(await query.dataFiles()).toHaveLength(1)
    expect((await query.actions(1)).flatMap(Object.keys).toSorted()).toEqual(['commitInfo', 'txn'])
    expect(await query.run()).toHaveLength(2) // nothing is planned
    expect(query.events().map(({ kind }) => kind)).toEqual(['started', 'resumed'])
  })
})

describe('minPartitions', () => {
  test.each([
    { is: 'unset', minPartitions: null, tasks: 1 },
    { is: '1', minPartitions: '1', tasks: 1 },
    { is: '4', minPartitions: '4', tasks: 4 },
  ])('K31: $is over 100 offsets of one partition makes $tasks tasks', async ({ minPartitions, tasks }) => {
    await using query = await queryOver([100], minPartitions === null ? {} : { minPartitions })
    const [batch] = await query.run()
    expect(batch?.plan.tasks).toHaveLength(tasks)
    expect(query.events().filter(({ kind }) => kind === 'task')).toHaveLength(tasks)
    expect(await query.positions()).toEqual(positionsIn(0, 0, 100))
  })

  test('K27: six over 10, 10 and 1 records make at least six tasks and exactly the 21 values', async () => {
    await using query = await queryOver([10, 10, 1], { minPartitions: 6 })
    const [batch] = await query.run()
    expect(batch?.plan.tasks.length).toBeGreaterThanOrEqual(6)
    expect(await query.values()).toEqual(numbered(21).map(({ value }) => value))
  })

  const tens = Array.from({ length: 9 }, () => 10)
  test.each([
    { is: '(a) three of 29 by 4', sizes: [29, 29, 29], minPartitions: 4, lengths: [29, 29, 29] },
    {
      is: '(b) one of 1000 and nine of 10 by 20',
      sizes: [1000, ...tens],
      minPartitions: 20,
      lengths: [90, ...Array.from({ length: 10 }, () => 91), ...tens],
    },
    { is: '(d) 100, 0 and 1 by 4', sizes: [100, 0, 1], minPartitions: 4, lengths: [33, 33, 34, 1] },
    { is: '(e) as many as have data', sizes: [7, 0, 90], minPartitions: 2, lengths: [7, 90] },
  ])('B15 $is: pieces without gap or overlap, each record once', async ({ sizes, minPartitions, lengths }) => {
    await using query = await queryOver(sizes, { minPartitions })
    const [batch] = await query.run()
    expect(batch?.plan.tasks.flat().map(({ from, until }) => Number(until - from))).toEqual(lengths)
    expect(await query.positions()).toEqual(everyPosition(sizes))
  })

  test('B15 (c) two offsets by 5: two pieces of one', async () => {
    await using query = await queryOver([7])
    const startingOffsets = `{"${query.topic}":{"0":5}}`
    const [batch] = await query.run({ options: { startingOffsets, minPartitions: 5 } })
    expect(batch?.ranges).toEqual(['0 [5, 6)', '0 [6, 7)'])
    expect(await query.positions()).toEqual(['0:5', '0:6'])
  })

  test.each([
    { options: { minPartitions: 2 }, ranges: [['0 [0, 5)', '0 [5, 10)']] },
    { options: { maxOffsetsPerTrigger: 3 }, ranges: [['0 [0, 3)'], ['0 [3, 6)'], ['0 [6, 9)'], ['0 [9, 10)']] },
  ])('B24: one gzip batch of ten, cut by $options, gives each record once', async ({ options, ranges }) => {
    await using query = await queryOver([0], options)
    const producer = await tool.open({ 'compression.type': 'gzip', 'linger.ms': 200 })
    await producer.send(query.topic, numbered(10))
    await producer.close()
    expect((await query.run()).map((batch) => batch.ranges)).toEqual(ranges)
    expect(await query.values()).toEqual(numbered(10).map(({ value }) => value))
  })
})

describe('a batch without records', () => {
  test('X6: a fresh query at latest commits an empty batch 0: a version with the transaction only', async () => {
    await using query = await queryOver([3, 0], { startingOffsets: 'latest' })
    const batches = await query.run()
    expect(batches).toMatchObject([{ ranges: [], rows: 0 }])
    expect(batches.map(endsOf)).toEqual([['0:3', '1:0']])
    expect(await query.read()).toMatchObject({ version: 0, rows: [] })
    expect((await query.actions(0)).flatMap(Object.keys).toSorted()).toEqual([
      'commitInfo',
      'metaData',
      'protocol',
      'txn',
    ])
    expect(await query.run()).toHaveLength(1)
  })

  test('X6: a new partition that is empty, and in tolerant mode one that is no longer there, are batches too', async () => {
    const [one, two] = [await topics.create(), await topics.create()]
    await topics.produce(one, numbered(2))
    const assign = { [one]: [0, 1], [two]: [0] }
    const options = { 'kafka.bootstrap.servers': bootstrap, assign: JSON.stringify(assign), failOnDataLoss: false }
    await using query = await openQuery({ options, tables })
    await query.run()
    await topics.grow(one, 2)
    await query.run()
    const batches = await query.run({ options: { assign: JSON.stringify({ [one]: [0, 1] }) } })
    expect(batches.map(({ ranges, rows }) => ({ ranges, rows }))).toEqual([
      { ranges: ['0 [0, 2)'], rows: 2 },
      { ranges: [], rows: 0 },
      { ranges: [], rows: 0 },
    ])
    const [, second, third] = batches.map(({ plan }) => Object.fromEntries(plan.end))
    expect(second).toEqual({ [one]: new Map([[0, 2n], [1, 0n]]), [two]: new Map([[0, 0n]]) }) // prettier-ignore
    expect(third).toEqual({ [one]: new Map([[0, 2n], [1, 0n]]) }) // prettier-ignore
    expect(batches[2]?.commit?.dataLoss).toMatchObject([{ topic: two, partition: 0, reason: 'PARTITIONS_DELETED' }])
    expect(await query.read()).toMatchObject({ version: 2, history: [{}, {}, {}] })
  })
})

describe('progress', () => {
  test('K10: counts the records that were read, not those before the start', async () => {
    await using query = await queryOver([5], { startingOffsets: 'latest' })
    await query.run()
    await topics.produce(query.topic, numbered(3, { first: 5 }))
    const batches = await query.run()
    const rows = batches.reduce((total, { commit }) => total + (commit?.progress.numInputRows ?? NaN), 0)
    expect(rows).toBe(3)
    expect(await query.values()).toEqual(['5', '6', '7'])
  })

  const metrics = ['avgOffsetsBehindLatest', 'maxOffsetsBehindLatest', 'minOffsetsBehindLatest']
  const metricsOf = (batch: Awaited<ReturnType<OpenQuery['run']>>[number] | undefined): [string, number][] =>
    Object.entries(batch?.commit?.progress.sources[0]?.metrics ?? {}).map(([name, value]) => [name, Number(value)])

  test('K33: with a cap some progress has exactly the three lag metrics above 0', async () => {
    await using query = await queryOver([3, 3], { maxOffsetsPerTrigger: 1 })
    const [first] = await query.run({ stopAfter: 1 })
    expect(metricsOf(first)).toEqual(metrics.map((name) => [name, 2]))
  })

  test('K34 X15: without a cap they are 0; the first batch has no start offset', async () => {
    await using query = await queryOver([3, 3])
    const [first] = await query.run()
    expect(metricsOf(first)).toEqual(metrics.map((name) => [name, 0]))
    expect(first?.commit?.progress.sources[0]).toMatchObject({
      startOffset: null,
      endOffset: { [query.topic]: { 0: 3n, 1: 3n } },
      latestOffset: { [query.topic]: { 0: 3n, 1: 3n } },
    })
  })
})
