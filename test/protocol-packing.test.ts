/** N3: several ranges in one task. The plan is stored, and everything behind it takes a task as a list of ranges. */
import { describe, expect, it } from 'vitest'
import { decodeOffsets, decodeReport } from '../src/log.ts'
import type { BatchContext } from '../src/context.ts'
import { append, createTopic, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { commit, plan, work } from './support/timed-run.ts'
import { newRun, runToEnd, world } from './support/world.ts'
import type { World } from './support/world.ts'

const entriesOf = (w: World, log: string): ReadonlyMap<number | string, { entry: string }> =>
  w.log.get(`query@1/${log}`) ?? new Map()

/** `t-0 [0,5) + t-1 [0,3)`, a text for each task of the stored plan. */
const tasksOf = (w: World, batchId: number): string[] =>
  decodeOffsets(batchId, entriesOf(w, 'offsets').get(batchId)?.entry ?? '').tasks.map((task) =>
    task.map((r) => `${r.topic}-${r.partition} [${r.from},${r.until})`).join(' + ')
  )

const reportsOf = (w: World, batchId: number) =>
  [...entriesOf(w, `reports/${batchId}`)].map(([id, { entry }]) => decodeReport({ log: 'reports', id }, entry))

/** Batch 0 has told that an offset takes 5 bytes; then so many records come to partitions t-0, t-1, ... */
async function measuredWorld(
  more: readonly number[],
  options: Readonly<Record<string, unknown>> = {},
  leaders: readonly number[] = []
): Promise<World> {
  const w = world({ t: more.map(() => 2) }, { 'sluice.targetBytesPerWorker': 50, ...options })
  await runToEnd(w.process())
  more.forEach((records, partition) => append(w.kafka, 't', partition, records))
  for (const [partition, leader] of leaders.entries())
    Object.assign(w.kafka.topics.get('t')?.partitions[partition] ?? {}, { leader })
  w.lease.holder = null
  return w
}

const delivered = async (w: World): Promise<void> => {
  w.lease.holder = null
  expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
  expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
}

describe('a packed plan', () => {
  it('N3: is made once batches have told what an offset weighs, and is stored', async () => {
    const w = await measuredWorld([4, 3, 5, 25])
    await plan(w.process(), newRun())
    expect(tasksOf(w, 0)).toEqual(['t-0 [0,2)', 't-1 [0,2)', 't-2 [0,2)', 't-3 [0,2)'])
    expect(tasksOf(w, 1)).toEqual(['t-0 [2,6) + t-1 [2,5)', 't-2 [2,7)', 't-3 [2,10)', 't-3 [10,18)', 't-3 [18,27)'])
    await delivered(w)
  })

  it('N3: keeps what one broker leads together', async () => {
    const w = await measuredWorld([4, 4, 4, 4], {}, [2, 1, 2, 1])
    await plan(w.process(), newRun())
    expect(tasksOf(w, 1)).toEqual(['t-1 [2,6) + t-3 [2,6)', 't-0 [2,6) + t-2 [2,6)'])
    await delivered(w)
  })

  it('N3: is replayed as it is, whatever the option says by then', async () => {
    const w = await measuredWorld([4, 3, 5])
    const run = newRun()
    const planned = await plan(w.process(), run)
    const other = w.process({ options: { 'sluice.targetBytesPerWorker': undefined } })
    expect(await plan(other, run)).toMatchObject({ tasks: planned.tasks })
    for (const task of planned.tasks) await work(other, run, planned, task)
    expect(await commit(other, run, planned)).toMatchObject({ kind: 'committed', progress: { numInputRows: 12 } })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P1: a task of several ranges has one object and one report, with a receipt for each', async () => {
    const w = await measuredWorld([4, 3])
    const run = newRun()
    const planned = await plan(w.process(), run)
    expect(planned.tasks).toEqual([0])
    expect(await work(w.process(), run, planned, 0)).toMatchObject({ kind: 'reported', records: 7 })
    const [report, ...others] = reportsOf(w, 1)
    expect(others).toEqual([])
    expect(report?.message.objects).toHaveLength(1)
    expect(report?.ranges).toMatchObject([
      { partition: 0, from: 2n, until: 6n, records: 4, rows: 4 },
      { partition: 1, from: 2n, until: 5n, records: 3, rows: 3 },
    ])
    expect(new Set(report?.ranges.map(({ hash }) => hash)).size).toBe(2)
    await commit(w.process(), run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P1: of two attempts one wins all of its ranges', async () => {
    const w = await measuredWorld([4, 3])
    const run = newRun()
    const planned = await plan(w.process(), run)
    // Each reads on while the other reads, so that neither is ahead in both ranges.
    const both = await Promise.all([0, 1].map(() => work(w.process(), run, planned, 0)))
    expect(both.map(({ kind }) => kind).toSorted()).toEqual(['alreadyReported', 'reported'])
    expect(reportsOf(w, 1)).toHaveLength(1)
    await commit(w.process(), run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P1: a report of some of its ranges does not count', async () => {
    const w = await measuredWorld([4, 3])
    const run = newRun()
    const planned = await plan(w.process(), run)
    await work(w.process(), run, planned, 0)
    const [[id, stored] = ['', { entry: '' }]] = [...entriesOf(w, 'reports/1')]
    const half = JSON.parse(stored.entry) as { ranges: unknown[] } // the test's own entry
    w.log.get('query@1/reports/1')?.set(id, {
      entry: JSON.stringify({ ...half, ranges: half.ranges.slice(0, 1) }),
      createdAt: 0,
    })
    expect(await commit(w.process(), run, planned)).toEqual({ kind: 'incomplete', tasks: [0] })
    expect(w.table.commits).toHaveLength(1)
  })
})

describe('one of several ranges', () => {
  const two = { subscribe: 't,u' }

  async function withTwoTopics(failOnDataLoss: boolean) {
    const w = world({ t: [2], u: [2] }, { 'sluice.targetBytesPerWorker': '1k', failOnDataLoss, ...two })
    await runToEnd(w.process())
    append(w.kafka, 't', 0, 6)
    append(w.kafka, 'u', 0, 4)
    w.lease.holder = null
    const run = newRun()
    const planned = await plan(w.process(), run)
    expect(tasksOf(w, 1)).toEqual(['t-0 [2,8) + u-0 [2,6)'])
    return { w, run, planned }
  }

  const ageOut = (w: World): void => {
    const [t] = w.kafka.topics.get('t')?.partitions ?? []
    if (t !== undefined) t.logStart = 5
  }

  it.each<[string, (w: World) => void, RegExp]>([
    ['whose head is gone', ageOut, /t-0/],
    ['whose topic is another', (w) => createTopic(w.kafka, 't', [9]), /t-0.*TOPIC_RECREATED/],
    ['whose topic is gone', (w) => w.kafka.topics.delete('t'), /t-0/],
  ])('%s fails the task by name, and nothing of the others is reported', async (_what, change, named) => {
    const { w, run, planned } = await withTwoTopics(true)
    const objects = w.table.objects.size
    change(w)
    await expect(work(w.process(), run, planned, 0)).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringMatching(named),
    })
    expect([reportsOf(w, 1), w.table.objects.size]).toEqual([[], objects])
  })

  it.each<[string, (w: World) => void, string, string[]]>([
    ['whose head is gone', ageOut, 't-0 [2,5) COULD_NOT_READ_OFFSET_RANGE', ['t-0@5', 't-0@6', 't-0@7']],
    ['whose topic is another', (w) => createTopic(w.kafka, 't', [9]), 't-0 [2,8) TOPIC_RECREATED', []],
    ['whose topic is gone', (w) => w.kafka.topics.delete('t'), 't-0 [2,8) COULD_NOT_READ_OFFSET_RANGE', []],
  ])('P9: %s is a loss where that is tolerated, and the others are delivered', async (_what, change, loss, rows) => {
    const { w, run, planned } = await withTwoTopics(false)
    change(w)
    await work(w.process(), run, planned, 0)
    const outcome = await commit(w.process(), run, planned)
    const found = outcome.kind === 'committed' ? outcome.progress.sluice.dataLoss : []
    expect(found.map((f) => `${f.topic}-${f.partition} [${f.from},${f.until}) ${f.reason}`)).toEqual([loss])
    const [newest] = w.table.commits.slice(-1)
    const written = newest?.objects.flatMap((name) => w.table.objects.get(name) ?? [])
    expect(written?.toSorted()).toEqual([...rows, 'u-0@2', 'u-0@3', 'u-0@4', 'u-0@5'].toSorted())
  })
})

describe('a worker with a time-out', () => {
  it('P14: ranges of the next plan take half of it, by the time that the last batches took', async () => {
    const w = world({ t: [10, 1] })
    const run = newRun()
    const limited = (): BatchContext => ({ ...w.process(), workerTimeoutMs: 10_000 })
    const planned = await plan(limited(), run)
    w.clock.stepMs = 3300 // each task takes so long
    for (const task of planned.tasks) await work(limited(), run, planned, task)
    w.clock.stepMs = 1
    expect(await commit(limited(), run, planned)).toMatchObject({ progress: { sluice: { workMs: 6600, tasks: 2 } } })
    append(w.kafka, 't', 0, 30)
    await plan(limited(), run)
    // 11 offsets in 6.6 s are 8 in half of 10 s.
    expect(tasksOf(w, 1)).toEqual(['t-0 [10,17)', 't-0 [17,24)', 't-0 [24,32)', 't-0 [32,40)'])
  })

  it('a local run plans as Spark does', async () => {
    const w = world({ t: [10, 1] })
    w.clock.stepMs = 10_000
    await runToEnd(w.process())
    append(w.kafka, 't', 0, 30)
    await runToEnd(w.process())
    expect(tasksOf(w, 1)).toEqual(['t-0 [10,40)'])
  })
})
