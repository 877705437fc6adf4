import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import type { RangeReader } from '../../src/ports.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { offsetsOf, rangeReaderFor, readRows, textsOf } from '../support/range-rows.ts'
import { damaged, ownListener, startTcpProxy, type Fate, type TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, waitUntil, type Topics } from '../support/topics.ts'

const { bootstrap, proxied } = inject('kafka')
const FETCH = 1

let topics: Topics
let tool: ProducerTool
let proxy: TcpProxy
const readers: RangeReader[] = []
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  topics = await openTopics(bootstrap)
  proxy = await startTcpProxy(ownListener(proxied))
})
afterEach(async () => {
  proxy.setRule(undefined)
  await Promise.all(readers.splice(0).map((reader) => reader.close()))
})
afterAll(async () => {
  await topics.close()
  await tool.stop()
  await proxy.close()
})

function readerOf(...args: Parameters<typeof rangeReaderFor>): RangeReader {
  const reader = rangeReaderFor(...args)
  readers.push(reader)
  return reader
}

/** A topic of records "record-<offset>.", in `count` batches of `size` each. */
async function numbered(count: number, size = 1): Promise<string> {
  const topic = await topics.create()
  const producer = await tool.open({ 'linger.ms': 5, 'batch.size': 100_000 })
  for (let i = 0; i < count; i += size)
    await producer.send(
      topic,
      Array.from({ length: size }, (_, k) => ({ value: `record-${i + k}.` }))
    )
  await producer.close()
  return topic
}

const upTo = (count: number, from = 0): number[] => Array.from({ length: count - from }, (_, i) => from + i)

/** What becomes of the answers to Fetch requests, by the request's number from 1 on. */
const onFetch = (fateOf: (n: number, frame: Buffer) => Fate | Promise<Fate>): void => {
  let fetches = 0
  proxy.setRule(({ apiKey, frame }) => (apiKey === FETCH ? fateOf((fetches += 1), frame) : 'pass'))
}

describe('offsets that are gone when the range is read, B25', () => {
  test('fail the range with failOnDataLoss, each time the same way', async () => {
    const topic = await numbered(40, 4)
    await tool.deleteRecords(topic, { 0: 10 })
    const reader = readerOf(bootstrap)
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      const reading = readRows(reader, { topic, from: 5, until: 20 })
      await expect(reading).rejects.toMatchObject({
        name: 'KAFKA_DATA_LOSS',
        retryable: false,
        message: expect.stringContaining(`${topic}-0: offsets [5, 20) cannot be read`),
        cause: { message: expect.stringContaining('OFFSET_OUT_OF_RANGE') },
      })
    }
    expect(offsetsOf((await readRows(reader, { topic, from: 10, until: 20 })).rows)).toEqual(upTo(20, 10))
  })

  test('are skipped and named without it, and nothing outside of the range comes', async () => {
    const topic = await numbered(40, 4)
    await tool.deleteRecords(topic, { 0: 10 })
    const { rows, end } = await readRows(readerOf(bootstrap, { failOnDataLoss: false }), { topic, from: 5, until: 20 })
    expect(offsetsOf(rows)).toEqual(upTo(20, 10))
    const reason = 'COULD_NOT_READ_OFFSET_RANGE'
    expect(end.dataLoss).toEqual([{ topic, partition: 0, from: 5n, until: 10n, reason }])
  })

  test('may be the whole range, at the start of the log and beyond its end', async () => {
    const topic = await numbered(40, 4)
    await tool.deleteRecords(topic, { 0: 30 })
    const reader = readerOf(bootstrap, { failOnDataLoss: false })
    const reason = 'COULD_NOT_READ_OFFSET_RANGE'
    for (const [from, until] of [
      [5n, 20n],
      [50n, 60n],
    ] as const) {
      // prettier-ignore
      const { rows, end } = await readRows(reader, { topic, from, until })
      expect(rows).toEqual([])
      expect(end.dataLoss).toEqual([{ topic, partition: 0, from, until, reason }])
    }
    await expect(readRows(readerOf(bootstrap), { topic, from: 50, until: 60 })).rejects.toThrow('offsets [50, 60)')
  })
})

describe('bytes damaged on their way, B29', () => {
  test('come right at the second attempt', async () => {
    const topic = await numbered(10, 5)
    onFetch((n, frame) => (n === 1 ? damaged(frame, 'record-7') : 'pass'))
    const { rows } = await readRows(readerOf(proxy.bootstrap), { topic, from: 0, until: 10 })
    expect(textsOf(rows)).toEqual(upTo(10).map((i) => `record-${i}.`))
  })

  test('twice at one place fail the range naming it, and what came before stays', async () => {
    const topic = await numbered(10, 5)
    onFetch((_n, frame) => damaged(frame, 'record-7'))
    const before: number[] = []
    const onRow = (row: { offset: bigint }): void => void before.push(Number(row.offset))
    await expect(readRows(readerOf(proxy.bootstrap), { topic, from: 0, until: 10 }, { onRow })).rejects.toMatchObject({
      name: 'CORRUPT_RECORD_BATCH',
      parameters: { topic, partition: 0, offset: '5' },
    })
    expect(before).toEqual([0, 1, 2, 3, 4])
  })

  test('may be those around the records: the answer is asked for again', async () => {
    const topic = await numbered(10)
    const partitionCountAt = 4 + 4 + 4 + 2 + 4 + 4 + 2 + Buffer.byteLength(topic)
    onFetch((n, frame) => (n === 1 ? damaged(frame, partitionCountAt) : 'pass'))
    const { rows } = await readRows(readerOf(proxy.bootstrap), { topic, from: 0, until: 10 })
    expect(offsetsOf(rows)).toEqual(upTo(10))
  })
})

describe('a slow, mute or broken connection, B33', () => {
  test('an answer later than the poll time-out is not the end of the data', async () => {
    const topic = await numbered(100)
    onFetch((n) => (n === 1 ? delay(400, 'pass' as const) : 'pass'))
    const reader = readerOf(proxy.bootstrap, { pollTimeoutMs: 200 })
    expect((await readRows(reader, { topic, from: 0, until: 100 })).rows).toHaveLength(100)
  })

  test('a connection that is cut after 50 rows is replaced and each row comes once', async () => {
    const topic = await numbered(100)
    const reader = readerOf(proxy.bootstrap, {}, { 'max.partition.fetch.bytes': '500' })
    const onRow = ({ offset }: { offset: bigint }): void => {
      if (offset === 49n) proxy.cutAll()
    }
    const { rows } = await readRows(reader, { topic, from: 0, until: 100 }, { onRow })
    expect(offsetsOf(rows)).toEqual(upTo(100))
  })

  test('a connection that is cut inside an answer is replaced', async () => {
    const topic = await numbered(100)
    onFetch((n) => (n === 1 ? { cutAfterBytes: 1000 } : 'pass'))
    const { rows } = await readRows(readerOf(proxy.bootstrap), { topic, from: 0, until: 100 })
    expect(offsetsOf(rows)).toEqual(upTo(100))
  })

  test('an answer that never comes is asked for again after request.timeout.ms', async () => {
    const topic = await numbered(10, 5)
    onFetch((n) => (n === 1 ? 'mute' : 'pass'))
    const reader = readerOf(proxy.bootstrap, {}, { 'request.timeout.ms': '200', 'fetch.max.wait.ms': '10' })
    expect((await readRows(reader, { topic, from: 0, until: 10 })).rows).toHaveLength(10)
  })
})

describe('an abort, P20', () => {
  const sockets = (): number => proxy.connections().open

  test('ends a fetch that is under way, drops its connection and leaves other reads alone', async () => {
    const topic = await numbered(10)
    const before = sockets()
    const asked = Promise.withResolvers<void>()
    onFetch(() => {
      asked.resolve()
      return 'mute'
    })
    const reader = readerOf(proxy.bootstrap)
    const abort = new AbortController()
    const stopped = readRows(reader, { topic, from: 0, until: 10 }, { signal: abort.signal })
    await asked.promise
    proxy.setRule(undefined)
    expect((await readRows(reader, { topic, from: 0, until: 10 })).rows).toHaveLength(10)
    expect(sockets()).toBe(before + 2)
    abort.abort()
    await expect(stopped).rejects.toMatchObject({ name: 'ABORTED', retryable: true })
    await waitUntil('one connection is gone', () => sockets() === before + 1)
    await reader.close()
    await waitUntil('both are gone', () => sockets() === before)
  })

  test('before the first fetch nothing is asked', async () => {
    const asked: number[] = []
    proxy.setRule(({ apiKey }) => {
      asked.push(apiKey)
      return 'pass'
    })
    const reading = readRows(
      readerOf(proxy.bootstrap),
      { topic: 't', from: 0, until: 1 },
      { signal: AbortSignal.abort() }
    )
    await expect(reading).rejects.toMatchObject({ name: 'ABORTED' })
    expect(asked).toEqual([])
  })

  test('so does closing the reader', async () => {
    const topic = await numbered(10)
    const reader = readerOf(bootstrap)
    let rows = 0
    const closedOnLastRow = Promise.withResolvers<void>()
    const onRow = (): void => {
      if (++rows === 10) reader.close().then(closedOnLastRow.resolve, closedOnLastRow.reject)
    }
    await expect(readRows(reader, { topic, from: 0, until: 20 }, { onRow })).rejects.toMatchObject({ name: 'ABORTED' })
    await closedOnLastRow.promise
  })
})
