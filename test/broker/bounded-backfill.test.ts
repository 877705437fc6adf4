/** Backfills on real parts: a range lands once in the table of a live query, beside it, before or after a crash. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { backfillOf } from '../../src/backfill.ts'
import type { BatchContext } from '../../src/context.ts'
import { defineQuery, deltaTable, kafka } from '../../src/index.ts'
import type { Query } from '../../src/index.ts'
import { openQueryId } from '../../src/log-reader.ts'
import { Crash, runAll } from '../support/crash-matrix.ts'
import { openDeltaSession, type DeltaSession } from '../support/delta-session.ts'
import { openFaultyRuntime } from '../support/faulty-runtime.ts'
import type { EffectHook } from '../support/faulty-runtime.ts'
import { removeDirectory, runLocally, temporaryDirectory } from '../support/local-run.ts'
import { startProducerTool, type ProducerTool } from '../support/producer.ts'
import { numbered, openQuery, positionsIn } from '../support/query-run.ts'
import { openTopics, type Topics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const { signal } = new AbortController()
let topics: Topics
let tool: ProducerTool
let tables: DeltaSession
let directory: string
let topic: string
beforeAll(async () => {
  tool = startProducerTool(bootstrap)
  tables = openDeltaSession()
  topics = await openTopics(bootstrap)
})
afterAll(async () => {
  await topics.close()
  await tables.close()
  await tool.stop()
})
beforeEach(async () => {
  directory = await temporaryDirectory()
  topic = await topics.create({ partitions: 2 })
  for (const partition of [0, 1]) await topics.produce(topic, numbered(40, { partition }))
})
afterEach(() => removeDirectory(directory))

const offsets = (first: number, second: number): string => JSON.stringify({ [topic]: { 0: first, 1: second } })

const live = (table: string): Query =>
  defineQuery({
    name: 'live',
    source: kafka({
      'kafka.bootstrap.servers': bootstrap,
      subscribe: topic,
      startingOffsets: offsets(25, 10),
      maxOffsetsPerTrigger: 20,
    }),
    sink: deltaTable(table),
  })

/** All that lies before the live query's start. */
const before = (query: Query): Query =>
  backfillOf(query, 'history', { startingOffsets: 'earliest', endingOffsets: offsets(25, 10) })

async function inRuntime<T>(
  query: Query,
  folder: string,
  work: (context: BatchContext) => Promise<T>,
  hook?: EffectHook
): Promise<T> {
  const runtime = await openFaultyRuntime(query, folder, hook)
  try {
    return await work(runtime.context)
  } finally {
    await runtime.close()
  }
}

/** `partition:offset` of the table's rows, in order, as often as they are there. */
async function positions(table: string): Promise<string[]> {
  const { rows } = await tables.read(table)
  return rows
    .map((row) => [Number(row['partition']), Number(row['offset'])] as const)
    .toSorted((a, b) => a[0] - b[0] || a[1] - b[1])
    .map(([partition, offset]) => `${partition}:${offset}`)
}

const all = (until: number): string[] => [...positionsIn(0, 0, until), ...positionsIn(1, 0, until)]

test('a live query and a backfill of what lies before it: each offset once, each under its own id', async () => {
  const table = join(directory, 'warehouse', 'table')
  const query = live('table')
  await inRuntime(query, directory, runAll)
  const id = await inRuntime(before(query), directory, async (context) => {
    await runAll(context)
    return openQueryId(context, signal)
  })
  for (const partition of [0, 1]) await topics.produce(topic, numbered(5, { partition }))
  await inRuntime(query, directory, runAll)
  await inRuntime(before(query), directory, runAll) // once more, and nothing happens
  expect(await positions(table)).toEqual(all(45))
  const liveId = await inRuntime(query, directory, (context) => openQueryId(context, signal))
  expect(liveId).not.toBe(id)
  expect((await tables.read(table, { appId: id })).transactionVersion).toBe(1)
  expect((await tables.read(table, { appId: liveId })).transactionVersion).toBe(3)
})

test('both at once, on one table: each offset once', async () => {
  const table = join(directory, 'shared')
  const query = live(table)
  const folders = [join(directory, 'a'), join(directory, 'b')] as const
  await Promise.all([inRuntime(query, folders[0], runAll), inRuntime(before(query), folders[1], runAll)])
  expect(await positions(table)).toEqual(all(40))
})

test.each([
  /^after log\.add runs\/backfill\/end/,
  /^before object\.close/,
  /^after log\.add reports\/0/,
  /^after object\.put _delta_log.*0\.json/,
  /^before log\.add commits\/1/,
])('a backfill that dies at %s goes on with the same range, although the topic has grown', async (point) => {
  const query = live('table')
  const history = backfillOf(query, 'all', {
    startingOffsets: 'earliest',
    endingOffsets: 'latest',
    maxOffsetsPerTrigger: '50',
  })
  let isDead = false
  const hook: EffectHook = (at) => {
    if ((isDead ||= point.test(at))) throw new Crash()
  }
  await expect(inRuntime(history, directory, runAll, hook)).rejects.toBeInstanceOf(Error)
  expect(isDead).toBe(true)
  for (const partition of [0, 1]) await topics.produce(topic, numbered(5, { partition }))
  await inRuntime(history, directory, runAll)
  expect(await positions(join(directory, 'warehouse', 'table'))).toEqual(all(40))
})

describe('sluice run --backfill', () => {
  const run = (...flags: string[]) =>
    runLocally({
      directory,
      options: { 'kafka.bootstrap.servers': bootstrap, subscribe: topic, startingOffsets: 'earliest' },
      flags,
    })
  const option = (name: string, value: string): string[] => ['--option', `${name}=${value}`]

  test('lands its range beside the live query, and a second time nothing', async () => {
    const range = [
      '--backfill',
      'jan',
      ...option('startingOffsets', offsets(5, 0)),
      ...option('endingOffsets', offsets(15, 3)),
    ]
    const first = await run(...range)
    expect(first).toMatchObject({ code: 0, stderr: '' })
    expect(first.stdout).toMatch(/^query query\.backfill\.jan {2}run /)
    const table = join(directory, 'warehouse', 'table')
    const landed = [...positionsIn(0, 5, 15), ...positionsIn(1, 0, 3)]
    expect(await positions(table)).toEqual(landed)
    const again = await run(
      '--backfill',
      'jan',
      ...option('startingOffsets', 'earliest'),
      ...option('endingOffsets', 'latest')
    )
    expect(again).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(
        /^warning: options 'startingOffsets', 'endingOffsets' are not used: the query resumes from its log/
      ),
    })
    expect(await positions(table)).toEqual(landed)
  })

  test.each([
    [
      ['--backfill', 'x', ...option('startingOffsets', 'latest'), ...option('endingOffsets', 'latest')],
      'OPTION_INVALID',
      "starting offset can't be latest",
    ],
    [option('startingOffsets', 'latest'), 'OPTION_CONFLICT', '--option goes with --backfill NAME'],
  ])('is refused with exit code 2 before anything is made: %j', async (flags, condition, text) => {
    const refused = await run(...flags)
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringMatching(new RegExp(`^sluice: ${condition}: `)) })
    expect(refused.stderr).toContain(text)
    expect(await readdir(directory)).toEqual([])
  })
})

test('K128 a live query from offset 0 over an aged-out head, failOnDataLoss=false: what is left, each record once', async () => {
  await tool.deleteRecords(topic, { 0: 17, 1: 40 })
  const options = {
    'kafka.bootstrap.servers': bootstrap,
    subscribe: topic,
    startingOffsets: offsets(0, 0),
    failOnDataLoss: false,
  }
  await using query = await openQuery({ options: { ...options, maxOffsetsPerTrigger: 30 }, tables })
  await query.run()
  expect(await query.positions()).toEqual(positionsIn(0, 17, 40))
  const lost = query.batches().flatMap(({ commit }) => commit?.dataLoss ?? [])
  expect(lost.reduce((sum, l) => sum + Number(l.until - l.from), 0)).toBe(17 + 40)
})
