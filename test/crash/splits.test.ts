/**
 * The crash matrix of packed tasks and of splits, on real parts (P1, P14): one worker reads all ranges of a batch and stops at its
 * deadline, others read what is left; or two workers began it and were killed, and a third one splits it unread. The process dies
 * around each effect, or loses its answer; the next run finishes.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { defineQuery, deltaTable, kafka } from '../../src/index.ts'
import { logKeys } from '../../src/log.ts'
import { dieAt, effectsOf, loseAnswerAt, runAll, tableIn } from '../support/crash-matrix.ts'
import type { WholeRun } from '../support/crash-matrix.ts'
import { readPositions } from '../support/delta-reader.ts'
import { positionsOf, readTopic } from '../support/kafka-reader.ts'
import { runTimed } from '../support/timed-run.ts'
import { openTopics } from '../support/topics.ts'

const { bootstrap } = inject('kafka')
const root = mkdtempSync(join(tmpdir(), 'sluice-splits-'))
const topics = await openTopics(bootstrap)
afterAll(async () => {
  await topics.close()
  rmSync(root, { recursive: true, force: true })
})

const topic = await topics.create({ partitions: 2 })
const send = (records: number): Promise<void> =>
  topics.produce(
    topic,
    Array.from({ length: records }, (_, n) => ({ partition: n % 3 === 2 ? 1 : 0, value: `v${n}` }))
  )
const query = defineQuery({
  name: 'crash',
  source: kafka({
    'kafka.bootstrap.servers': bootstrap,
    subscribe: topic,
    startingOffsets: 'earliest',
    'sluice.targetBytesPerWorker': '1m',
  }),
  sink: deltaTable('table'),
})

// Batch 0 tells what an offset weighs; of the next one each partition has three batches of records.
const base = join(root, 'base')
await send(3)
await effectsOf(query, base, runAll)
for (let n = 0; n < 3; n++) await send(3)

const directoryOf = async (name: string): Promise<string> => {
  const directory = join(root, name)
  await cp(base, directory, { recursive: true })
  return directory
}

const timed: WholeRun = (context) => runTimed(context, { runId: randomUUID(), availableNow: true }, 2)
const started: WholeRun = async (context) => {
  const { signal } = new AbortController()
  for (const k of [1, 2]) await context.log.add(logKeys.attempt(1, 0, 0, k), '{"v":1}', signal)
  await timed(context)
}

/** The split, and the first of its parts. */
const reports = [/reports.1.000000.000000$/, /reports.1.000000.000001$/]

const runs: { how: string; run: WholeRun; effects: readonly RegExp[] }[] = [
  {
    how: 'packed',
    run: runAll,
    effects: [/log.add offsets.1$/, /object.close .*parquet$/, /reports.1.000000.000000$/, /commits.1$/],
  },
  {
    how: 'split at the deadline',
    run: timed,
    effects: [/attempts.1.000000.000000.1$/, /object.close .*parquet$/, ...reports, /_delta_log.*01.json$/],
  },
  { how: 'split unread', run: started, effects: [/attempts.1.000000.000000.2$/, ...reports, /commits.1$/] },
]
const undisturbed = await Promise.all(
  runs.map(async ({ how, run, effects }) => {
    const directory = await directoryOf(how)
    const points = await effectsOf(query, directory, run)
    return { how, run, effects, points, table: tableIn(directory) }
  })
)
// Before and after the first of each kind.
const cases = undisturbed.flatMap(({ how, run, effects, points }) =>
  effects.flatMap((effect) => {
    const first = points.findIndex((point) => effect.test(point))
    return [first, first + 1].map((n) => ({ how, run, n, point: points[n] ?? '' }))
  })
)
const tables: { what: string; table: string }[] = undisturbed.map(({ how, table }) => ({ what: how, table }))

async function inNewDirectory(what: string, work: (directory: string) => Promise<void>): Promise<void> {
  const directory = await directoryOf(String(tables.length))
  tables.push({ what, table: tableIn(directory) })
  await work(directory)
}

describe('tasks of several ranges, and their parts', () => {
  it.each(undisturbed)('have these effects, $how', ({ effects, points }) => {
    for (const effect of effects) expect(points.some((point) => effect.test(point))).toBe(true)
  })

  it.each(cases)('$how: die $point', ({ how, run, point, n }) =>
    inNewDirectory(`${how}: die ${point}`, (directory) => dieAt(query, directory, n, run))
  )

  it.each(cases.filter(({ point }) => point.startsWith('after ')))(
    '$how: lose the answer $point',
    ({ how, run, point, n }) =>
      inNewDirectory(`${how}: lose the answer ${point}`, (directory) => loseAnswerAt(query, directory, n, run))
  )

  it('P1 P14: leave each record of the broker once in the table that delta-rs reads', async () => {
    const inKafka = [...positionsOf(await readTopic(bootstrap, topic))].toSorted()
    expect(inKafka).toHaveLength(12)
    const read = await readPositions(tables.map(({ table }) => table))
    const wrong = read.flatMap((rows, i) => (rows.join() === inKafka.join() ? [] : [{ ...tables[i], rows }]))
    expect(wrong).toEqual([])
    expect(read).toHaveLength(tables.length)
  })
})
