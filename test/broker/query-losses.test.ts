/** What is gone from Kafka: named, recorded everywhere, skipped where that is tolerated, and never delivered twice. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { DataLossFinding } from '../../src/data-loss.ts'
import { decodeReport } from '../../src/log.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import {
  numbered,
  openQuery,
  positionsIn,
  type LoggedBatch,
  type Options,
  type OpenQuery,
} from '../support/query-run.ts'
import { openTopics, waitUntil, type Topics } from '../support/topics.ts'

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

const tolerant: Options = { failOnDataLoss: false }

/** What is missing is asked for again, quickly. */
const common: Options = { 'kafka.bootstrap.servers': bootstrap, 'fetchOffset.retryIntervalMs': 10 }

const query = (options: Options): Promise<OpenQuery> => openQuery({ options: { ...common, ...options }, tables })

/** A topic whose partitions hold so many records; values are their positions. */
async function filled(...sizes: number[]): Promise<string> {
  const topic = await topics.create({ partitions: sizes.length })
  for (const [partition, count] of sizes.entries()) await fill(topic, count, { partition })
  return topic
}

const fill = async (topic: string, count: number, at: { partition?: number; first?: number } = {}): Promise<void> => {
  if (count > 0) await topics.produce(topic, numbered(count, at))
}

async function recreate(topic: string, ...sizes: number[]): Promise<void> {
  await topics.delete(topic)
  await topics.createNamed(topic, { partitions: sizes.length })
  for (const [partition, count] of sizes.entries()) await fill(topic, count, { partition, first: 1000 })
}

/** The plan is refused at each start, with these words, and no entry is left. */
async function refused(of: OpenQuery, words: readonly string[], options: Options = {}): Promise<void> {
  const before = of.batches().length
  for (let start = 1; start <= 2; start++) {
    const error = await of.run({ options }).then(
      () => null,
      (e: unknown) => e as Error
    )
    expect(error).toMatchObject({ name: 'KAFKA_DATA_LOSS' })
    for (const word of words) expect(error?.message).toContain(word)
    expect(of.batches()).toHaveLength(before)
  }
}

/** The losses of the newest batch, which are the same in its commit, in its progress and in what the run told. */
function lossesOf(of: OpenQuery): readonly DataLossFinding[] {
  const batch = of.batches().at(-1)
  const told = of.events().flatMap((event) => (event.kind === 'progress' ? [event.progress.sluice.dataLoss] : []))
  expect(batch?.commit?.progress.sluice.dataLoss).toEqual(batch?.commit?.dataLoss)
  expect(told.at(-1)).toEqual(batch?.commit?.dataLoss)
  return batch?.commit?.dataLoss ?? []
}

const last = (batches: readonly LoggedBatch[]): LoggedBatch | undefined => batches.at(-1)

describe('found by the planner', () => {
  test('B13: a topic of 500 recreated with 300 fails by both numbers; tolerated it is read from its start', async () => {
    const topic = await filled(500)
    await using it = await query({ subscribe: topic })
    await it.run()
    await recreate(topic, 300)
    await refused(it, [`${topic}-0`, 'from 500 to 300', 'TOPIC_RECREATED'])
    expect(last(await it.run({ options: tolerant }))).toMatchObject({ ranges: ['0 [0, 300)'], rows: 300 })
    const lost = { topic, partition: 0, reason: 'TOPIC_RECREATED', from: 500n, until: 0n, newEnd: 300n }
    expect(lossesOf(it)).toEqual([lost])
    await fill(topic, 10, { first: 1300 })
    expect(last(await it.run())).toMatchObject({ ranges: ['0 [300, 310)'], commit: { dataLoss: [] } })
    const values = (await it.values()).map(Number).toSorted((a, b) => a - b)
    expect(values).toEqual([...Array(500).keys(), ...Array.from({ length: 310 }, (_, i) => 1000 + i)])
  })

  test('B13: a topic of three partitions recreated with one: the two that are missing are named', async () => {
    const topic = await filled(2, 3, 4)
    await using it = await query({ subscribe: topic })
    await it.run()
    await recreate(topic, 1)
    const gone = 'the partition is gone, it was read up to offset'
    await refused(it, [`${topic}-1: ${gone} 3`, `${topic}-2: ${gone} 4`, 'PARTITIONS_DELETED', 'from 2 to 1'])
    expect(last(await it.run({ options: tolerant }))).toMatchObject({ ranges: ['0 [0, 1)'], rows: 1 })
    expect(lossesOf(it).map(({ partition, reason }) => `${partition} ${reason}`)).toEqual([
      '0 TOPIC_RECREATED',
      '1 PARTITIONS_DELETED',
      '2 PARTITIONS_DELETED',
    ])
  })

  test('X4: a topic recreated and already longer is noticed by its id, and no record of it is skipped', async () => {
    const topic = await filled(3)
    await using it = await query({ subscribe: topic })
    await it.run()
    await recreate(topic, 5)
    await refused(it, ['from 3 to 5', 'TOPIC_RECREATED'])
    expect(last(await it.run({ options: tolerant }))).toMatchObject({ ranges: ['0 [0, 5)'], rows: 5 })
    expect(lossesOf(it)).toMatchObject([{ from: 3n, until: 0n, newEnd: 5n }])
    expect(await it.values()).toHaveLength(8)
  })

  test('K13: under a pattern, a topic at 2 recreated with 1 "was changed from 2 to 1"', async () => {
    const topic = await filled(2)
    await using it = await query({ subscribePattern: topic.slice(3) })
    await it.run()
    await recreate(topic, 1)
    await refused(it, [`${topic}-0`, 'was changed from 2 to 1'])
    expect(it.batches()).toMatchObject([{ ranges: ['0 [0, 2)'], rows: 2 }])
  })

  test('X7: a new partition that does not start from 0 fails; tolerated it is read from where it starts', async () => {
    const topic = await filled(1)
    await using it = await query({ subscribe: topic })
    await it.run()
    await topics.grow(topic, 2)
    await fill(topic, 5, { partition: 1 })
    await tool.deleteRecords(topic, { 1: 2 })
    await refused(it, [`${topic}-1: the new partition starts from offset 2, not from 0`])
    expect(last(await it.run({ options: tolerant }))).toMatchObject({ ranges: ['1 [2, 5)'], rows: 3 })
    const reason = 'ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO'
    expect(lossesOf(it)).toEqual([{ topic, partition: 1, reason, from: 0n, until: 2n }])
  })

  test.each([
    { group: {}, reason: 'PARTITIONS_DELETED' },
    { group: { 'kafka.group.id': 'g' }, reason: 'PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT' },
  ])('a partition that is gone is $reason', async ({ group, reason }) => {
    const [kept, dropped] = [await filled(1), await filled(2)]
    await using it = await query({ subscribe: `${kept},${dropped}`, ...group })
    await it.run()
    await fill(kept, 1)
    await refused(it, [`${dropped}-0`, 'read up to offset 2', reason], { subscribe: kept })
    await it.run({ options: { ...tolerant, subscribe: kept } })
    expect(lossesOf(it)).toEqual([{ topic: dropped, partition: 0, reason, from: 2n, until: 2n }])
    // When it comes back it is new, and starts from its beginning.
    expect(last(await it.run())).toMatchObject({ ranges: ['0 [0, 2)'], rows: 2 })
  })

  test('X18: a start beyond the end fails; tolerated the position moves to the end', async () => {
    const topic = await filled(20)
    await using it = await query({ subscribe: topic, startingOffsets: `{"${topic}":{"0":50}}` })
    await refused(it, [`${topic}-0: offset was changed from 50 to 20`])
    expect(await it.run({ options: tolerant })).toMatchObject([{ ranges: [], rows: 0 }])
    expect(lossesOf(it)).toEqual([{ topic, partition: 0, reason: 'PARTITION_OFFSET_CHANGED', from: 50n, until: 20n }])
  })
})

describe('found by a worker', () => {
  const reason = 'COULD_NOT_READ_OFFSET_RANGE'

  test('K128: what has aged out before the first read is skipped by name; the rest comes, each once', async () => {
    const hour = 3_600_000
    const config = { 'segment.ms': '1000', 'retention.ms': String(hour) }
    const topic = await topics.create({ config })
    const records = (first: number, timestamp: number) =>
      numbered(25, { first }).map((record) => ({ ...record, timestamp: String(timestamp) }))
    await topics.produce(topic, records(0, Date.now() - 2 * hour))
    await topics.produce(topic, records(25, Date.now()))
    await waitUntil('the first segment is deleted', async () => {
      const [offsets] = await topics.admin.fetchTopicOffsets(topic)
      return offsets?.low === '25'
    })
    await using it = await query({ subscribe: topic, startingOffsets: `{"${topic}":{"0":0}}`, ...tolerant })
    expect(await it.run()).toMatchObject([{ ranges: ['0 [0, 50)'], rows: 25 }])
    expect(lossesOf(it)).toEqual([{ topic, partition: 0, reason, from: 0n, until: 25n }])
    expect(await it.positions()).toEqual(positionsIn(0, 25, 50))
  })

  test('K18: a topic deleted and recreated before the tasks read: the run goes on, and nothing is mixed', async () => {
    const topic = await filled(10)
    await using it = await query({ subscribe: topic, 'kafkaConsumer.pollTimeoutMs': 1000, ...tolerant })
    const hook = async (point: string): Promise<void> => {
      if (point === 'after log.add offsets/0') await recreate(topic, 12)
    }
    const [first] = await it.run({ hook, stopAfter: 1 })
    expect(first).toMatchObject({ ranges: ['0 [0, 10)'], rows: 0 })
    expect(lossesOf(it)).toEqual([{ topic, partition: 0, reason: 'TOPIC_RECREATED', from: 0n, until: 10n }])
    expect(last(await it.run())).toMatchObject({ ranges: ['0 [0, 12)'], rows: 12 })
    expect(lossesOf(it)).toMatchObject([{ reason: 'TOPIC_RECREATED', from: 10n, until: 0n, newEnd: 12n }])
    expect((await it.values()).every((value) => Number(value) >= 1000)).toBe(true)
  })

  test('a topic deleted before the tasks read: its ranges are named, as gone', async () => {
    await using own = await openTopics(bootstrap) // kafkajs's producer fails for good once a topic of its is gone
    const topic = await own.create()
    await own.produce(topic, numbered(4))
    await using it = await query({ subscribe: topic })
    const hook = async (point: string): Promise<void> => {
      if (point === 'after log.add offsets/0') await own.delete(topic)
    }
    await expect(it.run({ hook })).rejects.toThrow(`${topic}-0: offsets [0, 4) cannot be read any more (${reason})`)
    expect(await it.run({ options: tolerant, stopAfter: 1 })).toMatchObject([{ ranges: ['0 [0, 4)'], rows: 0 }])
    expect(lossesOf(it)).toEqual([{ topic, partition: 0, reason, from: 0n, until: 4n }])
  })

  test('B19 K146: gaps are none; records deleted after the plan are, with the cause, and in the report', async () => {
    const topic = await topics.create()
    const producer = await tool.open({ 'transactional.id': topic })
    for (const value of ['0', '2', '4', '6']) {
      await producer.begin()
      await producer.send(topic, [{ value }])
      await producer.commit()
    }
    await producer.close()
    for (const level of ['read_committed', 'read_uncommitted']) {
      await using whole = await query({ subscribe: topic, 'kafka.isolation.level': level })
      expect(await whole.run()).toMatchObject([{ ranges: ['0 [0, 8)'], rows: 4, commit: { dataLoss: [] } }])
    }
    await using it = await query({ subscribe: topic })
    const hook = async (point: string): Promise<void> => {
      if (point === 'after log.add offsets/0') await tool.deleteRecords(topic, { 0: 3 })
    }
    await expect(it.run({ hook })).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringContaining(`${topic}-0: offsets [0, 8) cannot be read`),
      cause: { message: expect.stringContaining('OFFSET_OUT_OF_RANGE at offset 0, the log holds [3, 8)') },
    })
    await it.run({ options: tolerant })
    const lost = [{ topic, partition: 0, reason, from: 0n, until: 3n }]
    expect(lossesOf(it)).toEqual(lost)
    const reports = await it.inContext((context) => context.log.list('reports/0', signal))
    expect(reports.map(({ id, entry }) => decodeReport({ log: 'reports/0', id }, entry).dataLoss)).toEqual([lost])
  })

  test('failOnDataLoss is that of the day on a replay, in either direction; the plan stays', async () => {
    const topic = await filled(6)
    await using it = await query({ subscribe: topic })
    await it.dieAt(/^before object\.close/, { options: tolerant })
    await tool.deleteRecords(topic, { 0: 2 })
    for (let start = 1; start <= 2; start++) {
      await expect(it.run()).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
      expect(it.batches()).toMatchObject([{ ranges: ['0 [0, 6)'], commit: null }])
    }
    expect(await it.run({ options: tolerant })).toMatchObject([{ ranges: ['0 [0, 6)'], rows: 4 }])
    expect(lossesOf(it)).toEqual([{ topic, partition: 0, reason, from: 0n, until: 2n }])
    expect(await it.positions()).toEqual(positionsIn(0, 2, 6))
  })
})

describe('what is no loss', () => {
  test('X10: a time-out fails the batch in both modes, and skips nothing', async () => {
    const topic = await filled(2)
    const producer = await tool.open({ 'transactional.id': topic })
    await producer.begin()
    await producer.send(topic, [{ value: '2' }])
    await using it = await query({ subscribe: topic, 'kafkaConsumer.pollTimeoutMs': 200 })
    for (const failOnDataLoss of [true, false]) {
      // The range reaches to the high watermark; read as committed, its last record does not come.
      const waiting = it.run({
        options: { failOnDataLoss },
        change: (context) => ({
          ...context,
          ranges: { ...context.ranges, read: (range, _level, s) => context.ranges.read(range, 'read_committed', s) },
        }),
      })
      await expect(waiting).rejects.toMatchObject({ name: 'KAFKA_TIMEOUT', parameters: { topic, offset: '2' } })
      expect(it.batches()).toMatchObject([{ ranges: ['0 [0, 3)'], commit: null }])
    }
    await producer.commit()
    await producer.close()
    const [first] = await it.run()
    expect(first).toMatchObject({ ranges: ['0 [0, 3)'], rows: 3, commit: { dataLoss: [] } })
  })

  test('X16: a new log over an old table: its batches are not taken for those that the table has', async () => {
    const topic = await filled(4)
    await using first = await query({ subscribe: topic })
    await first.run()
    await using second = await openQuery({
      name: 'query-2',
      directory: first.directory,
      options: { ...common, subscribe: topic },
      tables,
    })
    expect(await second.run()).toMatchObject([{ rows: 4 }])
    expect(await second.positions()).toEqual(positionsIn(0, 0, 4).flatMap((position) => [position, position]))
  })
})
