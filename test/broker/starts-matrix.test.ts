/**
 * Spark's 15 tests of where a source starts, each with failOnDataLoss and without: assign, subscribe and pattern from latest,
 * earliest, specific offsets, specific timestamps and one timestamp; then stops and starts, and partitions grown from 5 to 10.
 */
import { afterAll, describe, expect, inject, test } from 'vitest'
import { openDeltaSession } from '../support/delta-session.ts'
import { numbered, openQuery } from '../support/query-run.ts'
import type { OpenQuery, Options } from '../support/query-run.ts'
import { openTopics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const tables = openDeltaSession()
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  await tables.close()
})

const five = [0, 1, 2, 3, 4]

/** What selects the topic; a pattern finds it by a part of its name. */
const strategies: Readonly<Record<string, (topic: string) => Options>> = {
  assign: (topic) => ({ assign: JSON.stringify({ [topic]: five }) }),
  'subscribing topic by name': (topic) => ({ subscribe: topic }),
  'subscribing topic by pattern': (topic) => ({ subscribePattern: `${topic.slice(2, -2)}.` }),
}

interface Start {
  readonly options: (topic: string) => Options
  /** Of each of the five partitions the first of its records that is read; they have three, at 1000, 2000 and 3000 ms. */
  readonly first: readonly number[]
}

const starts: Readonly<Record<string, Start>> = {
  latest: { options: () => ({ startingOffsets: 'latest' }), first: [3, 3, 3, 3, 3] },
  earliest: { options: () => ({ startingOffsets: 'earliest' }), first: [0, 0, 0, 0, 0] },
  'specific offsets': {
    options: (topic) => ({ startingOffsets: JSON.stringify({ [topic]: { 0: -2, 1: -1, 2: 0, 3: 1, 4: 2 } }) }),
    first: [0, 3, 0, 1, 2],
  },
  'specific timestamps': {
    options: (topic) => ({
      startingOffsetsByTimestamp: JSON.stringify({ [topic]: { 0: 0, 1: 1000, 2: 1001, 3: 2000, 4: 2999 } }),
      startingOffsets: 'latest', // not looked at
    }),
    first: [0, 0, 1, 1, 2],
  },
  'global timestamp': { options: () => ({ startingTimestamp: 1500 }), first: [1, 1, 1, 1, 1] },
}

const ids = {
  assign: ['K38', 'K39', 'K40', 'K41', 'K42'],
  'subscribing topic by name': ['K43', 'K44', 'K45', 'K46', 'K47'],
  'subscribing topic by pattern': ['K48', 'K49', 'K50', 'K51', 'K52'],
}
const rows = Object.entries(ids).flatMap(([strategy, row]) =>
  Object.keys(starts).map((start, i) => ({ id: row[i] ?? '', strategy, start }))
)

/** Value and partition say where a record belongs: `partition` * 100 + position. */
const valuesOf = (partition: number, from: number, until: number): string[] =>
  Array.from({ length: until - from }, (_, i) => String(partition * 100 + from + i))

async function produceTo(topic: string, partitions: readonly number[], first: number): Promise<void> {
  await topics.produce(
    topic,
    partitions.flatMap((partition) => numbered(1, { partition, first: partition * 100 + first }))
  )
}

describe('with failOnDataLoss and without', () => {
  test.each(rows)('$id: $strategy from $start', async ({ strategy, start }) => {
    const { options, first } = starts[start] ?? { options: () => ({}), first: [] }
    const topic = await topics.create({ partitions: 5 })
    await topics.produce(
      topic,
      [0, 1, 2].flatMap((at) =>
        five.map((partition) => ({
          partition,
          value: String(partition * 100 + at),
          timestamp: String(1000 * (at + 1)),
        }))
      )
    )
    const common = { 'kafka.bootstrap.servers': bootstrap, ...strategies[strategy]?.(topic), ...options(topic) }
    await using strict = await openQuery({ options: { ...common, failOnDataLoss: true }, tables })
    await using tolerant = await openQuery({ options: { ...common, failOnDataLoss: false }, tables })
    const both: readonly OpenQuery[] = [strict, tolerant]
    const run = async (): Promise<void> => void (await Promise.all(both.map((query) => query.run())))

    await run()
    await produceTo(topic, five, 3) // while it is stopped
    await run()
    const isGrown = strategy !== 'assign'
    if (isGrown) await topics.grow(topic, 10)
    await produceTo(topic, isGrown ? [...five, 5, 6, 7, 8, 9] : five, 4)
    await run()
    const added = isGrown ? [5, 6, 7, 8, 9].flatMap((partition) => valuesOf(partition, 4, 5)) : []
    const expected = [...five.flatMap((partition) => valuesOf(partition, first[partition] ?? 0, 5)), ...added]
    for (const query of both) expect(await query.values()).toEqual(expected)
  })
})
