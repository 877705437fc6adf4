/**
 * The construct's template deployed unchanged into an emulated account whose policies are enforced: functions are Node
 * processes that read the shared broker. One query, tick after tick; after each fault the next tick finishes the same batch.
 */
import { GetExecutionHistoryCommand } from '@aws-sdk/client-sfn'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { join } from 'node:path'
import { actionsOf, allowsItem, allowsObject, statementsOf } from '../support/policies.ts'
import { deploy, removeAssemblies, synthesize } from '../support/deployed-query.ts'
import type { DeployedQuery } from '../support/deployed-query.ts'
import { callerOf, openAccount } from '../support/deployment.ts'
import type { Account } from '../support/deployment.ts'
import type { AwsRequest } from '../support/aws-proxy.ts'
import { readDelta, s3Options } from '../support/delta-reader.ts'
import { positionsOf, readTopic } from '../support/kafka-reader.ts'
import { startProducerTool } from '../support/producer.ts'
import { queryLog } from '../support/query-log.ts'
import type { QueryLog } from '../support/query-log.ts'
import { ownListener, startTcpProxy } from '../support/tcp-proxy.ts'
import type { TcpProxy } from '../support/tcp-proxy.ts'
import { openTopics, waitUntil } from '../support/topics.ts'
import type { Topics } from '../support/topics.ts'

const FETCH = 1
const { bootstrap, proxied } = inject('kafka')

let account: Account
let kafka: TcpProxy
let topics: Topics
let topic: string
let query: DeployedQuery
let log: QueryLog

beforeAll(async () => {
  ;[account, kafka, topics] = await Promise.all([
    openAccount(),
    startTcpProxy(ownListener(proxied)),
    openTopics(bootstrap),
  ])
  topic = await topics.create({ prefix: 'deployed', partitions: 2 })
  const assembly = synthesize({
    entry: join(import.meta.dirname, '../support/queries/deployed.ts'),
    environment: { BROKERS: kafka.bootstrap, TOPIC: topic, CAP: '1000' },
  })
  query = await deploy(account.endpoint, assembly)
  log = queryLog(query.dynamodb, query.table, 'deployed')
}, 120_000)

afterEach(() => {
  kafka.setRule(undefined)
  account.proxy.releaseAll()
})

afterAll(async () => {
  await query?.close()
  removeAssemblies()
  await Promise.all([topics?.close(), kafka?.close(), account?.close()])
})

/** In record batches of 10 KB, so that a range takes several fetches. */
async function produce(count: number, partitions: readonly number[] = [0, 1]): Promise<void> {
  const value = '.'.repeat(200)
  const messages = Array.from({ length: count }, (_, i) => ({
    partition: partitions[i % partitions.length] ?? 0,
    key: null,
    value,
  }))
  for (let at = 0; at < count; at += 50) await topics.produce(topic, messages.slice(at, at + 50))
}

/** `partition:offset` of each row of the table, read by another program. */
async function delivered(): Promise<string[]> {
  const storageOptions = s3Options(account.endpoint)
  const columns = ['partition', 'offset']
  const { rows } = await readDelta(`s3://${query.bucket}/deployed`, { columns, storageOptions })
  return rows.map((row) => `${Number(row['partition'])}:${Number(row['offset'])}`)
}

/** Each record of the topic is in the table once. */
async function expectAllDelivered(): Promise<void> {
  const [rows, records] = await Promise.all([delivered(), readTopic(bootstrap, topic)])
  expect(rows.toSorted()).toEqual([...positionsOf(records)].toSorted())
}

/** A write to one of the query's logs. */
const puts =
  (name: string) =>
  ({ action, key }: AwsRequest): boolean =>
    action === 'dynamodb:PutItem' && key === `deployed@1/${name}`

/** Lets so many answers with records through; settles when the broker's next one stays away. */
function fetchesAllowed(count: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let seen = 0
  kafka.setRule(({ apiKey, frame }) => {
    if (apiKey !== FETCH || frame.length < 1000 || ++seen <= count) return 'pass'
    resolve()
    return 'mute'
  })
  return promise
}

/** The execution fails with that cause, its lease is free, and the next tick commits what was planned. */
async function expectFailed(tick: string, cause: RegExp, batch: number): Promise<void> {
  const ended = await query.ended(tick)
  kafka.setRule(undefined)
  expect(ended).toMatchObject({ status: 'FAILED', cause: expect.stringMatching(cause) })
  expect(await log.holder()).toBeNull()
  expect(await log.newest('offsets')).toBe(batch)
  expect(await log.newest('commits')).toBe(batch - 1)
  const { status, output } = await query.run()
  expect(status).toBe('SUCCEEDED')
  expect(JSON.parse(output ?? '')).toMatchObject({ message: { batchId: batch, replay: true } })
  expect(await log.newest('commits')).toBe(batch)
  await expectAllDelivered()
}

/** The states that an execution has entered. */
async function statesOf(executionArn: string): Promise<string[]> {
  const { events } = await query.states.send(new GetExecutionHistoryCommand({ executionArn }))
  return (events ?? []).flatMap(({ stateEnteredEventDetails }) => stateEnteredEventDetails?.name ?? [])
}

describe('a query in an account', () => {
  it('commits a batch with each tick, whatever codec the producer used', async () => {
    const tool = startProducerTool(bootstrap)
    try {
      for (const [batch, codec] of ['lz4', 'zstd', 'none'].entries()) {
        const producer = await tool.open({ 'compression.type': codec })
        for (const partition of [0, 1]) await producer.fill(topic, { partition, count: 50, valueSize: 200 })
        await producer.close()
        const { status, output } = await query.run()
        expect(status).toBe('SUCCEEDED')
        expect(JSON.parse(output ?? '')).toMatchObject({ message: { batchId: batch }, commit: { reason: 'committed' } })
      }
    } finally {
      await tool.stop()
    }
    expect(await log.newest('commits')).toBe(2)
    expect(await log.holder()).toBeNull()
    await expectAllDelivered()
  })

  it('two ticks at once and one late make one batch: the others are busy, or find nothing new (B40)', async () => {
    const batch = Number(await log.newest('commits')) + 1
    await produce(40)
    const writing = account.proxy.hold(puts(`reports/${batch}`))
    const ticks = [await query.start(), await query.start()]
    const held = await writing
    const late = await query.run()
    expect(late.status).toBe('SUCCEEDED')
    expect(JSON.parse(late.output ?? '')).toMatchObject({ kind: 'done', reason: 'busy', holder: await log.holder() })
    const ends = ticks.map((tick) => query.ended(tick))
    await Promise.race(ends)
    held.release()
    const ended = await Promise.all(ends)
    expect(ended.map(({ status }) => status)).toEqual(['SUCCEEDED', 'SUCCEEDED'])
    const outcomes = ended.map(({ output }) => JSON.parse(output ?? ''))
    expect(outcomes.map(({ kind, reason }): string => reason ?? kind).toSorted()).toEqual(['busy', 'work'])
    expect(await log.newest('offsets')).toBe(batch)
    expect(await log.newest('commits')).toBe(batch)
    await expectAllDelivered()
  })

  it('a run by hand waits for the one at work, then catches up to what was there when it began to plan (P18, P19)', async () => {
    const before = Number(await log.newest('commits'))
    await produce(2500)
    const reporting = account.proxy.hold(puts(`reports/${before + 1}`))
    const tick = await query.start()
    const held = await reporting
    const byHand = await query.start({ trigger: 'availableNow' })
    await waitUntil('the run by hand waits', async () => (await statesOf(byHand)).includes('Wait'))
    expect(await log.newest('offsets')).toBe(before + 1)
    const freezing = account.proxy.hold(puts('runs'))
    held.release()
    expect(await query.ended(tick)).toMatchObject({ status: 'SUCCEEDED' })
    const frozen = await freezing
    await produce(10) // after the end was read, before it is stored: not of this run
    frozen.release()
    expect(await query.ended(byHand)).toMatchObject({ status: 'SUCCEEDED' })
    expect(await log.newest('commits')).toBe(before + 3)
    expect(await log.entries('runs')).toHaveLength(1)
    expect((await delivered()).length).toBe((await readTopic(bootstrap, topic)).length - 10)
    expect(await log.holder()).toBeNull()
    expect(await query.run()).toMatchObject({ status: 'SUCCEEDED' })
    await expectAllDelivered()
  })
})

describe('after a death, the next tick finishes the same batch, each record once', () => {
  it('a worker killed in mid-range (P19)', async () => {
    await produce(300, [0])
    const batch = Number(await log.newest('commits')) + 1
    const reached = fetchesAllowed(1)
    const tick = await query.start()
    await reached
    expect(account.killFunction(query.functions.Worker.name)).toBeGreaterThan(0)
    await expectFailed(tick, /Worker process died/, batch)
  })

  it("a committer killed between the table's commit and commits/N", async () => {
    await produce(100)
    const batch = Number(await log.newest('commits')) + 1
    const recording = account.proxy.hold(puts('commits'))
    const tick = await query.start()
    const held = await recording
    expect(account.killFunction(query.functions.Committer.name)).toBe(1)
    held.drop()
    await expectFailed(tick, /Worker process died/, batch)
  })

  it('a planner killed right after it put offsets/N', async () => {
    await produce(100)
    const batch = Number(await log.newest('commits')) + 1
    const looking = account.proxy.hold(({ key }) => key === `deployed@1/reports/${batch}`)
    const tick = await query.start()
    const held = await looking
    expect(account.killFunction(query.functions.Planner.name)).toBeGreaterThan(0)
    held.drop()
    await expectFailed(tick, /Worker process died/, batch)
  })

  it('an execution that was stopped: busy until its lease has run out, then taken over (P19)', async () => {
    await produce(100)
    const batch = Number(await log.newest('commits')) + 1
    const reporting = account.proxy.hold(puts(`reports/${batch}`))
    const tick = await query.start()
    const held = await reporting
    await query.stop(tick)
    expect(await query.ended(tick)).toMatchObject({ status: 'ABORTED' })
    expect(JSON.parse((await query.run()).output ?? '')).toMatchObject({ reason: 'busy' })
    const token = await log.token()
    await log.expireLease()
    const next = query.start()
    const again = await account.proxy.hold(puts(`reports/${batch}`))
    held.release() // the stopped execution's worker goes on: its report is the first, and counts
    await waitUntil('the first report is there', async () => (await log.entries(`reports/${batch}`)).length > 0)
    again.release()
    expect(await query.ended(await next)).toMatchObject({ status: 'SUCCEEDED' })
    expect(await log.newest('commits')).toBe(batch)
    expect(await log.token()).toBe(token + 1)
    await expectAllDelivered()
  })
})

describe('refused by name, and the lease is free again', () => {
  it.each([
    [{ trigger: 'once' }, /'trigger' takes 'availableNow'/],
    [{ batch: 7 }, /'batch' is unknown in the input; it takes 'trigger'/],
    [{ trigger: 'availableNow', run: 5 }, /'run' is not a run's id/],
  ])('the input %j', async (input, message) => {
    const { status, cause } = await query.run(input)
    expect(status).toBe('FAILED')
    expect(cause).toMatch(message)
    expect(cause).toContain('Start the state machine with {} or {\\"trigger\\":\\"availableNow\\"}')
    expect(await log.holder()).toBeNull()
  })
})

describe('rights', () => {
  it('every request of the functions stayed within its role, the leading keys included', () => {
    const made = account.proxy.requests.flatMap((request) => {
      const caller = callerOf(query, request)
      return caller === null ? [] : [{ ...request, caller }]
    })
    expect(new Set(made.map(({ caller }) => caller))).toEqual(new Set(['Planner', 'Worker', 'Committer']))
    const beyond = made.filter(({ caller, action, key }) => {
      const statements = statementsOf(query.template, `Query${caller}Role`)
      const [service, call = ''] = action.split(':')
      if (service === 'dynamodb') return !allowsItem(statements, call, key)
      if (key === '') return !statements.some((statement) => actionsOf(statement).includes(action)) // on the bucket
      return !allowsObject(statements, call, key)
    })
    expect(beyond).toEqual([])
  })
})
