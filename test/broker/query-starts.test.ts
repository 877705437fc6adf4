/** Where a query starts, and where it goes on: Spark's assign and subscribe tests, on a real broker into a Delta table. */
import { afterAll, describe, expect, inject, test } from 'vitest'
import { openDeltaSession } from '../support/delta-session.ts'
import { removeDirectory, runLocally, temporaryDirectory } from '../support/local-run.ts'
import { numbered, openQuery, type Options } from '../support/query-run.ts'
import { openTopics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const tables = openDeltaSession()
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  await tables.close()
})

const each = (partitions: readonly number[], first: number): { partition: number; value: string }[] =>
  partitions.flatMap((partition, i) => numbered(1, { partition, first: first + i }))
const upTo = (from: number, until: number): string[] => Array.from({ length: until - from }, (_, i) => `${from + i}`)
const five = [0, 1, 2, 3, 4]

/** Two queries side by side over one topic of five partitions: with failOnDataLoss and without. */
async function bothModes(options: Options, work: (both: Both) => Promise<void>): Promise<void> {
  const queries = await Promise.all(
    [true, false].map((failOnDataLoss) =>
      openQuery({ options: { 'kafka.bootstrap.servers': bootstrap, failOnDataLoss, ...options }, tables })
    )
  )
  try {
    await work({
      run: async () => void (await Promise.all(queries.map((query) => query.run()))),
      values: () => Promise.all(queries.map(async (query) => (await query.values()).toSorted(byNumber))),
    })
  } finally {
    for (const query of queries) await query[Symbol.asyncDispose]()
  }
}

interface Both {
  run(): Promise<void>
  /** Of the one's table and of the other's. */
  values(): Promise<readonly (readonly (string | null)[])[]>
}

const byNumber = (a: string | null, b: string | null): number => Number(a) - Number(b)
const inBoth = (...values: (readonly string[])[]): string[][] => [values.flat(), values.flat()]

/** The option that selects the topic; only subscribe finds partitions that are added. */
const strategies = {
  assign: (topic: string) => ({ assign: JSON.stringify({ [topic]: five }) }),
  subscribe: (topic: string) => ({ subscribe: topic }),
}

async function growToTen(topic: string, strategy: keyof typeof strategies, both: Both): Promise<readonly string[]> {
  if (strategy === 'assign') return []
  await topics.grow(topic, 10)
  await topics.produce(topic, each([5, 6, 7, 8, 9], 900))
  await both.run()
  return upTo(900, 905)
}

describe('both with failOnDataLoss and without', () => {
  test.each([
    { id: 'K38', strategy: 'assign' },
    { id: 'K43', strategy: 'subscribe' },
  ] as const)('$id: $strategy from latest skips what was there and reads what comes, once', async ({ strategy }) => {
    const topic = await topics.create({ partitions: 5 })
    await topics.produce(topic, each(five, 0))
    await bothModes({ ...strategies[strategy](topic), startingOffsets: 'latest' }, async (both) => {
      await both.run()
      await topics.produce(topic, each(five, 100))
      await both.run()
      await topics.produce(topic, each(five, 200)) // while it is stopped
      await both.run()
      const added = await growToTen(topic, strategy, both)
      expect(await both.values()).toEqual(inBoth(upTo(100, 105), upTo(200, 205), added))
    })
  })

  test.each([
    { id: 'K39', strategy: 'assign' },
    { id: 'K44', strategy: 'subscribe' },
  ] as const)('$id: $strategy from earliest reads everything once over several starts', async ({ strategy }) => {
    const topic = await topics.create({ partitions: 5 })
    await topics.produce(topic, each(five, 0))
    await bothModes({ ...strategies[strategy](topic), startingOffsets: 'earliest' }, async (both) => {
      await both.run()
      await topics.produce(topic, each(five, 100))
      await both.run()
      await both.run()
      const added = await growToTen(topic, strategy, both)
      expect(await both.values()).toEqual(inBoth(upTo(0, 5), upTo(100, 105), added))
    })
  })

  test.each([
    { id: 'K40', strategy: 'assign' },
    { id: 'K45', strategy: 'subscribe' },
  ] as const)('$id: $strategy from -2, -1, 0, 1 and 2 reads exactly what follows', async ({ strategy }) => {
    const topic = await topics.create({ partitions: 5 })
    await topics.produce(
      topic,
      five.flatMap((partition) => numbered(3, { partition, first: partition * 10 }))
    )
    const startingOffsets = JSON.stringify({ [topic]: { 0: -2, 1: -1, 2: 0, 3: 1, 4: 2 } })
    await bothModes({ ...strategies[strategy](topic), startingOffsets }, async (both) => {
      await both.run()
      const started = [upTo(0, 3), upTo(20, 23), upTo(31, 33), upTo(42, 43)]
      expect(await both.values()).toEqual(inBoth(...started))
      await both.run()
      await topics.produce(topic, each(five, 100))
      await both.run()
      const added = await growToTen(topic, strategy, both)
      expect(await both.values()).toEqual(inBoth(...started, upTo(100, 105), added))
    })
  })
})

describe('the start', () => {
  test('X5 K5: is frozen by the first run, even if it planned no batch', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(3))
    const options = { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, startingOffsets: 'latest' }
    await using query = await openQuery({ options, tables })
    expect(await query.dieAt(/^before log\.add offsets\/0$/)).toEqual([])
    await topics.produce(topic, numbered(2, { first: 3 }))
    await query.run({ options: { startingOffsets: 'earliest' } })
    expect(query.events()).toContainEqual({ kind: 'resumed', offsets: `{"${topic}":{"0":3}}` })
    expect(await query.values()).toEqual(['3', '4'])
  })

  test('B06: is not used by a resumed query, which says so in one warning; another name reads again', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(5))
    const directory = await temporaryDirectory()
    const run = (startingOffsets: string, name: string) =>
      runLocally({
        directory,
        name,
        table: name,
        options: { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, startingOffsets },
      })
    try {
      expect(await run('earliest', 'query')).toMatchObject({ code: 0, stderr: '' })
      await topics.produce(topic, numbered(3, { first: 5 }))
      const fromTwo = `{"${topic}":{"0":2}}`
      const resumed = await run(fromTwo, 'query')
      expect(resumed).toMatchObject({ code: 0, stdout: expect.stringMatching(/^batch 1 {2}3 rows/m) })
      expect(resumed.stderr).toMatch(/^warning: option 'startingOffsets' is not used.*another name.*\n$/)
      expect(resumed.stderr).toContain(`{"${topic}":{"0":5}}`)
      expect(await run(fromTwo, 'again')).toMatchObject({ code: 0, stderr: '' })
      const inTable = async (table: string): Promise<unknown[]> =>
        (await tables.read(`${directory}/warehouse/${table}`, { columns: ['offset'] })).rows
          .map(({ offset }) => Number(offset))
          .toSorted((a, b) => a - b)
      expect(await inTable('query')).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
      expect(await inTable('again')).toEqual([2, 3, 4, 5, 6, 7])
    } finally {
      await removeDirectory(directory)
    }
  })

  test('X17: a listed partition that does not exist is left out; a missing topic fails, tolerant or not', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(1))
    const options = { 'kafka.bootstrap.servers': bootstrap, assign: `{"${topic}":[0,7]}`, 'fetchOffset.numRetries': 1 }
    await using query = await openQuery({ options, tables })
    expect(await query.run()).toMatchObject([{ ranges: ['0 [0, 1)'] }])
    await topics.delete(topic)
    for (const failOnDataLoss of [true, false])
      await expect(query.run({ options: { failOnDataLoss } })).rejects.toMatchObject({
        name: 'TOPIC_NOT_FOUND',
        parameters: { topics: topic },
      })
    expect(query.batches()).toHaveLength(1)
  })
})
