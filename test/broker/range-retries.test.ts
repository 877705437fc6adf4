/** One warm reader that serves attempt after attempt: what the last one left behind never reaches the next. */
import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import type { RangeReader } from '../../src/ports.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { offsetsOf, rangeReaderFor, readRows, textsOf, type RangeRows } from '../support/range-rows.ts'
import { ownListener, startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap, proxied } = inject('kafka')
const FETCH = 1

let topics: Topics
let tool: ProducerTool
let proxy: TcpProxy
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  topics = await openTopics(bootstrap)
  proxy = await startTcpProxy(ownListener(proxied))
})
afterEach(() => proxy.setRule(undefined))
afterAll(async () => {
  await topics.close()
  await tool.stop()
  await proxy.close()
})

const upTo = (from: number, until: number): number[] => Array.from({ length: until - from }, (_, i) => from + i)

/** Records `value-<offset>` with a header each, in batches of ten. */
async function thousand(): Promise<string> {
  const topic = await topics.create()
  const producer = await tool.open({ 'linger.ms': 5 })
  for (let first = 0; first < 1000; first += 10)
    await producer.send(
      topic,
      upTo(first, first + 10).map((n) => ({ value: `value-${n}`, headers: [['n', String(n)]] }))
    )
  await producer.close()
  return topic
}

test('K147: a second attempt starts clean, though answers of the first are still on their way', async () => {
  const topic = await thousand()
  const late = Promise.withResolvers<'pass'>()
  const asked = Promise.withResolvers<void>()
  let fetches = 0
  proxy.setRule(({ apiKey }) => {
    if (apiKey !== FETCH || ++fetches !== 2) return 'pass'
    asked.resolve()
    return late.promise // the answer that the first attempt does not live to see
  })
  const reader = rangeReaderFor(proxy.bootstrap, {}, { 'max.partition.fetch.bytes': '2000' })
  const first = new AbortController()
  const attempt = readRows(reader, { topic, from: 0, until: 1000 }, { signal: first.signal })
  await asked.promise
  first.abort()
  await expect(attempt).rejects.toMatchObject({ name: 'ABORTED' })
  const second = readRows(reader, { topic, from: 0, until: 1000 })
  late.resolve('pass')
  expect(textsOf((await second).rows)).toEqual(upTo(0, 1000).map((n) => `value-${n}`))
  await reader.close()
})

test('K150: a hundred reads side by side of one partition, some given up and begun again, each see all of theirs', async () => {
  const topic = await thousand()
  const reader: RangeReader = rangeReaderFor(bootstrap, {}, { 'max.partition.fetch.bytes': '4000' })
  const gaveUp: unknown[] = []
  const read = async (n: number): Promise<RangeRows> => {
    const range = { topic, from: (n % 10) * 50, until: 1000 }
    if (n % 3 === 0) {
      const stop = new AbortController()
      const stopped = readRows(reader, range, {
        signal: stop.signal,
        onRow: (row) => void (row.offset > 500 && stop.abort()),
      })
      await stopped.catch((error: unknown) => gaveUp.push(error))
    }
    return readRows(reader, range)
  }
  const all = await Promise.all(upTo(0, 100).map(read))
  expect(gaveUp).toEqual(Array(34).fill(expect.objectContaining({ name: 'ABORTED' })))
  for (const [n, { rows }] of all.entries()) {
    const offsets = upTo((n % 10) * 50, 1000)
    expect(offsetsOf(rows)).toEqual(offsets)
    expect(rows.map(({ value, headers }) => [String(value), String(headers[0]?.[1])])).toEqual(
      offsets.map((offset) => [`value-${offset}`, String(offset)])
    )
  }
  await reader.close()
})
