/** Which topics a query reads, and topics and partitions that appear and vanish, on a real broker. */
import { afterAll, describe, expect, inject, test } from 'vitest'
import { createOffsetReader } from '../../src/kafka/offset-reader.ts'
import type { AssignedPartitions } from '../../src/ports.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { endsOf, numbered, openQuery } from '../support/query-run.ts'
import type { Options } from '../support/query-run.ts'
import { parse } from '../support/source-options.ts'
import { openTopics, uniqueTopic, waitUntil } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const tables = openDeltaSession()
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  await tables.close()
})
const { signal } = new AbortController()

const common = { 'kafka.bootstrap.servers': bootstrap, 'fetchOffset.retryIntervalMs': 10 }
const open = (options: Options) => openQuery({ options: { ...common, ...options }, tables })

/** What the options, as a user gives them, select now. */
async function assigned(options: Options): Promise<AssignedPartitions & { readonly names: readonly string[] }> {
  const reader = createOffsetReader(parse({ ...common, ...options }))
  const found = await reader.assigned(signal)
  await reader.close()
  return { ...found, names: found.partitions.map(({ topic, partition }) => `${topic}-${partition}`) }
}
const names = (topic: string, ...partitions: number[]): string[] =>
  partitions.map((partition) => `${topic}-${partition}`)

describe('the partitions of', () => {
  test('K168 K169 an assignment are exactly those that it lists', async () => {
    const topic = await topics.create({ partitions: 3 })
    const found = await assigned({ assign: `{"${topic}":[2,0]}` })
    expect(found.names).toEqual(names(topic, 0, 2))
    expect(found.topicIds.get(topic)).toMatch(/^[\w-]{22}$/)
  })

  test('K172 a pattern are all of the topics in whose name it finds a match, also in the middle', async () => {
    const [a, b] = await Promise.all([
      topics.create({ prefix: 'eu.orders', partitions: 3 }),
      topics.create({ prefix: 'orders', partitions: 2 }),
    ])
    const other = await topics.create({ prefix: 'order_s' })
    const unique = [a, b, other].map((topic) => topic.slice(-8))
    const found = await assigned({ subscribePattern: `Orders-.*(?:${unique.join('|')})`.replace('O', '(?i)O') })
    expect(found.names).toEqual([...names(a, 0, 1, 2), ...names(b, 0, 1)])
    expect([...found.topicIds.keys()].toSorted()).toEqual([a, b])
    const anchored = await assigned({ subscribePattern: `^orders-.*(?:${unique.join('|')})$` })
    expect(anchored.names).toEqual(names(b, 0, 1))
  })

  test('a pattern are none of an internal topic', async () => {
    await waitUntil('asking for a group has made __consumer_offsets', async () => {
      await topics.admin.fetchOffsets({ groupId: uniqueTopic('group') }).catch(() => {}) // it is still being loaded
      return (await topics.admin.listTopics()).includes('__consumer_offsets')
    })
    const topic = await topics.create()
    const found = await assigned({ subscribePattern: `^__consumer_offsets$|${topic}` })
    expect(found.names).toEqual(names(topic, 0))
  })
})

describe('topics that change under a pattern, with failOnDataLoss=false', () => {
  const sorted = (values: readonly (string | null)[]): number[] => values.map(Number).toSorted((a, b) => a - b)
  const part = (): string => uniqueTopic('stress').replaceAll('-', '')

  test('K11: one is deleted and another one created: the query goes on with the new one', async () => {
    const prefix = part()
    const [first, second] = [`${prefix}-seems`, `${prefix}-bad`]
    await topics.createNamed(first, { partitions: 2 })
    await topics.produce(first, numbered(3))
    await using query = await open({ subscribePattern: `${prefix}-.*`, failOnDataLoss: false })
    await query.run()
    await topics.delete(first)
    await topics.createNamed(second)
    await topics.produce(second, numbered(2, { first: 10 }))
    const [, batch] = await query.run()
    expect([...(batch?.plan.end.keys() ?? [])]).toEqual([second])
    expect(batch?.commit?.dataLoss.map((loss) => `${loss.topic}-${loss.partition} ${loss.reason}`)).toEqual([
      `${first}-0 PARTITIONS_DELETED`,
      `${first}-1 PARTITIONS_DELETED`,
    ])
    expect(sorted(await query.values())).toEqual([0, 1, 2, 10, 11])
  })

  test('K12: the only one is deleted: no batch, and no entry with an empty map', async () => {
    const prefix = part()
    const topic = `${prefix}-only`
    await using query = await open({ subscribePattern: prefix, failOnDataLoss: false, startingOffsets: 'latest' })
    expect(await query.run()).toEqual([]) // nothing matches yet
    await topics.createNamed(topic)
    await topics.produce(topic, numbered(2))
    expect(await query.run()).toMatchObject([{ ranges: ['0 [0, 2)'] }]) // created after the start: from its beginning
    await topics.delete(topic)
    expect(await query.run()).toHaveLength(1)
    expect(await query.run()).toHaveLength(1)
    await topics.createNamed(topic)
    await topics.produce(topic, numbered(3, { first: 10 }))
    expect((await query.run()).map(endsOf)).toEqual([['0:2'], ['0:3']])
    expect(sorted(await query.values())).toEqual([0, 1, 10, 11, 12])
  })
})

test('B11: partitions added later begin at their earliest offset, whatever the start option', async () => {
  const topic = await topics.create()
  await topics.produce(topic, numbered(5))
  await using query = await open({ subscribe: topic, startingOffsets: 'latest' })
  await query.run()
  await topics.produce(topic, numbered(2, { first: 5 }))
  expect((await query.run()).at(-1)).toMatchObject({ ranges: ['0 [5, 7)'] })
  await topics.grow(topic, 3)
  await topics.produce(topic, numbered(4, { partition: 2, first: 20 }))
  const grown = (await query.run()).at(-1)
  expect(grown).toMatchObject({ ranges: ['2 [0, 4)'], rows: 4 })
  expect(grown && endsOf(grown)).toEqual(['0:7', '1:0', '2:4'])
  expect(await query.values()).toEqual(['5', '6', '20', '21', '22', '23'])
})
