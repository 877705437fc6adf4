/** Where a query starts and that it goes on from its log, on a real broker into a Delta table. */
import { afterAll, describe, expect, inject, test } from 'vitest'
import { openDeltaSession } from '../support/delta-session.ts'
import { removeDirectory, runLocally, temporaryDirectory } from '../support/local-run.ts'
import { numbered, openQuery } from '../support/query-run.ts'
import type { Options } from '../support/query-run.ts'
import { openTopics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const tables = openDeltaSession()
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  await tables.close()
})

const open = (options: Options) => openQuery({ options: { 'kafka.bootstrap.servers': bootstrap, ...options }, tables })

/** p0 has records at 1000, 2000 and 3000 ms, p1 at 1000 and 1500. */
async function quietTopic(): Promise<string> {
  const topic = await topics.create({ partitions: 2 })
  const at = (partition: number, times: readonly number[]) =>
    times.map((time) => ({ partition, value: `${partition}@${time}`, timestamp: String(time) }))
  await topics.produce(topic, [...at(0, [1000, 2000, 3000]), ...at(1, [1000, 1500])])
  return topic
}

describe('a partition without a record at or after the timestamp', () => {
  const byName = (topic: string): Options => ({ subscribe: topic })
  const byPattern = (topic: string): Options => ({ subscribePattern: `${topic}$` })
  const specific = (topic: string): Options => ({ startingOffsetsByTimestamp: `{"${topic}":{"0":2000,"1":2000}}` })
  const global = (): Options => ({ startingTimestamp: 2000 })

  test.each([
    { id: 'K53', name: 'by name, specific timestamps', strategy: byName, start: specific },
    { id: 'K54', name: 'by name, global timestamp', strategy: byName, start: global },
    { id: 'K55', name: 'by pattern, specific timestamps', strategy: byPattern, start: specific },
    { id: 'K56', name: 'by pattern, global timestamp', strategy: byPattern, start: global },
  ])('$id B08: $name: fails by name, or starts at its end', async ({ strategy, start }) => {
    const topic = await quietTopic()
    await using query = await open({ ...strategy(topic), ...start(topic) })
    for (const chosen of [{}, { startingOffsetsByTimestampStrategy: 'error' }])
      await expect(query.run({ options: chosen })).rejects.toMatchObject({
        name: 'KAFKA_NO_OFFSET_FOR_TIMESTAMP',
        message: expect.stringContaining(
          `No offset matched from request of topic-partition ${topic}-1 and timestamp 2000.`
        ),
      })
    expect(query.batches()).toEqual([])
    const options = { startingOffsetsByTimestampStrategy: 'Latest' }
    expect(await query.run({ options })).toMatchObject([{ ranges: ['0 [1, 3)'] }])
    await topics.produce(topic, [{ partition: 1, value: 'later', timestamp: '1' }])
    expect(await query.run({ options })).toMatchObject([{}, { ranges: ['1 [2, 3)'] }])
    expect(await query.values()).toEqual(['0@2000', '0@3000', 'later'])
  })

  test('B08: startingTimestamp wins over the map, the map over startingOffsets', async () => {
    const topic = await quietTopic()
    const map = { ...specific(topic), startingOffsets: 'neither looked at nor refused' }
    const options = { ...byName(topic), ...map, startingOffsetsByTimestampStrategy: 'latest' }
    await using both = await open({ ...options, startingTimestamp: 1400 })
    expect(await both.run()).toMatchObject([{ ranges: ['0 [1, 3)', '1 [1, 2)'] }])
    await using mapOnly = await open(options)
    expect(await mapOnly.run()).toMatchObject([{ ranges: ['0 [1, 3)'] }])
  })

  test.each([
    { id: 'B07 (d) K142', map: '{"0":1000}', named: 'missing' },
    { id: 'K143', map: '{"0":1000,"1":1000,"2":1000}', named: 'extra' },
  ])('$id: a map that names other partitions is refused, nothing is planned', async ({ map, named }) => {
    const topic = await topics.create({ partitions: 2 })
    const startingOffsetsByTimestamp = `{"${topic}":${map}}`
    await using query = await open({ subscribe: topic, startingOffsetsByTimestamp, 'fetchOffset.retryIntervalMs': 10 })
    await expect(query.run()).rejects.toMatchObject({
      name: 'KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED',
      parameters: { position: 'start', [named]: `${topic}-${named === 'missing' ? 1 : 2}` },
    })
    expect(query.batches()).toEqual([])
  })
})

describe('the start', () => {
  test('X5 K5 K15: is frozen by the first run, even if it planned no batch', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(3))
    await using query = await open({ subscribe: topic, startingOffsets: 'latest' })
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
    await using query = await open({ assign: `{"${topic}":[0,7]}`, 'fetchOffset.numRetries': 1 })
    expect(await query.run()).toMatchObject([{ ranges: ['0 [0, 1)'] }])
    await topics.delete(topic)
    for (const failOnDataLoss of [true, false])
      await expect(query.run({ options: { failOnDataLoss } })).rejects.toMatchObject({
        name: 'TOPIC_NOT_FOUND',
        parameters: { topics: topic },
      })
    expect(query.batches()).toHaveLength(1)
  })

  test('K60: names and words in any case', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(2))
    await using latest = await open({ subscribe: topic, startingoffsets: 'laTest', startingOffsets: 'laTest' })
    await using earliest = await open({ SUBSCRIBE: topic, startingOffsets: 'earLiEst' })
    await Promise.all([latest.run(), earliest.run()])
    expect([await latest.values(), await earliest.values()]).toEqual([[], ['0', '1']])
  })

  test('that names a position beyond the end is asked for again as the options say, then refused: nothing is frozen', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(20))
    const options = { subscribe: topic, startingOffsets: `{"${topic}":{"0":50}}`, 'fetchOffset.retryIntervalMs': 10 }
    await using query = await open(options)
    await expect(query.run()).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringContaining(`${topic}-0: offset was changed from 50 to 20`),
    })
    expect(query.batches()).toEqual([])
    await query.run({ options: { startingOffsets: `{"${topic}":{"0":15}}` } })
    expect(await query.values()).toEqual(['15', '16', '17', '18', '19'])
  })
})
