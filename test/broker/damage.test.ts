/** Damaged bytes, slow and broken connections, and how the command line ends: a batch is never shorter than planned. */
import { once } from 'node:events'
import { open, readdir } from 'node:fs/promises'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { logKeys } from '../../src/log.ts'
import { startBroker } from '../support/broker.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { removeDirectory, runLocally, temporaryDirectory, withLog } from '../support/local-run.ts'
import type { LocalRun } from '../support/local-run.ts'
import { numbered, openQuery, positionsIn, type Options, type OpenQuery } from '../support/query-run.ts'
import { damaged, ownListener, startTcpProxy, type Fate, type TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, uniqueTopic, type Topics } from '../support/topics.ts'

const { bootstrap, saslPlaintext, proxied } = inject('kafka')
const FETCH = 1
const { signal } = new AbortController()
const tables = openDeltaSession()
let topics: Topics
let proxy: TcpProxy
let directory: string
beforeAll(async () => {
  topics = await openTopics(bootstrap)
  proxy = await startTcpProxy(ownListener(proxied))
  directory = await temporaryDirectory()
})
afterEach(() => proxy.setRule(undefined))
afterAll(async () => {
  await topics.close()
  await proxy.close()
  await tables.close()
  await removeDirectory(directory)
})

/** What becomes of the answers to Fetch requests, by the request's number from 1 on. */
const onFetch = (fateOf: (n: number, frame: Buffer) => Fate | Promise<Fate>): void => {
  let fetches = 0
  proxy.setRule(({ apiKey, frame }) => (apiKey === FETCH ? fateOf((fetches += 1), frame) : 'pass'))
}

async function behindProxy(options: Options = {}): Promise<OpenQuery> {
  const topic = await topics.create()
  for (let first = 0; first < 100; first += 10) await topics.produce(topic, numbered(10, { first }))
  return openQuery({ options: { 'kafka.bootstrap.servers': proxy.bootstrap, subscribe: topic, ...options }, tables })
}

const hundred = positionsIn(0, 0, 100)

describe('B29: a flipped byte', () => {
  test('in a stored segment fails the run, naming partition and offset; nothing is visible, nothing committed', async () => {
    const broker = await startBroker()
    try {
      const own = await openTopics(broker.bootstrap)
      const topic = await own.create()
      for (const first of [0, 5])
        await own.produce(
          topic,
          numbered(5, { first }).map(({ value }) => ({ partition: 0, value: `record-${value}.` }))
        )
      const [node] = broker.nodes
      await node?.stop()
      await flipBit(join(node?.dataDir ?? '', 'log', `${topic}-0`), 'record-7')
      await node?.start()
      await broker.ready()
      const options = { 'kafka.bootstrap.servers': broker.bootstrap, subscribe: topic, startingOffsets: 'earliest' }
      const run = await runLocally({ directory, name: 'damaged', table: 'damaged', options })
      expect(run).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(
          new RegExp(`^sluice: CORRUPT_RECORD_BATCH: The record batch of ${topic}-0 at offset 5 is damaged.*\n$`)
        ),
      })
      await withLog(directory, 'damaged', async (log) => {
        expect(await log.get(logKeys.offsets(0), signal)).toContain('[[0,0,0,10]]')
        expect(await log.list('reports/0', signal)).toEqual([])
        expect(await log.newest('commits', signal)).toBeNull()
      })
      expect(await readdir(join(directory, 'warehouse', 'damaged')).catch(() => [])).toEqual([])
      await own.close()
    } finally {
      await broker.stop()
    }
  })

  test('in flight comes right at the retry', async () => {
    await using query = await behindProxy()
    let flipped = 0
    onFetch((n, frame) => {
      if (n !== 1) return 'pass'
      flipped++
      return damaged(frame, frame.length - 3)
    })
    expect(await query.run()).toMatchObject([{ ranges: ['0 [0, 100)'], rows: 100 }])
    expect(flipped).toBe(1)
    expect(await query.positions()).toEqual(hundred)
  })
})

async function flipBit(folder: string, after: string): Promise<void> {
  const name = (await readdir(folder)).find((file) => file.endsWith('.log'))
  const file = await open(join(folder, name ?? ''), 'r+')
  const bytes = await file.readFile()
  const at = bytes.indexOf(after) + after.length
  await file.write(Buffer.from([bytes.readUInt8(at) ^ 1]), 0, 1, at)
  await file.close()
}

describe('B33: a batch behind a bad connection', () => {
  test('(a) an answer after twice the poll time-out: all rows or a failed batch, never fewer', async () => {
    await using query = await behindProxy({ 'kafkaConsumer.pollTimeoutMs': 200 })
    onFetch((n) => (n === 1 ? delay(400, 'pass' as const) : 'pass'))
    const outcome = await query.run().then(
      () => 'committed',
      (error: unknown) => (error instanceof Error ? error.name : '')
    )
    const committed = { ranges: ['0 [0, 100)'], rows: 100 }
    const uncommitted = { ranges: ['0 [0, 100)'], commit: null }
    expect(outcome).toMatch(/^(committed|KAFKA_TIMEOUT)$/)
    expect(query.batches()).toMatchObject([outcome === 'committed' ? committed : uncommitted])
    await query.run()
    expect(query.batches()).toMatchObject([committed])
    expect(await query.positions()).toEqual(hundred)
  })

  test('(b) a first address that accepts and stays silent: the next one is asked', async () => {
    const sockets = new Set<Socket>()
    const mute = createServer((socket) => sockets.add(socket)).listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const topic = await topics.create()
    await topics.produce(topic, numbered(3))
    const options = {
      'kafka.bootstrap.servers': `127.0.0.1:${(mute.address() as AddressInfo).port},${bootstrap}`, // listening on TCP
      subscribe: topic,
      'kafka.socket.connection.setup.timeout.ms': 200,
    }
    await using query = await openQuery({ options, tables })
    expect(await query.run()).toMatchObject([{ rows: 3 }])
    expect(sockets.size).toBeGreaterThan(0)
    for (const socket of sockets) socket.destroy()
    mute.close()
  })

  test('(c) a connection that is cut after 50 rows: each row once', async () => {
    await using query = await behindProxy({ 'kafka.max.partition.fetch.bytes': 200 })
    let cuts = 0
    onFetch((n) => {
      if (n === 6) {
        cuts++
        proxy.cutAll()
      }
      return 'pass'
    })
    expect(await query.run()).toMatchObject([{ ranges: ['0 [0, 100)'], rows: 100 }])
    expect(cuts).toBe(1)
    expect(await query.positions()).toEqual(hundred)
  })
})

describe.concurrent('B57: the command line ends by itself and without a warning', () => {
  /** The run, and how long the process lived on after its last line, ms. */
  async function runToEnd(name: string, options: Options): Promise<LocalRun & { lastLineMs: number }> {
    const stopwatch = join(import.meta.dirname, '../support/say-when-last.mjs')
    const run = await runLocally({
      directory: join(directory, name),
      options: { startingOffsets: 'earliest', 'kafka.bootstrap.servers': bootstrap, ...options },
      env: { NODE_OPTIONS: `--trace-warnings --import=${JSON.stringify(stopwatch)}` },
    })
    const [, lastLineMs] = /\nsince last line: (\d+)\n$/.exec(run.stdout) ?? []
    return { ...run, lastLineMs: Number(lastLineMs) }
  }

  test('after its rows', async () => {
    const topic = await topics.create()
    await topics.produce(topic, numbered(10))
    const run = await runToEnd('rows', { subscribe: topic })
    expect(run).toMatchObject({ code: 0, stderr: '', stdout: expect.stringMatching(/^batch 0 {2}10 rows/m) })
    expect(run.lastLineMs).toBeLessThan(3000)
  })

  test('after a wrong topic', async () => {
    const run = await runToEnd('topic', { subscribe: uniqueTopic('missing'), 'fetchOffset.retryIntervalMs': 10 })
    expect(run).toMatchObject({ code: 1, stderr: expect.stringMatching(/^sluice: TOPIC_NOT_FOUND: .*\n$/) })
    expect(run.lastLineMs).toBeLessThan(3000)
  })

  test('after a refused login', async () => {
    const run = await runToEnd('login', {
      subscribe: 'any',
      'kafka.bootstrap.servers': saslPlaintext,
      'kafka.security.protocol': 'SASL_PLAINTEXT',
      'kafka.sasl.mechanism': 'SCRAM-SHA-512',
      'kafka.sasl.jaas.config': 'ScramLoginModule required username="alice" password="wrong";',
    })
    expect(run).toMatchObject({ code: 1, stderr: expect.stringMatching(/^sluice: KAFKA_AUTHENTICATION_FAILED: .*\n$/) })
    expect(run.lastLineMs).toBeLessThan(3000)
  })
})
