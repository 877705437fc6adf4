/** Spark's tests of its Kafka relation, on a bounded read of ours: late binding, timestamps, transactions, losses. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { readBatch } from '../../src/index.ts'
import type { RowBatch } from '../../src/index.ts'
import { boundedRun } from '../support/bounded-run.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { openTopics, waitUntil, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
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

const source = (topic: string, more: Record<string, unknown> = {}) => ({
  'kafka.bootstrap.servers': bootstrap,
  subscribe: topic,
  ...more,
})

const numbers = (from: number, until: number): string[] =>
  Array.from({ length: until - from }, (_, i) => String(from + i))

const sorted = (values: readonly (string | null)[]): (string | null)[] =>
  values.toSorted((a, b) => Number(a) - Number(b))

/** Values `from` to `until` in a partition, each with its own timestamp if there is one. */
const send = (topic: string, partition: number, from: number, until: number, timestamp?: number) =>
  topics.produce(
    topic,
    numbers(from, until).map((value) => ({
      partition,
      value,
      ...(timestamp !== undefined && { timestamp: String(timestamp) }),
    }))
  )

const byPartition = (topic: string, values: readonly (number | string)[]): string =>
  JSON.stringify({ [topic]: Object.fromEntries(values.map((value, partition) => [partition, value])) })

describe('late binding', () => {
  test('K63 K64 earliest to latest, given or by default: a second reading sees later records', async () => {
    const topic = await topics.create({ partitions: 3 })
    for (const [partition, from, until] of [
      [0, 0, 10],
      [1, 10, 20],
      [2, 20, 21],
    ] as const)
      await send(topic, partition, from, until)
    const given = { startingOffsets: 'earliest', endingOffsets: 'latest' }
    await boundedRun(source(topic, given), (explicit) =>
      boundedRun(source(topic), async (byDefault) => {
        for (const run of [explicit, byDefault]) expect(sorted(await run.values())).toEqual(numbers(0, 21))
        await send(topic, 0, 21, 30)
        for (const run of [explicit, byDefault]) expect(sorted(await run.values())).toEqual(numbers(0, 30))
      })
    )
  })

  test('K65 an end by number stays where it is, one by -1 follows', async () => {
    const topic = await topics.create({ partitions: 3 })
    for (const partition of [0, 1, 2]) await send(topic, partition, 7 * partition, 7 * partition + 7)
    const options = {
      startingOffsets: byPartition(topic, [-2, 0, -2]),
      endingOffsets: byPartition(topic, [-1, 1, -1]),
    }
    await boundedRun(source(topic, options), async (run) => {
      expect(sorted(await run.values())).toEqual([...numbers(0, 7), '7', ...numbers(14, 21)])
      await send(topic, 2, 21, 30)
      await send(topic, 1, 30, 32)
      expect(sorted(await run.values())).toEqual([...numbers(0, 7), '7', ...numbers(14, 30)])
    })
  })

  test('K77 after the head was deleted the same plan reads what is left, without an error', async () => {
    const topic = await topics.create({ partitions: 1 })
    await send(topic, 0, 0, 10)
    await boundedRun(source(topic), async (run) => {
      expect(await run.values()).toEqual(numbers(0, 10))
      await tool.deleteRecords(topic, { 0: 10 })
      await send(topic, 0, 10, 20)
      expect(await run.values()).toEqual(numbers(10, 20))
      expect(run.lost).toEqual([])
    })
  })

  test('K81 a plan cut by minPartitions reads later records with its last pieces', async () => {
    const topic = await topics.create({ partitions: 3 })
    for (const partition of [0, 1, 2]) await send(topic, partition, 7 * partition, 7 * partition + 7)
    await boundedRun(source(topic, { minPartitions: 6 }), async (run) => {
      expect(run.pieces.length).toBeGreaterThanOrEqual(6)
      expect(sorted(await run.values())).toEqual(numbers(0, 21))
      for (const partition of [0, 1, 2]) await send(topic, partition, 21 + 3 * partition, 24 + 3 * partition)
      expect(sorted(await run.values())).toEqual(numbers(0, 30))
    })
  })
})

test('K66 headers: null where there are none, in order, duplicates kept', async () => {
  const topic = await topics.create({ partitions: 1 })
  const producer = await tool.open()
  const headers = [
    ['once', '1'],
    ['more', 'a'],
    ['more', null],
    ['once', '2'],
  ] as const
  await producer.send(topic, [{ value: 'with', headers }, { value: 'without' }])
  await producer.close()
  const rows: unknown[] = []
  for await (const batch of readBatch({ ...source(topic), includeHeaders: true }))
    rows.push(...(batch.columns[7] as unknown[]))
  expect(rows).toEqual([
    headers.map(([key, value]) => ({ key, value: value === null ? null : Buffer.from(value) })),
    null,
  ])
  for await (const batch of readBatch(source(topic))) expect(batch.columns).toHaveLength(7)
})

describe('timestamps', () => {
  /** Ten records in each third at t1, t2 and t3, over three partitions. */
  async function threeTimes() {
    const topic = await topics.create({ partitions: 3 })
    const base = 1_700_000_000_000
    const at = [base, base + 1000, base + 2000] as const
    for (const [i, timestamp] of at.entries())
      for (const [partition, from, until] of [
        [0, 0, 4],
        [1, 4, 7],
        [2, 7, 10],
      ] as const)
        await send(topic, partition, 10 * i + from, 10 * i + until, timestamp)
    return { topic, t1: at[0], t2: at[1], t3: at[2] }
  }
  const all = (topic: string, value: number | string): string => byPartition(topic, [value, value, value])
  let topic: string
  let times: Awaited<ReturnType<typeof threeTimes>>
  beforeAll(async () => {
    times = await threeTimes()
    topic = times.topic
  })
  const read = async (options: Record<string, unknown>): Promise<(string | null)[]> =>
    boundedRun(source(topic, options), async (run) => sorted(await run.values()))

  test('K67 for start and end: the end is exclusive', async () => {
    const { t2, t3 } = times
    const options = { startingOffsetsByTimestamp: all(topic, t2), endingOffsetsByTimestamp: all(topic, t3) }
    expect(await read(options)).toEqual(numbers(10, 20))
  })

  test('K68 K69 mixed with offsets, on either side', async () => {
    const { t2, t3 } = times
    const ends = byPartition(topic, [8, 6, 6])
    expect(await read({ startingOffsetsByTimestamp: all(topic, t2), endingOffsets: ends })).toEqual(numbers(10, 20))
    const starts = byPartition(topic, [4, 3, 3])
    expect(await read({ startingOffsets: starts, endingOffsetsByTimestamp: all(topic, t3) })).toEqual(numbers(10, 20))
  })

  test('K70 K71 with a start alone to latest, with an end alone from earliest', async () => {
    expect(await read({ startingOffsetsByTimestamp: all(topic, times.t2) })).toEqual(numbers(10, 30))
    expect(await read({ endingOffsetsByTimestamp: all(topic, times.t3) })).toEqual(numbers(0, 20))
  })

  test('K72 for all partitions at once', async () => {
    expect(await read({ startingTimestamp: times.t2, endingTimestamp: times.t3 })).toEqual(numbers(10, 20))
  })

  test('K73 a start without a match fails by name, or is at the end by strategy', async () => {
    const start = {
      startingOffsetsByTimestamp: byPartition(topic, [times.t2, '9223372036854775807', times.t2]).replaceAll(
        '"9223372036854775807"',
        '9223372036854775807'
      ),
    }
    await expect(read(start)).rejects.toMatchObject({
      name: 'KAFKA_NO_OFFSET_FOR_TIMESTAMP',
      message: expect.stringMatching(
        new RegExp(`^No offset matched from request of topic-partition ${topic}-1 and timestamp 9223372036854775807`)
      ),
    })
    const tolerant = { ...start, startingOffsetsByTimestampStrategy: 'latest' }
    expect(await read(tolerant)).toEqual(
      [...numbers(10, 14), ...numbers(17, 24), ...numbers(27, 30)].toSorted((a, b) => Number(a) - Number(b))
    )
  })

  test('K74 the timestamp for all counts before those by partition, and these before offsets', async () => {
    const { t1, t2, t3 } = times
    const offsets = { startingOffsets: 'earliest', endingOffsets: 'latest' }
    const byTimestamp = { startingOffsetsByTimestamp: all(topic, t2), endingOffsetsByTimestamp: all(topic, t3) }
    expect(await read({ ...offsets, ...byTimestamp })).toEqual(numbers(10, 20))
    expect(await read({ ...offsets, ...byTimestamp, startingTimestamp: t1, endingTimestamp: t2 })).toEqual(
      numbers(0, 10)
    )
  })

  test('K75 an end without a match is read to its latest, whatever the strategy', async () => {
    const far = times.t3 + 1000
    expect(await read({ endingOffsetsByTimestamp: byPartition(topic, [times.t2, far, times.t2]) })).toEqual(
      [...numbers(0, 10), ...numbers(14, 17), ...numbers(24, 27)].toSorted((a, b) => Number(a) - Number(b))
    )
    expect(await read({ endingTimestamp: far, startingOffsetsByTimestampStrategy: 'error' })).toEqual(numbers(0, 30))
  })

  test('K84 a start by offset above an end by timestamp fails with both', async () => {
    const starts = byPartition(topic, [5, 0, 0])
    await expect(
      read({ startingOffsets: starts, endingOffsetsByTimestamp: all(topic, times.t2) })
    ).rejects.toMatchObject({
      name: 'RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET',
      message: expect.stringContaining(
        `resolved start offset 5 is greater than the resolved end offset 4 for topic ${topic} partition 0`
      ),
    })
  })

  test('a map that misses a partition is refused by its side', async () => {
    for (const [option, position] of [
      ['startingOffsetsByTimestamp', 'start'],
      ['endingOffsetsByTimestamp', 'end'],
    ] as const)
      await expect(read({ [option]: byPartition(topic, [times.t1]) })).rejects.toMatchObject({
        name: 'KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED',
        parameters: { position, missing: `${topic}-1, ${topic}-2` },
      })
  })
})

test('K86 a start at 1 of empty partitions fails, although the end is latest', async () => {
  const topic = await topics.create({ partitions: 3 })
  const reading = boundedRun(source(topic, { startingOffsets: byPartition(topic, [1, 1, 1]) }), (run) => run.values())
  await expect(reading).rejects.toMatchObject({
    name: 'RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET',
    parameters: { start: '1', end: '0' },
  })
})

test('K79 K80 open, aborted and committed transactions under both isolation levels, at every stage', async () => {
  const topic = await topics.create({ partitions: 1 })
  const seen = async (): Promise<[number, number]> => {
    const count = (isolation: string) =>
      boundedRun(source(topic, { 'kafka.isolation.level': isolation }), async (run) => (await run.values()).length)
    return [await count('read_committed'), await count('read_uncommitted')]
  }
  const producer = await tool.open({ 'transactional.id': topic })
  const records = (from: number, until: number) => numbers(from, until).map((value) => ({ value }))
  const settled = (committed: number) => waitUntil('the marker is there', async () => (await seen())[0] === committed)
  await producer.begin()
  await producer.send(topic, records(0, 5))
  expect(await seen()).toEqual([0, 5])
  await producer.commit()
  await settled(5)
  expect(await seen()).toEqual([5, 5])
  await producer.begin()
  await producer.send(topic, records(5, 10))
  expect(await seen()).toEqual([5, 10])
  await producer.abort()
  await producer.begin()
  await producer.send(topic, records(10, 15))
  expect(await seen()).toEqual([5, 15])
  await producer.commit()
  await settled(10)
  expect(await seen()).toEqual([10, 15])
  await producer.close()
})

describe('loss', () => {
  test('K130 an aged-out head is skipped with failOnDataLoss=false, each record that is left once; and fails by default', async () => {
    const topic = await topics.create({ partitions: 1 })
    await send(topic, 0, 0, 50)
    await tool.deleteRecords(topic, { 0: 17 })
    const start = { startingOffsets: byPartition(topic, [0]) }
    await boundedRun(source(topic, { ...start, failOnDataLoss: false, minPartitions: 4 }), async (run) => {
      expect(await run.values()).toEqual(numbers(17, 50))
      expect(run.lost.map((l) => `[${l.from},${l.until})`).toSorted()).toEqual(['[0,12)', '[12,17)'])
    })
    await expect(boundedRun(source(topic, start), (run) => run.values())).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringContaining(`${topic}-0: offsets [0, 50)`),
    })
  })

  test('an end beyond the log fails at once, not by a time-out', async () => {
    const topic = await topics.create({ partitions: 1 })
    await send(topic, 0, 0, 5)
    const ending = { endingOffsets: byPartition(topic, [9]) }
    await expect(boundedRun(source(topic, ending), (run) => run.values())).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringContaining(`${topic}-0: offsets [5, 9)`),
    })
  })
})

describe('readBatch', () => {
  const rowsOf = async (reading: AsyncIterable<RowBatch>): Promise<unknown[]> => {
    const rows: unknown[] = []
    for await (const { length, columns } of reading)
      for (let i = 0; i < length; i++) rows.push(columns.map((column) => column[i]))
    return rows
  }

  test('gives the bronze columns, anew with each iteration, and warns of what has no effect', async () => {
    const topic = await topics.create({ partitions: 1 })
    await topics.produce(topic, [{ partition: 0, key: null, value: 'x', timestamp: '1700000000123' }])
    const warnings: string[] = []
    const reading = readBatch(
      { ...source(topic), maxOffsetsPerTrigger: 1 },
      { onWarning: (text) => warnings.push(text) }
    )
    const row = (offset: bigint) => [null, Buffer.from('x'), topic, 0, offset, 1_700_000_000_123_000n, 0]
    expect(await rowsOf(reading)).toEqual([row(0n)])
    await topics.produce(topic, [{ partition: 0, key: null, value: 'x', timestamp: '1700000000123' }])
    expect(await rowsOf(reading)).toEqual([row(0n), row(1n)])
    expect(warnings).toEqual(["Option 'maxOffsetsPerTrigger' is ignored in a bounded read."])
  })

  test('can be left early, and aborted', async () => {
    const topic = await topics.create({ partitions: 2 })
    for (const partition of [0, 1]) await send(topic, partition, 0, 1000)
    for await (const batch of readBatch(source(topic))) {
      expect(batch.length).toBeGreaterThan(0)
      break
    }
    const abort = new AbortController()
    const reading = rowsOf(readBatch(source(topic), { signal: abort.signal }))
    abort.abort()
    await expect(reading).rejects.toMatchObject({ name: 'ABORTED' })
  })

  test('refuses options at once', () => {
    expect(() => readBatch(source('t', { startingOffsets: 'latest' }))).toThrow("starting offset can't be latest")
    expect(() => readBatch(source('t', { 'kafka.security.protocol': 'NOPE' }))).toThrow('security.protocol')
  })
})
