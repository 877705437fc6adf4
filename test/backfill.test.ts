/** A backfill is a query of its own: its name and options, its frozen end, and what happens when it dies. */
import { describe, expect, it, test } from 'vitest'
import { backfillOf } from '../src/backfill.ts'
import { parseBackfillOptions } from '../src/batch-options.ts'
import type { BatchContext } from '../src/context.ts'
import { isSluiceError } from '../src/errors.ts'
import { defineQuery, deltaTable, kafka, t } from '../src/index.ts'
import type { KafkaOptions } from '../src/index.ts'
import { addPartitions, append, createTopic } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { TTL_MS, runToEnd, world } from './support/world.ts'
import type { ProcessSetUp, World } from './support/world.ts'

const range = { startingOffsets: 'earliest', endingTimestamp: '5' }

describe('the query of a backfill', () => {
  const options: KafkaOptions = {
    'kafka.bootstrap.servers': 'a:1',
    subscribe: 't',
    startingTimestamp: 1,
    maxOffsetsPerTrigger: 10,
  }
  const live = defineQuery({
    name: 'orders',
    source: kafka(options),
    schema: { at: t.long.notNull() },
    map: (record) => ({ at: record.offset }),
    sink: deltaTable('orders'),
  })

  test('has its own name, the same sink and mapping, and ends', () => {
    const january = backfillOf(live, 'january', range)
    expect(january).toMatchObject({
      name: 'orders.backfill.january',
      sink: live.sink,
      mapping: live.mapping,
      trigger: { kind: 'availableNow' },
    })
    const bronze = defineQuery({ name: 'raw', source: kafka(options), sink: deltaTable('raw') })
    expect(backfillOf(bronze, 'x', range)).toMatchObject({ name: 'raw.backfill.x', mapping: null })
  })

  test('takes options in place of its own, in any case, and no start of the live query', () => {
    const { source } = backfillOf(live, 'x', {
      ...range,
      MAXOFFSETSPERTRIGGER: '7',
      'kafka.isolation.level': 'read_committed',
    })
    expect(parseBackfillOptions({ ...source.options }, () => undefined)).toMatchObject({
      startingOffsets: { kind: 'earliest' },
      endingOffsets: { kind: 'globalTimestamp', timestamp: 5n },
      maxOffsetsPerTrigger: 7n,
      isolationLevel: 'read_committed',
      strategy: { topics: ['t'] },
      startOptions: ['startingOffsets', 'endingTimestamp'],
      warnings: [],
    })
  })

  test.each([
    {},
    { startingOffsets: 'earliest' },
    { endingOffsets: 'latest' },
    { startingOffsetsByTimestampStrategy: 'latest', endingOffsets: 'latest' },
  ])('is refused where %j does not name its range', (given) => {
    expect(() => backfillOf(live, 'x', given)).toThrow(
      'a backfill names its range: give a starting and an ending option'
    )
  })

  test('is refused for a name that cannot be part of a key', () => {
    expect(() => backfillOf(live, 'jan/feb', range)).toThrow("Query 'orders.backfill.jan/feb': a name has")
  })
})

/** A process that runs a backfill on a world. */
function backfill(subject: World, raw: Record<string, unknown>, setUp: ProcessSetUp = {}): BatchContext {
  const given = {
    'kafka.bootstrap.servers': 'memory:1',
    subscribe: [...subject.kafka.topics.keys()].join(),
    maxOffsetsPerTrigger: 4,
    ...raw,
  }
  return { ...subject.process(setUp), options: parseBackfillOptions(given, () => undefined) }
}

const records = (partition: number, from: number, until: number): string[] =>
  Array.from({ length: until - from }, (_, i) => `t-${partition}@${from + i}`)

const entries = (subject: World): string[] =>
  [...subject.log].flatMap(([log, byId]) => [...byId.keys()].map((id) => `${log}/${id}`))

describe('a backfill', () => {
  const between = { startingOffsets: '{"t":{"0":2,"1":-2}}', endingOffsets: '{"t":{"0":8,"1":-1}}' }

  test('lands its range in batches, and nothing that comes later', async () => {
    const subject = world({ t: [10, 5] })
    expect(await runToEnd(backfill(subject, between))).toEqual({ kind: 'finished' })
    const landed = [...records(0, 2, 8), ...records(1, 0, 5)].toSorted()
    expect(rowsOf(subject.table)).toEqual(landed)
    expect(subject.table.commits.length).toBeGreaterThan(1)
    // Another run: its end is the first one's, whatever the topic and the options say now.
    append(subject.kafka, 't', 1, 3)
    addPartitions(subject.kafka, 't', [4])
    const moved = { startingOffsets: 'earliest', endingOffsets: 'latest' }
    expect(await runToEnd(backfill(subject, moved))).toEqual({ kind: 'finished' })
    expect(rowsOf(subject.table)).toEqual(landed)
  })

  test('that dies after its first batch goes on to the end of its first plan', async () => {
    const subject = world({ t: [10, 5] })
    const hook = (point: string): void => {
      if (point === 'after log.add commits/0') throw new Error('died')
    }
    await expect(runToEnd(backfill(subject, between, { hook }))).rejects.toThrow('died')
    append(subject.kafka, 't', 1, 3)
    subject.clock.time += TTL_MS + 1
    await runToEnd(backfill(subject, between))
    expect(rowsOf(subject.table)).toEqual([...records(0, 2, 8), ...records(1, 0, 5)].toSorted())
  })

  const refused = async (subject: World, raw: Record<string, unknown>): Promise<string> => {
    const failure = await runToEnd(backfill(subject, raw)).then(
      () => 'it ran',
      (error: unknown) => (isSluiceError(error) ? `${error.name} ${error.message}` : String(error))
    )
    expect(subject.table.commits).toEqual([])
    return failure
  }

  test.each([
    [
      'a start above its end',
      { startingOffsets: '{"t":{"0":9}}', endingTimestamp: 3 },
      'RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET The resolved start offset 9 is greater than the resolved end offset 3',
    ],
    [
      'an end beyond the log',
      { startingOffsets: 'earliest', endingOffsets: '{"t":{"0":11}}' },
      'END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST',
    ],
    [
      'partitions that do not match',
      { startingOffsets: 'earliest', endingOffsets: '{"t":{"0":1,"1":1}}' },
      'KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED endingOffsets must name',
    ],
  ])('is refused for %s before anything is frozen', async (_what, raw, message) => {
    const subject = world({ t: [10] })
    expect(await refused(subject, raw)).toContain(message)
    expect(await subject.process().log.get({ log: 'meta', id: 'sources/0' }, new AbortController().signal)).toBeNull()
    // So a corrected one runs under the same name.
    await runToEnd(backfill(subject, { startingOffsets: 'earliest', endingOffsets: '{"t":{"0":3}}' }))
    expect(rowsOf(subject.table)).toEqual(records(0, 0, 3))
  })

  test('of a topic that was deleted and created again in the meantime fails by name, and reads nothing of the new one', async () => {
    const subject = world({ t: [10] })
    const hook = (point: string): void => {
      if (point === 'after log.add commits/0') throw new Error('died')
    }
    await expect(
      runToEnd(backfill(subject, { startingOffsets: 'earliest', endingOffsets: 'latest' }, { hook }))
    ).rejects.toThrow('died')
    const landed = rowsOf(subject.table)
    createTopic(subject.kafka, 't', [10])
    subject.clock.time += TTL_MS + 1
    await expect(
      runToEnd(backfill(subject, { startingOffsets: 'earliest', endingOffsets: 'latest' }))
    ).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
    expect(rowsOf(subject.table)).toEqual(landed)
  })
})

describe('a backfill that dies', () => {
  const between = { startingOffsets: '{"t":{"0":1,"1":0}}', endingOffsets: '{"t":{"0":5,"1":-1}}' }
  const isEffect = (point: string): boolean => / (log\.add|sink\.(stage|commit))/.test(point)
  const expected = [...records(0, 1, 5), ...records(1, 0, 3)].toSorted()

  async function effects(): Promise<string[]> {
    const points: string[] = []
    const subject = world({ t: [6, 3] })
    await runToEnd(backfill(subject, between, { hook: (point) => void (isEffect(point) && points.push(point)) }))
    expect(rowsOf(subject.table)).toEqual(expected)
    return points
  }

  it('at any of its effects goes on with the same range: each record once', async () => {
    const points = await effects()
    expect(points).toContain('before log.add runs/backfill/end')
    for (const n of points.keys()) {
      const subject = world({ t: [6, 3] })
      let at = 0
      const hook = (point: string): void => {
        if (isEffect(point) && at++ >= n) throw new Error('died')
      }
      await runToEnd(backfill(subject, between, { hook })).catch(() => {})
      expect(at).toBeGreaterThan(n)
      // Before the end is frozen it may still move with the log.
      if (entries(subject).some((key) => key.includes('backfill'))) append(subject.kafka, 't', 1, 2)
      subject.clock.time += TTL_MS + 1
      await runToEnd(backfill(subject, between))
      expect([points[n], rowsOf(subject.table)]).toEqual([points[n], expected])
    }
  })
})
