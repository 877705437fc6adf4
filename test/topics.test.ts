/** Starts and topics that change, over everything durable in memory. */
import { describe, expect, it } from 'vitest'
import { planBatch } from '../src/batch.ts'
import { decodeOffsets, logKeys } from '../src/log.ts'
import { offsetsToJson } from '../src/offsets.ts'
import type { PartitionOffsets, TopicPartition } from '../src/offsets.ts'
import type { OffsetReader } from '../src/ports.ts'
import { decodeStart } from '../src/start-entry.ts'
import { addPartitions, append, createTopic } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { newRun, runToEnd, world } from './support/world.ts'
import type { World } from './support/world.ts'

const { signal } = new AbortController()
const pattern = { subscribe: undefined, subscribePattern: '^t' }

const textsOf = (w: World, log: string): string[] =>
  [...(w.log.get(`query@1/${log}`) ?? new Map<string, { entry: string }>()).values()].map(({ entry }) => entry)
/** The end of each batch, and the start of the query. */
const ends = (w: World): string[] => textsOf(w, 'offsets').map((text, id) => offsetsToJson(decodeOffsets(id, text).end))
const frozen = (w: World): string[] => {
  const stored = w.log.get(`query@1/${logKeys.source.log}`)?.get(logKeys.source.id)
  return stored === undefined ? [] : [offsetsToJson(decodeStart(stored.entry).start)]
}
const labels = (topic: string, partition: number, from: number, until: number): string[] =>
  Array.from({ length: until - from }, (_, i) => `${topic}-${partition}@${from + i}`)

describe('a start by timestamp (offsets are timestamps here)', () => {
  it('asks for the end first, so that a record that comes in between is neither skipped nor lost', async () => {
    const w = world(
      { t: [3, 1] },
      { startingTimestamp: 3, startingOffsetsByTimestampStrategy: 'latest', startingOffsets: '' }
    )
    const asked: string[] = []
    w.kafka.before = (operation) => {
      asked.push(operation)
      // Between the two questions, and right after the match.
      if (operation === 'forTimestamps') append(w.kafka, 't', 0, 2)
      if (asked.at(-2) === 'forTimestamps') append(w.kafka, 't', 1, 1)
    }
    await runToEnd(w.process())
    expect(asked.indexOf('latest')).toBeLessThan(asked.indexOf('forTimestamps'))
    expect(frozen(w)).toEqual(['{"t":{"0":3,"1":1}}'])
    expect(rowsOf(w.table)).toEqual([...labels('t', 0, 3, 5), ...labels('t', 1, 1, 2)].toSorted())
  })

  it('without a match and with the strategy error plans nothing and freezes nothing', async () => {
    const w = world({ t: [3, 1] }, { startingTimestamp: 2 })
    await expect(runToEnd(w.process())).rejects.toMatchObject({
      name: 'KAFKA_NO_OFFSET_FOR_TIMESTAMP',
      message: expect.stringContaining('topic-partition t-1 and timestamp 2'),
    })
    expect([frozen(w), ends(w)]).toEqual([[], []])
    append(w.kafka, 't', 1, 2)
    await runToEnd(w.process())
    expect(frozen(w)).toEqual(['{"t":{"0":2,"1":2}}'])
  })

  it('K15: the stored start counts, whatever the options say later', async () => {
    const w = world({ t: [5] }, { startingTimestamp: 3 })
    const dying = w.process({
      hook: (point) => {
        if (point === 'before log.add offsets/0') throw new Error('killed')
      },
    })
    await expect(runToEnd(dying)).rejects.toThrow('killed')
    await runToEnd(w.process({ options: { startingTimestamp: undefined, startingOffsets: 'earliest' } }))
    expect(rowsOf(w.table)).toEqual(labels('t', 0, 3, 5))
  })
})

describe('a pattern', () => {
  it('K12: an empty offset map is never logged, neither at first nor when the only topic is deleted', async () => {
    const w = world({}, { ...pattern, startingOffsets: 'latest', failOnDataLoss: false })
    await runToEnd(w.process())
    expect([frozen(w), ends(w)]).toEqual([['{}'], []])
    createTopic(w.kafka, 't1', [2]) // after the start: from its earliest offset, whatever the option says
    await runToEnd(w.process())
    w.kafka.topics.delete('t1')
    await runToEnd(w.process())
    await runToEnd(w.process())
    expect(ends(w)).toEqual(['{"t1":{"0":2}}'])
    createTopic(w.kafka, 't2', [1])
    createTopic(w.kafka, 'u', [9])
    await runToEnd(w.process())
    expect(ends(w)).toEqual(['{"t1":{"0":2}}', '{"t2":{"0":1}}'])
    expect(rowsOf(w.table)).toEqual([...labels('t1', 0, 0, 2), ...labels('t2', 0, 0, 1)])
  })

  it('a run that finds no topic keeps no end, and reads what it finds later', async () => {
    const w = world({}, pattern)
    const run = newRun(true)
    expect(await planBatch(w.process(), run, signal)).toMatchObject({ kind: 'noNewData' })
    expect(textsOf(w, 'runs')).toEqual([])
    createTopic(w.kafka, 't', [1])
    expect(await planBatch(w.process(), run, signal)).toMatchObject({ kind: 'planned' })
  })

  it('K11: a matched topic is deleted and another one created: the query goes on with the new one', async () => {
    const w = world({ t1: [3], other: [1] }, { ...pattern, failOnDataLoss: false })
    await runToEnd(w.process())
    w.kafka.topics.delete('t1')
    createTopic(w.kafka, 't2', [2])
    await runToEnd(w.process())
    expect(ends(w)).toEqual(['{"t1":{"0":3}}', '{"t2":{"0":2}}'])
    expect(rowsOf(w.table)).toEqual([...labels('t1', 0, 0, 3), ...labels('t2', 0, 0, 2)])
  })

  it('a vanished topic is an error by name with failOnDataLoss, and moves no position', async () => {
    const w = world({ t1: [3], t2: [1] }, pattern)
    await runToEnd(w.process())
    w.kafka.topics.delete('t1')
    append(w.kafka, 't2', 0, 1)
    const failing = (): Promise<unknown> => runToEnd(w.process())
    for (const run of [failing, failing])
      await expect(run()).rejects.toMatchObject({
        name: 'KAFKA_DATA_LOSS',
        message: expect.stringContaining('t1-0: the partition is gone, it was read up to offset 3'),
      })
    expect(ends(w)).toHaveLength(1)
  })
})

describe('what a plan says that it knows', () => {
  it.each([
    { level: 'read_uncommitted', asks: 'latest' },
    { level: 'read_committed', asks: 'highWatermarks' },
  ] as const)(
    'X8: partitions, ids and the position below which no end is believed at once ($level)',
    async ({ level, asks }) => {
      const w = world({ t: [3, 1] }, { 'kafka.isolation.level': level })
      await runToEnd(w.process())
      const context = w.process()
      const said: unknown[] = []
      const offsets: OffsetReader = {
        ...context.offsets,
        assigned: (within, known) => {
          said.push(
            known?.partitions.map(({ topic, partition }) => `${topic}-${partition}`),
            known?.topicIds.has('t')
          )
          return context.offsets.assigned(within, known)
        },
        [asks]: (partitions: readonly TopicPartition[], within: AbortSignal, atLeast?: PartitionOffsets) => {
          said.push(offsetsToJson(atLeast ?? new Map()))
          return context.offsets[asks](partitions, within)
        },
      }
      await runToEnd({ ...context, offsets })
      expect(said).toEqual([['t-0', 't-1'], true, '{"t":{"0":3,"1":1}}'])
    }
  )
})

describe('a topic created again', () => {
  it('before the first batch is known by the id that was frozen with the start, though its offsets look valid', async () => {
    const w = world({ t: [3] }, { startingOffsets: 'latest' })
    const dying = w.process({
      hook: (point) => {
        if (point === 'before log.add offsets/0') throw new Error('killed')
      },
    })
    await expect(runToEnd(dying)).rejects.toThrow('killed')
    createTopic(w.kafka, 't', [5])
    await expect(runToEnd(w.process())).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringContaining('deleted and created again'),
    })
    await runToEnd(w.process({ options: { failOnDataLoss: false } }))
    expect(rowsOf(w.table)).toEqual(labels('t', 0, 0, 5))
  })
})

describe('partitions that appear later', () => {
  it('B11: begin at their earliest offset, whatever the start option', async () => {
    const w = world({ t: [5] }, { startingOffsets: 'latest' })
    await runToEnd(w.process()) // begins at 5
    append(w.kafka, 't', 0, 2)
    addPartitions(w.kafka, 't', [0, 4])
    await runToEnd(w.process())
    expect(ends(w).at(-1)).toBe('{"t":{"0":7,"1":0,"2":4}}')
    expect(rowsOf(w.table)).toEqual([...labels('t', 0, 5, 7), ...labels('t', 2, 0, 4)])
  })

  it('K57: a batch that failed is replayed past partitions that were added, and fails in the mapping alone', async () => {
    const w = world({ t: [3] })
    const failing = () => ({
      ...w.process(),
      toRows: () => {
        throw new Error('the mapping fails')
      },
    })
    await expect(runToEnd(failing())).rejects.toThrow('the mapping fails')
    addPartitions(w.kafka, 't', [2])
    await expect(runToEnd(failing())).rejects.toThrow('the mapping fails')
    expect(ends(w)).toEqual(['{"t":{"0":3}}'])
    await runToEnd(w.process())
    expect(rowsOf(w.table)).toEqual([...labels('t', 0, 0, 3), ...labels('t', 1, 0, 2)])
  })
})
