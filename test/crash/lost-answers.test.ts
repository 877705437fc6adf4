/**
 * Answers that get lost, on real parts: writes to the log that took place and were not acknowledged, table versions whose
 * outcome nobody knows, batches that are in the table and not in the log, tasks that report twice.
 */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { readFile } from 'node:fs/promises'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { commitBatch, planBatch, processRange } from '../../src/batch.ts'
import type { BatchContext } from '../../src/context.ts'
import { SluiceError } from '../../src/errors.ts'
import { logKeys } from '../../src/log.ts'
import { readReports, storedPlan } from '../../src/log-reader.ts'
import { offsetsToJson } from '../../src/offsets.ts'
import type { BatchId, CommitMessage } from '../../src/ports.ts'
import { isSplit } from '../../src/split-entry.ts'
import { openDeltaSession } from '../support/delta-session.ts'
import { injectFault } from '../support/dynamodb.ts'
import { fakeKafka, fakeOffsetReader, fakeRangeReader } from '../support/fake-kafka.ts'
import { numbered, openQuery, positionsIn, type OpenQuery, type Options } from '../support/query-run.ts'
import { openTopics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const { signal } = new AbortController()
const tables = openDeltaSession()
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  await tables.close()
})

const topic = await topics.create({ partitions: 2 })
await topics.produce(topic, [...numbered(6), ...numbered(6, { first: 6, partition: 1 })])
const sixty = await topics.create()
await topics.produce(sixty, numbered(60))

const over = (subscribe: string, options: Options = {}, parts: { name?: string; directory?: string } = {}) =>
  openQuery({ options: { 'kafka.bootstrap.servers': bootstrap, subscribe, ...options }, tables, ...parts })

const all = [...positionsIn(0, 0, 6), ...positionsIn(1, 0, 6)]

/** A run of two batches; answers how many attempts of a command it made. */
async function attemptsOf(
  query: OpenQuery,
  command: string,
  onClient: (client: DynamoDBClient) => void = () => {}
): Promise<number> {
  let count = 0
  const counted = (client: DynamoDBClient): void => {
    onClient(client)
    client.middlewareStack.add(
      (next, context) => (args) => {
        if (context['commandName'] === command) count++
        return next(args)
      },
      { step: 'finalizeRequest', priority: 'low' }
    )
  }
  await query.run({ onClient: counted, leaseMs: 60_000 })
  return count
}

describe('B36: the answer to a write of the log is lost', () => {
  for (const command of ['PutItemCommand', 'UpdateItemCommand'])
    it(`each ${command} of a run once: the run goes on, one entry each, each record once`, async () => {
      await using undisturbed = await over(topic, { maxOffsetsPerTrigger: 6 })
      const attempts = await attemptsOf(undisturbed, command)
      expect(attempts).toBeGreaterThan(8)
      for (let nth = 1; nth <= attempts; nth++) {
        await using query = await over(topic, { maxOffsetsPerTrigger: 6 })
        const loseOne = (client: DynamoDBClient): void => injectFault(client, { command, when: 'after', nth })
        expect(await attemptsOf(query, command, loseOne)).toBeGreaterThan(attempts)
        const batches = query.batches()
        const ranges = ['0 [0, 3)', '1 [0, 3)', '0 [3, 6)', '1 [3, 6)']
        expect([nth, batches.map(({ rows }) => rows), batches.flatMap((b) => b.ranges)]).toEqual([nth, [6, 6], ranges])
        expect(await query.positions()).toEqual(all)
        expect(await query.read({ columns: ['offset'] })).toMatchObject({ version: 1 })
      }
    })

  it('a stored plan of another run that took the lease over: busy, and that run goes on', async () => {
    await using query = await over(topic)
    let stranger: BatchContext | undefined
    const busy = query.run({
      change: (context) => (stranger = context),
      // The first run sleeps before its put, longer than its lease lasts.
      hook: async (point) => {
        if (point !== 'before log.add offsets/0' || stranger === undefined) return
        const other = stranger
        stranger = undefined
        expect(await planBatch(other, { runId: 'another', availableNow: false }, signal)).toMatchObject({
          kind: 'planned',
        })
      },
    })
    await expect(busy).rejects.toThrow('the run is busy')
    expect(query.batches()).toMatchObject([{ plan: { runId: 'another' }, commit: null }])
    expect(await query.run()).toMatchObject([{ plan: { runId: 'another' }, rows: 12 }])
    expect(await query.positions()).toEqual(all)
  })

  it('a lease of another run: busy, also where the answer that says so is lost', async () => {
    await using query = await over(topic)
    const leaseMs = 60_000
    await query.inContext((context) => context.lease.acquire('another', signal), { leaseMs })
    const fault = { command: 'UpdateItemCommand', when: 'after', nth: 1 } as const
    const busy = query.run({ leaseMs, onClient: (client) => injectFault(client, fault) })
    await expect(busy).rejects.toThrow('the run is busy')
    expect(query.batches()).toEqual([])
  })
})

describe('B43: the outcome of a table version is unknown', () => {
  const version = /object\.put _delta_log\/00000000000000000001\.json$/

  it.each(['after', 'before'])(
    'the answer is lost %s the store had it: one version, each record once',
    async (when) => {
      await using query = await over(topic, { maxOffsetsPerTrigger: 6 })
      let isLost = false
      const hook = (point: string): void => {
        if (isLost || !point.startsWith(when) || !version.test(point)) return
        isLost = true
        throw new SluiceError('OBJECT_STORE_FAILED', { object: 'version 1', reason: 'time-out' })
      }
      expect(await query.run({ hook })).toMatchObject([{ rows: 6 }, { rows: 6 }])
      expect(isLost).toBe(true)
      expect(await query.read()).toMatchObject({ version: 1, history: [{ version: 1 }, { version: 0 }] })
      expect(await query.positions()).toEqual(all)
    }
  )
})

/** A batch that is in the log as the sink's commit names it, and what its tasks staged. */
async function outputOf(context: BatchContext, batchId: number): Promise<[BatchId, readonly CommitMessage[]]> {
  const { entry, digest } = storedPlan(batchId, (await context.log.get(logKeys.offsets(batchId), signal)) ?? '')
  const metadata = await context.log.get(logKeys.metadata, signal)
  const { id }: { id: string } = JSON.parse(metadata ?? '')
  const reports = await readReports(context, batchId, signal)
  return [
    { queryId: id, batchId, planDigest: digest, endOffsets: offsetsToJson(entry.end) },
    reports.flatMap((report) => (isSplit(report) ? [] : [report.message])),
  ]
}

describe('B42: a batch is in the table and not in the log', () => {
  it('(a) (b) (d) the rerun adds no version, earlier output is refused, another query is not skipped', async () => {
    await using query = await over(sixty, { maxOffsetsPerTrigger: 10 })
    const batches = await query.dieAt(/^after object\.put _delta_log\/0+5\.json$/)
    expect(batches.at(-1)).toMatchObject({ plan: { batchId: 5 }, commit: null })
    expect(await query.read()).toMatchObject({ version: 5 })
    expect(await query.run()).toHaveLength(6)
    await query.inContext(async (context) => {
      await expect(context.sink.commit(...(await outputOf(context, 4)), signal)).rejects.toMatchObject({
        name: 'SINK_AHEAD_OF_LOG',
      })
      expect(await context.sink.commit(...(await outputOf(context, 5)), signal)).toBe('alreadyCommitted')
      const lease = await context.lease.acquire('late', signal)
      const token = lease.kind === 'held' ? lease.token : -1
      const late = { runId: 'late', batchId: 4, token, triggerMs: 0, replay: true }
      expect(await commitBatch(context, late, signal)).toEqual({ kind: 'superseded' })
    })
    expect(await query.read()).toMatchObject({ version: 5 })
    expect(await query.positions()).toEqual(positionsIn(0, 0, 60))

    await using second = await over(sixty, {}, { name: 'second', directory: query.directory })
    expect(await second.run()).toMatchObject([{ rows: 60 }])
    expect(await second.positions()).toEqual(positionsIn(0, 0, 60).flatMap((position) => [position, position]))
  })

  it('(c) batch 0, whose number is 0, is skipped too', async () => {
    await using query = await over(sixty)
    await query.dieAt(/^after object\.put _delta_log\/0+0\.json$/)
    expect(await query.run()).toMatchObject([{ rows: 60 }])
    await query.inContext(async (context) =>
      expect(await context.sink.commit(...(await outputOf(context, 0)), signal)).toBe('alreadyCommitted')
    )
    expect(await query.read()).toMatchObject({ version: 0 })
    expect(await query.positions()).toEqual(positionsIn(0, 0, 60))
  })
})

describe('B47: what a task staged', () => {
  it('(a) before its worker died is staged again: as many objects in the table, the same rows', async () => {
    await using query = await over(sixty)
    await query.dieAt(/^before log\.add reports\/0\//)
    expect(await query.dataFiles()).toHaveLength(1)
    await query.run()
    expect(await query.dataFiles()).toHaveLength(2) // the dead worker's belongs to no version
    expect((await query.read()).files).toHaveLength(1)
    expect(await query.positions()).toEqual(positionsIn(0, 0, 60))
  })

  it('(b) of three pieces of one partition has three names', async () => {
    await using query = await over(sixty, { minPartitions: 3 })
    await query.run()
    expect(new Set((await query.read()).files).size).toBe(3)
    expect(await query.positions()).toEqual(positionsIn(0, 0, 60))
  })

  it('(c) by half is not visible', async () => {
    await using query = await over(sixty)
    await query.dieAt(/^before object\.close/)
    expect(await query.dataFiles()).toEqual([])
    await query.run()
    expect(await query.dataFiles()).toHaveLength(1)
    expect(await query.positions()).toEqual(positionsIn(0, 0, 60))
  })

  // Kafka allows only one of two such topics, so they are made up; table, log and names are real.
  it('(d) of the topics a.b and a_b does not collide', async () => {
    const kafka = fakeKafka({ 'a.b': [3], a_b: [3] })
    await using query = await over('a.b,a_b')
    await query.run({
      change: (context) => ({
        ...context,
        offsets: fakeOffsetReader(kafka, { kind: 'subscribe', topics: ['a.b', 'a_b'] }),
        ranges: fakeRangeReader(kafka),
      }),
    })
    expect(await query.values()).toHaveLength(6)
    expect(new Set(await query.values())).toEqual(
      new Set(['a.b-0@0', 'a.b-0@1', 'a.b-0@2', 'a_b-0@0', 'a_b-0@1', 'a_b-0@2'])
    )
  })
})

describe('B48: the set of planned ranges decides', () => {
  it('not the number of answers: a range twice is no batch, both once are one', async () => {
    await using query = await over(topic)
    await query.inContext(
      async (context) => {
        const plan = await planBatch(context, { runId: 'run', availableNow: false }, signal)
        if (plan.kind !== 'planned') throw new Error(`the plan is ${plan.kind}`)
        const { token, triggerMs } = plan
        const task = (n: number) => processRange(context, { runId: 'run', batchId: 0, task: n, token }, signal)
        const commit = () => commitBatch(context, { runId: 'run', batchId: 0, token, triggerMs, replay: false }, signal)
        const [first, second] = await Promise.all([task(0), task(0)]) // an older attempt that comes late is one of them
        expect([first.kind, second.kind].toSorted()).toEqual(['alreadyReported', 'reported'])
        expect(await task(0)).toEqual({ kind: 'alreadyReported', differs: false })
        expect(await commit()).toEqual({ kind: 'incomplete', tasks: [1] })
        await expect(query.read()).rejects.toThrow('TableNotFound')
        expect(await task(1)).toMatchObject({ kind: 'reported', records: 6 })
        expect(await commit()).toMatchObject({ kind: 'committed' })
        expect(await commit()).toMatchObject({ kind: 'alreadyCommitted' })
      },
      { leaseMs: 60_000 }
    )
    expect(await query.read()).toMatchObject({ version: 0 })
    expect(await query.positions()).toEqual(all)
  })

  it('an answer of another batch is ignored', async () => {
    await using query = await over(topic, { maxOffsetsPerTrigger: 6 })
    await query.dieAt(/^before log\.add reports\/1\//)
    await query.inContext(
      async (context) => {
        const lease = await context.lease.acquire('run', signal)
        const token = lease.kind === 'held' ? lease.token : -1
        const old = { runId: 'run', batchId: 0, task: 0, token }
        expect(await processRange(context, old, signal)).toEqual({ kind: 'superseded' })
        const message = { runId: 'run', batchId: 1, token, triggerMs: 0, replay: true }
        expect(await commitBatch(context, message, signal)).toEqual({ kind: 'incomplete', tasks: [0, 1] })
      },
      { leaseMs: 60_000 }
    )
    expect(await query.read()).toMatchObject({ version: 0 })
  })

  it('partitions without data are waited for by nobody', async () => {
    const three = await topics.create({ partitions: 3 })
    await topics.produce(three, numbered(2))
    await using query = await over(three)
    expect(await query.run()).toMatchObject([{ ranges: ['0 [0, 2)'], rows: 2 }])
    expect(await readFile(`${query.table}/_delta_log/00000000000000000000.json`, 'utf8')).toContain('"add"')
  })
})
