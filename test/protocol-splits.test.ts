/** P14: a task that is too long for one worker is split, and nothing is lost or counted twice whoever comes late. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { TaskOutcome } from '../src/batch.ts'
import type { BatchContext } from '../src/context.ts'
import { SluiceError, isSluiceError } from '../src/errors.ts'
import { logKeys } from '../src/log.ts'
import { decodeTaskEntry, encodeTaskEntry, isSplit, receiptsIn } from '../src/split-entry.ts'
import type { TaskEntry } from '../src/split-entry.ts'
import { partNumber } from '../src/task-tree.ts'
import { workStep } from '../src/steps.ts'
import { Trigger } from '../src/trigger.ts'
import { append, createTopic, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { namedError, stepFunctions } from './support/step-functions.ts'
import type { Step } from './support/step-functions.ts'
import { MAX_PASSES, commit, plan, runTimed, work, workInTime } from './support/timed-run.ts'
import type { Planned } from './support/timed-run.ts'
import { newRun, runToEnd, TTL_MS, world } from './support/world.ts'
import type { World } from './support/world.ts'

const entriesOf = (w: World, log: string): ReadonlyMap<number | string, { entry: string }> =>
  w.log.get(`query@1/${log}`) ?? new Map()

const idsOf = (w: World, log: string): string[] => [...entriesOf(w, log).keys()].map(String).toSorted()

const reportsOf = (w: World, batchId = 0): TaskEntry[] =>
  [...entriesOf(w, `reports/${batchId}`)].map(([id, { entry }]) => decodeTaskEntry({ log: 'reports', id }, entry))

/** `done 0 [0,3) | rest 0 [3,5), 0 [5,7)` */
function shown(entry: TaskEntry): string {
  const text = (ranges: readonly { partition: number; from: bigint; until: bigint }[]): string =>
    ranges.map((r) => `${r.partition} [${r.from},${r.until})`).join(' ')
  const parts = isSplit(entry) ? ` | rest ${entry.parts.map(text).join(', ')}` : ''
  return `done ${text(receiptsIn(entry))}${parts}`
}

/** Runs `effect` once, at the first time the point is reached. */
function once(point: string, effect: () => unknown): (reached: string) => Promise<void> {
  let done = false
  return async (reached) => {
    if (done || reached !== point) return
    done = true
    await effect()
  }
}

/** A process that dies at a point: nothing of it follows. */
class Death extends Error {}

function dying(w: World, point: string): BatchContext {
  let dead = false
  const hook = (reached: string): void => {
    dead ||= reached === point
    if (dead) throw new Death()
  }
  return w.process({ hook })
}

const die = (worker: Promise<TaskOutcome>) => expect(worker).rejects.toBeInstanceOf(Death)

/** Workers without a limit do what is left, until the batch is committed. */
async function finish(w: World, run = newRun(), planned?: Planned): Promise<void> {
  let at = planned ?? (await plan(w.process(), run))
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    for (const task of at.tasks) await work(w.process(), run, at, task)
    if ((await commit(w.process(), run, at)).kind === 'committed') return
    at = await plan(w.process(), run)
  }
  throw new Error('the batch does not come to its end')
}

describe('P14: a worker that sees its deadline near', () => {
  it('P14: stages and reports what it read; the rest becomes parts of half its time, which others read', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    expect(await workInTime(w.process(), run, planned, 0, 1)).toMatchObject({
      kind: 'split',
      records: 3,
      rows: 3,
      parts: 5,
    })
    expect(reportsOf(w).map(shown)).toEqual(['done 0 [0,3) | rest 0 [3,5), 0 [5,7), 0 [7,8), 0 [8,9), 0 [9,10)'])
    expect(await commit(w.process(), run, planned)).toEqual({ kind: 'incomplete', tasks: [1, 2, 3, 4, 5] })
    expect(w.table.commits).toEqual([])
    const again = await plan(w.process(), run)
    expect(again).toMatchObject({ kind: 'planned', tasks: [1, 2, 3, 4, 5] })
    for (const task of again.tasks) await work(w.process(), run, again, task)
    expect(await commit(w.process(), run, again)).toMatchObject({
      kind: 'committed',
      progress: { numInputRows: 10, sluice: { offsets: 10n, offsetsWithoutRecord: 0n, tasks: 1 } },
    })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P14: reads something, however late it is, and reports as ever when it gets done', async () => {
    const w = world({ t: [5, 3] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    expect(await workInTime(w.process(), run, planned, 0, 0)).toMatchObject({ kind: 'split', records: 3 })
    expect(await workInTime(w.process(), run, planned, 1, 0)).toMatchObject({ kind: 'reported', records: 3 })
    await finish(w, run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P14: parts run out of time too, until all is read', async () => {
    const w = world({ t: [40, 0, 7] })
    await runTimed(w.process(), newRun(true))
    expect(reportsOf(w).filter(isSplit).length).toBeGreaterThan(2)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
    expect(w.table.commits).toHaveLength(1)
  })

  it('P14: of two attempts that stop at different places one counts, with its own rest', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    const hook = once('before log.add reports/0/000000/000000', () => workInTime(w.process(), run, planned, 0, 2))
    const slow = await workInTime(w.process({ hook }), run, planned, 0, 1)
    expect(slow).toEqual({ kind: 'alreadyReported', differs: false })
    expect(reportsOf(w).map(shown)).toEqual(['done 0 [0,6) | rest 0 [6,8), 0 [8,10)'])
    await finish(w, run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('N5 P14: another reading of the part that is done differs', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    const slots = w.kafka.topics.get('t')?.partitions[0]?.slots ?? []
    const hook = once('before log.add reports/0/000000/000000', async () => {
      slots[1] = null // compaction came between
      await workInTime(w.process(), run, planned, 0, 1)
    })
    expect(await workInTime(w.process({ hook }), run, planned, 0, 1)).toEqual({
      kind: 'alreadyReported',
      differs: true,
    })
  })

  /** A task of two ranges, and the head of the first one is gone before it is read. */
  async function lossyWorld(failOnDataLoss: boolean, change: (w: World) => void = () => {}) {
    const w = world({ t: [10], u: [10] }, { failOnDataLoss, 'sluice.targetBytesPerWorker': '1m' })
    await finish(w)
    append(w.kafka, 't', 0, 10)
    append(w.kafka, 'u', 0, 10)
    w.lease.holder = null
    const run = newRun()
    const planned = await plan(w.process(), run)
    const [t] = w.kafka.topics.get('t')?.partitions ?? []
    if (t !== undefined) t.logStart = 12
    change(w)
    return { w, run, late: workInTime(w.process(), run, planned, 0, 1) }
  }

  it('P14: fails for a loss as ever', async () => {
    const { late } = await lossyWorld(true)
    await expect(late).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
  })

  it('P1 P14: tells a tolerated loss with the part that met it, once', async () => {
    const { w, run, late } = await lossyWorld(false, ({ kafka }) => kafka.topics.delete('u'))
    expect(await late).toMatchObject({ kind: 'split', records: 3 })
    const rest = await plan(w.process(), run)
    for (const task of rest.tasks) await work(w.process(), run, rest, task)
    const outcome = await commit(w.process(), run, rest)
    const loss = outcome.kind === 'committed' ? outcome.progress.sluice.dataLoss : []
    expect(loss.map(({ topic, from, until }) => `${topic} [${from},${until})`)).toEqual([
      't [10,12)',
      'u [10,11)', // in one part with the rest of t, and then alone
      'u [11,14)',
      'u [14,16)',
      'u [16,18)',
      'u [18,20)',
    ])
    expect(rowsOf(w.table).filter((row) => row.startsWith('t-0@1'))).toHaveLength(1 + 8)
  })

  it('P9 P14: parts are held against the topic that was planned', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    await workInTime(w.process(), run, planned, 0, 1)
    createTopic(w.kafka, 't', [10])
    const again = await plan(w.process(), run)
    await expect(work(w.process(), run, again, 1)).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringContaining('TOPIC_RECREATED'),
    })
  })
})

describe('P14: a task that was started twice without a report', () => {
  /** Two workers began task 0 and died, one while it read, one before its report. */
  async function startedTwice(w: World, task = 0) {
    const run = newRun()
    const planned = await plan(w.process(), run)
    await die(workInTime(dying(w, 'before sink.stage'), run, planned, task))
    await die(
      workInTime(dying(w, `before log.add reports/0/000000/${String(task).padStart(6, '0')}`), run, planned, task)
    )
    return { run, planned }
  }

  it('P14: is split by the third worker, which reads nothing; each part is a task', async () => {
    const w = world({ t: [10] })
    const { run, planned } = await startedTwice(w)
    w.kafka.before = (operation) => expect(operation).not.toContain('read')
    expect(await workInTime(w.process(), run, planned, 0)).toEqual({
      kind: 'split',
      parts: 8,
      records: 0,
      bytes: 0,
      rows: 0,
    })
    w.kafka.before = () => {}
    const again = await plan(w.process(), run)
    expect(again.tasks).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    for (const task of again.tasks) await workInTime(w.process(), run, again, task)
    expect(await commit(w.process(), run, again)).toMatchObject({ kind: 'committed' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P14: a late report of an old attempt and the split never both count, whichever comes first', async () => {
    const w = world({ t: [10] })
    const { run, planned } = await startedTwice(w)
    // The second worker was not dead: its report is on its way while a third one splits the task.
    const zombie = w.process({
      hook: once('before log.add reports/0/000000/000000', () => workInTime(w.process(), run, planned, 0)),
    })
    expect(await work(zombie, run, planned, 0)).toEqual({ kind: 'alreadyReported', differs: false })
    expect(reportsOf(w)).toHaveLength(1)
    await finish(w, run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P14: the split that comes second has no effect', async () => {
    const w = world({ t: [10] })
    const { run, planned } = await startedTwice(w)
    const splitting = w.process({
      hook: once('before log.add reports/0/000000/000000', () => work(w.process(), run, planned, 0)),
    })
    expect(await workInTime(splitting, run, planned, 0)).toEqual({ kind: 'alreadyReported', differs: false })
    expect(reportsOf(w).map(shown)).toEqual(['done 0 [0,10)'])
    expect(await commit(w.process(), run, planned)).toMatchObject({ kind: 'committed' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P14: twins that both split it make one split', async () => {
    const w = world({ t: [10] })
    const { run, planned } = await startedTwice(w)
    const twins = [0, 1].map(() => workInTime(w.process(), run, planned, 0))
    expect((await Promise.all(twins)).map((outcome) => outcome.kind)).toEqual(['split', 'alreadyReported'])
    await finish(w, run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P14: errors that have a name do not count: a broker that is down makes no task too long', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    const timeout = { topic: 't', partition: 0, offset: '3', timeoutMs: 1 }
    w.kafka.before = (operation) => {
      if (operation === 'read t-0 3') throw new SluiceError('KAFKA_TIMEOUT', timeout)
    }
    for (let n = 0; n < 5; n++)
      await expect(workInTime(w.process(), run, planned, 0)).rejects.toMatchObject({ name: 'KAFKA_TIMEOUT' })
    expect(idsOf(w, 'attempts/0')).toEqual([])
    w.kafka.before = () => {}
    expect(await workInTime(w.process(), run, planned, 0)).toMatchObject({ kind: 'reported' })
  })

  it('P14: a worker that is stopped at its deadline counts', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    for (let n = 0; n < 2; n++) {
      const abort = new AbortController()
      w.kafka.before = (operation) => {
        if (operation === 'read t-0 0') abort.abort()
      }
      const stopped = workInTime(w.process(), run, planned, 0, Infinity, abort.signal)
      await expect(stopped).rejects.toMatchObject({ name: 'ABORTED' })
    }
    expect(idsOf(w, 'attempts/0')).toEqual(['000000/000000/1', '000000/000000/2'])
    w.kafka.before = () => {}
    expect(await workInTime(w.process(), run, planned, 0)).toMatchObject({ kind: 'split' })
  })

  it('P14: without a deadline nobody counts: a local run notes no starts', async () => {
    const w = world({ t: [10] })
    await runToEnd(w.process())
    expect(idsOf(w, 'attempts/0')).toEqual([])
  })

  it('P14: down to one offset, which fails by name; the others are read, and the next run tries again', async () => {
    const w = world({ t: [100, 3] })
    // Whoever reads offset 37 is killed.
    const killer = (): BatchContext => {
      let dead = false
      const hook = (): void => {
        if (dead) throw new Death()
      }
      const context = w.process({ hook })
      const toRows: BatchContext['toRows'] = (batch) => {
        for (let i = 0; i < batch.length; i++) dead ||= batch.partition === 0 && batch.offset(i) === 37n
        if (dead) throw new Death()
        return context.toRows(batch)
      }
      return { ...context, toRows }
    }
    const failures: SluiceError[] = []
    const outcomes: TaskOutcome[] = []
    const attempt = async (run: ReturnType<typeof newRun>, planned: Planned, task: number): Promise<void> => {
      // As the state machine calls it: once and three times again.
      for (let call = 0; call < 4; call++) {
        const outcome = await workInTime(killer(), run, planned, task).catch((error: unknown) => error)
        if (outcome instanceof Death) continue
        if (outcome instanceof SluiceError) failures.push(outcome)
        else outcomes.push(outcome as TaskOutcome) // what is no error is what it answers
        return
      }
    }
    const run = newRun()
    for (let pass = 0; pass < MAX_PASSES && failures.length === 0; pass++) {
      const planned = await plan(w.process(), run)
      for (const task of planned.tasks) await attempt(run, planned, task)
    }
    expect(failures).toMatchObject([
      { name: 'OFFSET_STOPS_WORKER', retryable: false, parameters: { offsets: 't-0 at offset 37' } },
    ])
    expect(failures[0]?.message).toMatch(/memory or time.*the next run tries again/)
    expect(outcomes.filter(({ kind }) => kind === 'split')).toHaveLength(2) // of 100 offsets and of 13
    const last = await plan(w.process(), run)
    expect(last.tasks).toHaveLength(1)
    expect(await commit(w.process(), run, last)).toMatchObject({ kind: 'incomplete' })
    // With more memory the offset is read, by a worker as any other.
    expect(await workInTime(w.process(), run, last, last.tasks[0] ?? -1)).toMatchObject({
      kind: 'reported',
      records: 1,
    })
    expect(await commit(w.process(), run, last)).toMatchObject({ kind: 'committed' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

describe('P12 P14: redo and splits', () => {
  it('P12 P14: a new generation starts from the plan: parts of the old one have no effect', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    await workInTime(w.process(), run, planned, 0, 1)
    const rest = await plan(w.process(), run)
    for (const task of rest.tasks) await work(w.process(), run, rest, task)
    w.table.objects.delete([...w.table.objects.keys()][0] ?? '')
    expect(await commit(w.process(), run, rest)).toMatchObject({ kind: 'redo', generation: 1 })
    expect(await work(w.process(), run, rest, 1)).toEqual({ kind: 'superseded' })
    const again = await plan(w.process(), run)
    expect(again.tasks).toEqual([0])
    // Split at another place now.
    expect(await workInTime(w.process(), run, again, 0, 2)).toMatchObject({ kind: 'split', records: 6 })
    await finish(w, run, again)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P10 P12 P14: a deployment between a split and its parts publishes one shape', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    await workInTime(w.process(), run, planned, 0, 1)
    const deployed = w.process({ mappingDigest: 'changed' })
    const rest = await plan(deployed, run)
    for (const task of rest.tasks) await work(deployed, run, rest, task)
    expect(await commit(deployed, run, rest)).toMatchObject({ kind: 'redo', generation: 1 })
    expect(w.table.commits).toEqual([])
  })

  it('P14: starts are counted for each generation', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    await workInTime(w.process(), run, planned, 0)
    w.table.objects.clear()
    await commit(w.process(), run, planned)
    await die(workInTime(dying(w, 'before sink.stage'), run, planned, 0))
    await die(workInTime(dying(w, 'before sink.stage'), run, planned, 0))
    expect(idsOf(w, 'attempts/0')).toEqual(['000000/000000/1', '000001/000000/1', '000001/000000/2'])
    expect(await workInTime(w.process(), run, planned, 0)).toMatchObject({ kind: 'split' })
    await finish(w, run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

describe('what a split leaves', () => {
  it('P13 P14: the planner hands out leaves without a report, 1,000 at the most, as whole numbers', async () => {
    const w = world({ t: [400] }, { minPartitions: 200 })
    const run = newRun()
    const planned = await plan(w.process(), run)
    for (const task of planned.tasks) {
      await die(workInTime(dying(w, 'before sink.stage'), run, planned, task))
      await die(workInTime(dying(w, 'before sink.stage'), run, planned, task))
      await workInTime(w.process(), run, planned, task)
    }
    const again = await plan(w.process(), run)
    expect(again.tasks).toEqual(planned.tasks.flatMap((task) => [200 + 8 * task, 201 + 8 * task]))
    expect(again.tasks.every(Number.isSafeInteger)).toBe(true)
    await finish(w, run, again)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P7 P14: what was noted of starts goes with the reports', async () => {
    const w = world({ t: [12] }, { maxOffsetsPerTrigger: 4, 'sluice.minBatchesToRetain': 1 })
    w.clock.stepMs = 86_400_000
    await runTimed(w.process(), newRun(true))
    expect([idsOf(w, 'attempts/0'), idsOf(w, 'reports/0')]).toEqual([[], []])
    expect(idsOf(w, 'attempts/2').length).toBeGreaterThan(0)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P14: a part whose own parts would have no numbers is not split: it is read whole, or fails by name', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    await workInTime(w.process(), run, planned, 0, 1)
    const [[, { entry }] = ['', { entry: '' }]] = [...entriesOf(w, 'reports/0')]
    const split = decodeTaskEntry({ log: 'reports', id: 0 }, entry)
    const parent = Math.floor(Number.MAX_SAFE_INTEGER / 9)
    const parts = [[{ topic: 't', partition: 0, from: 0n, until: 10n }]]
    const far = encodeTaskEntry({ ...split, task: parent, kind: 'split', done: null, parts })
    const { log, id } = logKeys.report(0, 0, parent)
    w.log.get(`query@1/${log}`)?.set(id, { entry: far, createdAt: 0 })
    const task = partNumber(1, parent, 0)
    await die(workInTime(dying(w, 'before sink.stage'), run, planned, task))
    await die(workInTime(dying(w, 'before sink.stage'), run, planned, task))
    await expect(workInTime(w.process(), run, planned, task)).rejects.toMatchObject({
      name: 'OFFSET_STOPS_WORKER',
      parameters: { offsets: 't-0 [0, 10)' },
    })
    expect(await workInTime(w.process(), run, planned, task, 1)).toMatchObject({ kind: 'reported', records: 10 })
  })

  it('P14: a split of another plan has no parts', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    await workInTime(w.process(), run, planned, 0, 1)
    const [[id, { entry }] = ['', { entry: '' }]] = [...entriesOf(w, 'reports/0')]
    const other = entry.replace(/"planDigest":"[0-9a-f]+"/, '"planDigest":"other"')
    w.log.get('query@1/reports/0')?.set(id, { entry: other, createdAt: 0 })
    expect(await work(w.process(), run, planned, 1)).toEqual({ kind: 'superseded' })
    expect(await commit(w.process(), run, planned)).toEqual({ kind: 'incomplete', tasks: [0] })
  })

  it('a part that nobody split off has no effect', async () => {
    const w = world({ t: [10] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    expect(await work(w.process(), run, planned, 5)).toEqual({ kind: 'superseded' })
    await work(w.process(), run, planned, 0)
    expect(await work(w.process(), run, planned, 5)).toEqual({ kind: 'superseded' })
    expect(reportsOf(w)).toHaveLength(1)
  })
})

describe('any course of a batch', () => {
  type Fate = { readonly kind: 'done' | 'late' | 'dies' | 'twins' | 'zombie' | 'unwritten'; readonly n: number }
  const fate = fc.record<Fate>({
    kind: fc.constantFrom('done', 'late', 'dies', 'twins', 'zombie', 'unwritten'),
    n: fc.integer({ min: 1, max: 4 }),
  })

  it('P1 P14: whatever becomes of the workers, each record is in the table once', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(30), { minLength: 1, maxLength: 3 }),
        fc.array(fate, { maxLength: 40 }),
        fc.boolean(),
        async (sizes, fates, isPacked) => {
          const w = world({ t: [4], u: sizes }, isPacked ? { 'sluice.targetBytesPerWorker': 150 } : {})
          await finish(w)
          w.lease.holder = null
          append(w.kafka, 't', 0, 20)
          const run = newRun()
          const queue = [...fates]
          let isCommitted = false
          for (let pass = 0; pass < MAX_PASSES && !isCommitted; pass++) {
            const planned = await plan(w.process(), run)
            for (const task of planned.tasks) await meet(w, run, planned, task, queue.shift())
            const outcome = await commit(w.process(), run, planned)
            isCommitted = outcome.kind === 'committed'
          }
          expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
        }
      ),
      { numRuns: 60 }
    )
  })

  async function meet(w: World, run: ReturnType<typeof newRun>, planned: Planned, task: number, met?: Fate) {
    const { kind, n } = met ?? { kind: 'done', n: 1 }
    // One offset may be given up while a twin still works on it; the next worker tries again.
    const isExpected = (e: unknown) => e instanceof Death || isSluiceError(e, 'OFFSET_STOPS_WORKER')
    const inTime = (context: BatchContext, batches?: number) =>
      workInTime(context, run, planned, task, batches).catch((e: unknown) => {
        if (!isExpected(e)) throw e
      })
    const key = `log.add reports/${planned.batchId}/000000/${String(task).padStart(6, '0')}`
    switch (kind) {
      case 'done':
        return inTime(w.process())
      case 'late':
        return inTime(w.process(), n)
      case 'dies':
        return inTime(dying(w, 'before sink.stage'))
      case 'unwritten':
        return inTime(dying(w, `${n % 2 === 0 ? 'before' : 'after'} ${key}`), n)
      case 'twins':
        return Promise.all([inTime(w.process()), inTime(w.process(), n)])
      case 'zombie':
        // The other does its work right before this one's put.
        return inTime(w.process({ hook: once(`before ${key}`, () => inTime(w.process(), n)) }))
    }
  }
})

describe('the next run', () => {
  it('P14: finds the parts that are left, and finishes without a limit', async () => {
    const w = world({ t: [10, 5] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    await workInTime(w.process(), run, planned, 0, 1)
    w.clock.time += TTL_MS
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

describe('the state machine', () => {
  const accountOn = (w: World, worker: Step) =>
    stepFunctions({ trigger: Trigger.availableNow(), process: () => w.process(), work: worker })

  it('P14: a range that is too long for one invocation is not stuck: each one reads what it can', async () => {
    const w = world({ t: [50, 2] })
    const account = accountOn(w, async ({ batch, trigger }, event, signal) => {
      let read = 0
      const clock = { now: () => (read > 0 ? 2 : 0) }
      const toRows: BatchContext['toRows'] = (records) => {
        read += records.length
        return batch.toRows(records)
      }
      return workStep({ batch: { ...batch, clock, toRows }, trigger, deadlineMs: 1 }, event, signal)
    })
    expect(await account.run()).toMatchObject({ status: 'SUCCEEDED' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
    expect(reportsOf(w).filter(isSplit).length).toBeGreaterThan(1)
  })

  it('P14: nor is one whose workers are killed', async () => {
    const w = world({ t: [50, 2] })
    let killed = 0
    const account = accountOn(w, async ({ batch, trigger }, event, signal) => {
      let [read, isDead] = [0, false]
      const alive = w.process({
        hook: () => {
          if (isDead) throw namedError('Sandbox.Timedout')
        },
      })
      const toRows: BatchContext['toRows'] = (records) => {
        read += records.length
        if (!isDead && read > 7) killed++
        isDead = read > 7
        return batch.toRows(records)
      }
      return workStep({ batch: { ...alive, clock: { now: () => 0 }, toRows }, trigger, deadlineMs: 1 }, event, signal)
    })
    expect(await account.run()).toMatchObject({ status: 'SUCCEEDED' })
    expect(killed).toBe(2)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})
