/** What a trigger takes, end to end: a minimum, Trigger.once, the frozen end. A real broker, a Delta table that delta-rs reads. */
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { BatchContext, Run } from '../../src/context.ts'
import { t } from '../../src/index.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { byHand, once, oneTrigger, tick } from '../support/one-trigger.ts'
import { numbered, openQuery, positionsIn } from '../support/query-run.ts'
import type { OpenQuery, QueryParts } from '../support/query-run.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const tables = openDeltaSession()
let topics: Topics
beforeAll(async () => {
  topics = await openTopics(bootstrap)
})
afterAll(async () => {
  await topics.close()
  await tables.close()
})

type TopicQuery = OpenQuery & {
  readonly topic: string
  /** Adds so many records to each partition. */
  fill(...counts: number[]): Promise<void>
}

async function queryOver(
  sizes: readonly number[],
  options: QueryParts['options'] = {},
  mapping?: QueryParts['mapping']
): Promise<TopicQuery> {
  const topic = await topics.create({ partitions: sizes.length })
  const fill = async (...counts: number[]): Promise<void> => {
    const records = counts.flatMap((count, partition) => numbered(count, { partition }))
    if (records.length > 0) await topics.produce(topic, records)
  }
  await fill(...sizes)
  const common = { options: { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, ...options }, tables }
  return { ...(await openQuery(mapping === undefined ? common : { ...common, mapping })), topic, fill }
}

const rangesOf = (query: OpenQuery): (readonly string[])[] => query.batches().map(({ ranges }) => ranges)
const rowsOf = (query: OpenQuery): (number | null)[] => query.batches().map(({ rows }) => rows)

test('K8: 16 run, 6 wait, 18 run, 10 wait until 5 s have passed; Trigger.once ignores the minimum', async () => {
  await using query = await queryOver([16, 0, 0], { minOffsetsPerTrigger: 15, maxTriggerDelay: '5s' })
  const clock = { time: 1_800_000_000_000, now: () => clock.time }
  const change = (context: BatchContext): BatchContext => ({ ...context, clock })
  /** A process of its own, as each tick of a schedule. */
  const check = (run: Run = tick()) => query.inContext((context) => oneTrigger(context, run), { change })
  expect(await check()).toEqual([16, 0, 0])
  await query.fill(0, 6)
  expect(await check()).toBe('delayed')
  await query.fill(0, 0, 12)
  expect(await check()).toEqual([0, 6, 12])
  await query.fill(10)
  clock.time += 4999
  expect(await check()).toBe('delayed')
  clock.time += 1
  expect(await check()).toEqual([10, 0, 0])
  await query.fill(0, 1)
  expect(await check()).toBe('delayed')
  expect(await check(byHand())).toEqual([0, 1, 0])
  await query.fill(0, 0, 1)
  expect(await check()).toBe('delayed')
  expect(await check(once())).toEqual([0, 0, 1])
  expect(await query.positions()).toEqual([...positionsIn(0, 0, 26), ...positionsIn(1, 0, 7), ...positionsIn(2, 0, 13)])
})

test('X2: an AvailableNow run ends with the tail unread; the next one reads it', async () => {
  await using query = await queryOver([20], { minOffsetsPerTrigger: 6, maxOffsetsPerTrigger: 8 })
  await query.run()
  expect(rangesOf(query)).toEqual([['0 [0, 8)'], ['0 [8, 16)']])
  await query.run()
  expect(rangesOf(query).at(-1)).toEqual(['0 [16, 20)'])
})

test('K7: Trigger.once ignores the cap and takes everything, twice', async () => {
  await using query = await queryOver([101, 11, 1], { maxOffsetsPerTrigger: 10 })
  const run = () => query.inContext((context) => oneTrigger(context, once()))
  expect(await run()).toEqual([101, 11, 1])
  await query.fill(20, 0, 3)
  expect(await run()).toEqual([20, 0, 3])
  expect(rowsOf(query)).toEqual([113, 23])
})

test('a cap in bytes takes a sample first, then batches of about that size', async () => {
  await using query = await queryOver([0], { 'sluice.maxBytesPerTrigger': '20k' })
  await topics.produce(
    query.topic,
    Array.from({ length: 100 }, () => ({ partition: 0, value: Buffer.alloc(1024) }))
  )
  await query.run()
  expect(rowsOf(query)).toEqual([1, 20, 20, 20, 20, 19])
})

describe('the frozen end of AvailableNow', () => {
  /** The topic is created again once batch 0 is committed. */
  async function recreating(sizes: readonly number[], again: readonly number[], failOnDataLoss: boolean) {
    const query = await queryOver(sizes, { maxOffsetsPerTrigger: 5, failOnDataLoss })
    const hook = async (point: string): Promise<void> => {
      if (point !== 'after log.add commits/0') return
      await topics.delete(query.topic)
      await topics.createNamed(query.topic, { partitions: again.length })
      await query.fill(...again)
    }
    return { query, failure: await query.run({ hook }).catch((error: unknown) => error) }
  }

  test.each([true, false])(
    'K3: a topic recreated with fewer partitions fails by both sets, with failOnDataLoss=%s',
    async (failOnDataLoss) => {
      const { query, failure } = await recreating([2, 2, 2, 2, 2], [2, 2, 2], failOnDataLoss)
      const names = (count: number) => `{${Array.from({ length: count }, (_, p) => `${query.topic}-${p}`).join(', ')}}`
      expect(failure).toMatchObject({
        name: 'LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW',
        parameters: { tpsForLatestOffset: names(3), tpsForEndOffset: names(5) },
      })
      expect(rowsOf(query)).toEqual([5])
      await query[Symbol.asyncDispose]()
    }
  )

  test.each([true, false])(
    'K4: a topic recreated with fewer records fails by both maps, with failOnDataLoss=%s',
    async (failOnDataLoss) => {
      const { query, failure } = await recreating([15], [7], failOnDataLoss)
      expect(failure).toMatchObject({
        name: 'END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW',
        parameters: { latestOffset: `{${query.topic}-0: 7}`, endOffset: `{${query.topic}-0: 15}` },
      })
      expect(rowsOf(query)).toEqual([5])
      await query[Symbol.asyncDispose]()
    }
  )

  test('K57: partitions that come before a replay do not make it fail; the next run reads them', async () => {
    let isBroken = true
    const mapping = {
      schema: { partition: t.int.notNull() },
      map: ({ partition }: { partition: number }) => {
        if (isBroken) throw new Error('user code')
        return { partition }
      },
    }
    await using query = await queryOver([5], {}, mapping)
    const failed = { name: 'MAPPING_FAILED', message: expect.stringContaining('user code') }
    await expect(query.run()).rejects.toMatchObject(failed)
    await topics.grow(query.topic, 3)
    await query.fill(1, 0, 2)
    await expect(query.run()).rejects.toMatchObject(failed)
    expect(query.events()).toContainEqual(expect.objectContaining({ kind: 'planned', batchId: 0, replay: true }))
    isBroken = false
    await query.run()
    expect(rangesOf(query)).toEqual([['0 [0, 5)'], ['0 [5, 6)', '2 [0, 2)']])
    expect(rowsOf(query)).toEqual([5, 3])
  })
})
