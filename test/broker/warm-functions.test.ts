/** Functions that are called again in the process that did the work before: what they keep, and what may have died meanwhile. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import { functionOf, logger } from '../../functions/middleware.ts'
import { openNextGeneration } from '../../src/aws/generation.ts'
import { defineQuery, kafka, t, Trigger } from '../../src/index.ts'
import { openCluster, type Cluster } from '../../src/kafka/client.ts'
import { MAX_IDLE_CONNECTIONS, MAX_IDLE_MS } from '../../src/kafka/connection-pool.ts'
import { connectionSettings } from '../../src/kafka/connection-settings.ts'
import { openCommitter, openPlanner, openWorker } from '../../src/runtime.ts'
import { commitStep, planStep, workStep } from '../../src/steps.ts'
import { startTestTable, type TestTable } from '../support/dynamodb.ts'
import { lambdaContext } from '../support/lambda-context.ts'
import { memorySink, memoryTable, rowsOf } from '../support/memory-sink.ts'
import { ownListener, startTcpProxy, type Fate, type TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap, proxied } = inject('kafka')

let topics: Topics
let table: TestTable
let proxy: TcpProxy
beforeAll(async () => {
  ;[topics, table] = await Promise.all([openTopics(bootstrap), startTestTable()])
})
afterAll(() => Promise.all([topics.close(), table.close()]))

beforeEach(async () => {
  proxy = await startTcpProxy(ownListener(proxied))
  vi.spyOn(logger, 'error').mockImplementation(() => {})
})
afterEach(async () => {
  await proxy.close()
  vi.useRealTimers()
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
})

const environment = (): Record<string, string> => ({
  AWS_ENDPOINT_URL_DYNAMODB: table.endpoint,
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'test',
  AWS_SECRET_ACCESS_KEY: 'test',
  SLUICE_TABLE: table.table,
  SLUICE_BUCKET: 'warehouse',
  SLUICE_LEASE_MS: '60000',
})

/** The three functions of a query over a topic, as one process has them, and what they put into a table in memory. */
async function functionsOver(records: number) {
  for (const [name, value] of Object.entries(environment())) vi.stubEnv(name, value)
  vi.stubEnv('TEST_BROKERS', proxy.bootstrap)
  const topic = await topics.create()
  let sent = 0
  const produce = async (count: number): Promise<void> => {
    const messages = Array.from({ length: count }, () => ({ value: `r${String(sent++).padStart(3, '0')}` }))
    await topics.produce(topic, messages)
  }
  await produce(records)
  const rows = memoryTable()
  const query = defineQuery({
    name: `warm-${randomUUID()}`,
    source: kafka({
      'kafka.bootstrap.servers': '{{env:TEST_BROKERS}}',
      'kafka.request.timeout.ms': 300,
      'fetchOffset.retryIntervalMs': 10,
      subscribe: topic,
      startingOffsets: 'earliest',
    }),
    schema: { partition: t.int.notNull(), text: t.string.notNull() },
    map: ({ partition, value }) => ({ partition, text: Buffer.from(value ?? []).toString() }),
    sink: { description: 'memory', open: () => memorySink(rows) },
    trigger: Trigger.processingTime('365 days'), // one batch an execution
  })
  const planner = functionOf('planner', query, openPlanner, planStep)
  const worker = functionOf('worker', query, openWorker, (context, event, signal) => workStep(context, event, signal))
  const committer = functionOf('committer', query, openCommitter, (context, event, signal) =>
    commitStep(context, event, signal, () => {})
  )
  const plan = () => planner({ execution: randomUUID(), input: {}, entries: 0, waits: 0 }, lambdaContext())
  const batch = async (): Promise<string> => {
    const planned = await plan()
    if (planned.kind !== 'work') return planned.kind
    for (const task of planned.tasks) await worker({ message: planned.message, task }, lambdaContext())
    return (await committer({ message: planned.message }, lambdaContext())).reason
  }
  const expected = () => Array.from({ length: sent }, (_, i) => `r${String(i).padStart(3, '0')}`)
  return { query, topic, rows, produce, plan, batch, expected }
}

describe('a warm function', () => {
  test('works again on the connections of the invocation before', async () => {
    const { rows, produce, batch, expected } = await functionsOver(3)
    expect(await batch()).toBe('committed')
    const { open, all } = proxy.connections()
    expect(open).toBeGreaterThan(0)
    const timers = countTimers()
    for (let n = 0; n < 3; n++) {
      await produce(2)
      expect(await batch()).toBe('committed')
    }
    expect(proxy.connections()).toEqual({ open, all })
    expect(countTimers()).toBeLessThanOrEqual(timers)
    expect(rowsOf(rows)).toEqual(expected())
  })

  test('keeps no timer between invocations', async () => {
    const timers = countTimers()
    const { batch } = await functionsOver(1)
    await batch()
    expect(countTimers()).toBeLessThanOrEqual(timers)
  })

  test('whose connections were cut while it was frozen works at once', async () => {
    const { rows, produce, batch, expected } = await functionsOver(3)
    await batch()
    await produce(2)
    proxy.cutAll() // nobody has noticed when the next one begins
    expect(await batch()).toBe('committed')
    expect(rowsOf(rows)).toEqual(expected())
    expect(vi.mocked(logger.error)).not.toHaveBeenCalled()
  })

  test.each<[string, Fate]>([
    ['die in the middle of an answer', { cutAfterBytes: 3 }],
    ['are forgotten on the way', 'mute'],
  ])('whose connections %s goes on by others', async (_what, fate) => {
    const { rows, produce, batch, expected } = await functionsOver(3)
    await batch()
    await produce(2)
    const { all } = proxy.connections()
    proxy.setRule(({ connection }) => (connection <= all ? fate : 'pass'))
    expect(await batch()).toBe('committed')
    expect(rowsOf(rows)).toEqual(expected())
    expect(vi.mocked(logger.error)).not.toHaveBeenCalled()
  })

  test('whose leader moved while it was frozen asks again who leads', async () => {
    const { topic, rows, produce, batch, expected } = await functionsOver(3)
    await batch()
    await produce(2)
    const asked: number[] = []
    proxy.setRule(({ apiKey, frame }) => {
      const isFirst = apiKey === FETCH && !asked.includes(FETCH)
      asked.push(apiKey)
      return isFirst ? notLeader(frame, topic) : 'pass'
    })
    expect(await batch()).toBe('committed')
    const first = asked.indexOf(FETCH)
    expect(asked.slice(first, first + 3)).toEqual([FETCH, METADATA, FETCH])
    expect(rowsOf(rows)).toEqual(expected())
  })

  test('that was frozen for long takes new connections, and leaves none behind', async () => {
    const { rows, produce, batch, expected } = await functionsOver(3)
    await batch()
    const { open, all } = proxy.connections()
    await produce(2)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 301_000 })
    expect(await batch()).toBe('committed')
    expect(proxy.connections()).toEqual({ open, all: all + open })
    expect(rowsOf(rows)).toEqual(expected())
  })

  test('whose brokers are others by its environment leaves the old ones', async () => {
    const { rows, produce, batch, expected } = await functionsOver(3)
    await batch()
    await produce(2)
    const { all } = proxy.connections()
    vi.stubEnv('TEST_BROKERS', bootstrap)
    expect(await batch()).toBe('committed')
    expect(proxy.connections()).toEqual({ open: 0, all })
    expect(rowsOf(rows)).toEqual(expected())
  })

  test('drops its connections where its step fails (P20)', async () => {
    const { topic, plan, batch } = await functionsOver(3)
    expect(await batch()).toBe('committed')
    await topics.delete(topic)
    const { open } = proxy.connections()
    await expect(plan()).rejects.toMatchObject({ name: 'TOPIC_NOT_FOUND' })
    await vi.waitFor(() => expect(proxy.connections().open).toBeLessThan(open)) // the worker's are still there
  })

  test('sees that another generation has begun', async () => {
    const { query, rows, batch } = await functionsOver(3)
    await batch()
    const scope = { client: table.client, table: table.table, query: query.name }
    await openNextGeneration(scope, 1, new AbortController().signal)
    rows.commits.length = 0
    expect(await batch()).toBe('committed')
    expect(await table.keys(`${query.name}@2/offsets`)).toHaveLength(1)
  })
})

const FETCH = 1
const METADATA = 3

/** The answer to a Fetch (version 11) for one partition, with its error code changed to NOT_LEADER_OR_FOLLOWER. */
function notLeader(frame: Buffer, topic: string): Buffer {
  const copy = Buffer.from(frame)
  // size, correlation id, throttle time, error, session; topics, name; partitions, partition
  copy.writeInt16BE(6, 4 + 4 + 4 + 2 + 4 + (4 + 2 + topic.length) + (4 + 4))
  return copy
}

describe('idle connections', () => {
  const going = new AbortController().signal
  const clusterOf = () => openCluster(connectionSettings({ 'bootstrap.servers': proxy.bootstrap }, 'sluice-test'))
  const ask = (cluster: Cluster, times: number) =>
    Promise.all(Array.from({ length: times }, () => cluster.metadata([], going)))

  test('are kept up to a bound, and used again', async () => {
    const cluster = clusterOf()
    const timers = countTimers()
    await ask(cluster, MAX_IDLE_CONNECTIONS + 4)
    await vi.waitFor(() => expect(proxy.connections().open).toBe(MAX_IDLE_CONNECTIONS))
    const { all } = proxy.connections()
    await ask(cluster, MAX_IDLE_CONNECTIONS)
    expect(proxy.connections()).toEqual({ open: MAX_IDLE_CONNECTIONS, all })
    expect(countTimers()).toBeLessThanOrEqual(timers) // those of others may have ended meanwhile
    await cluster.close()
    await vi.waitFor(() => expect(proxy.connections().open).toBe(0))
  })

  test('go all together when one is needed after five minutes', async () => {
    const cluster = clusterOf()
    await ask(cluster, 3)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + MAX_IDLE_MS })
    await ask(cluster, 1)
    await vi.waitFor(() => expect(proxy.connections()).toEqual({ open: 1, all: 4 }))
    await cluster.close()
  })

  test('that died are replaced, and what lay beside them is ended', async () => {
    const cluster = clusterOf()
    await ask(cluster, 3)
    proxy.setRule(({ connection }) => (connection <= 3 ? { cutAfterBytes: 0 } : 'pass'))
    await ask(cluster, 1)
    await vi.waitFor(() => expect(proxy.connections()).toEqual({ open: 1, all: 4 }))
    await cluster.close()
  })
})

const countTimers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length

test('B57: a process that keeps warm connections ends by itself', async () => {
  const topic = await topics.create()
  const query = {
    name: `warm-${randomUUID()}`,
    options: { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, startingOffsets: 'earliest' },
  }
  await topics.produce(topic, [{ value: 'a' }])
  const support = (file: string): string => join(import.meta.dirname, '../support', file)
  const event = JSON.stringify({ execution: 'run', input: {}, entries: 0, waits: 0 })
  const child = spawn(
    process.execPath,
    ['--trace-warnings', support('invoke-function.ts'), 'planner', support('queries/memory.ts'), event],
    { stdio: ['ignore', 'pipe', 'pipe'], env: { ...environment(), SLUICE_TEST_QUERY: JSON.stringify(query) } }
  )
  const [printed, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  expect({ code, errors, last: printed.trim().split('\n').at(-1) }).toEqual({
    code: 0,
    errors: '',
    last: expect.stringContaining('answer {"kind":"work"'),
  })
})
