/** What the steps make of an event, and what they answer to the state machine. */
import { describe, expect, it } from 'vitest'
import { isSluiceError } from '../src/errors.ts'
import { commitStep, planStep, workStep } from '../src/steps.ts'
import type { StepContext } from '../src/steps.ts'
import { Trigger } from '../src/trigger.ts'
import { append, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { world, TTL_MS } from './support/world.ts'
import type { ProcessSetUp, World } from './support/world.ts'

const MINUTE = 60_000
const { signal } = new AbortController()

const contextOf = (w: World, trigger = Trigger.processingTime('1 minute'), setUp: ProcessSetUp = {}): StepContext => ({
  batch: w.process(setUp),
  trigger,
})

const planEvent = (fields: object = {}) => ({ execution: 'run', input: {}, entries: 0, waits: 0, ...fields })

async function planned(context: StepContext, fields: object = {}) {
  const outcome = await planStep(context, planEvent(fields), signal)
  if (outcome.kind !== 'work') throw new Error(`not planned: ${outcome.kind}`)
  return outcome
}

type Work = Awaited<ReturnType<typeof planned>>

async function workAll(context: StepContext, { message, tasks }: Work): Promise<void> {
  for (const task of tasks) await workStep(context, { message, task }, signal)
}

const idsOf = (w: World, log: string): (number | string)[] => [...(w.log.get(`query@1/${log}`)?.keys() ?? [])]

/** Everything durable, to compare. */
const durable = (w: World) =>
  structuredClone({ log: [...w.log], lease: w.lease, objects: w.table.objects, commits: w.table.commits })

describe('a malformed event', () => {
  const message = { runId: 'run', batchId: 0, token: 1, triggerMs: 1, replay: false, availableNow: false }
  const rows: [string, typeof planStep | typeof workStep | typeof commitStep, unknown, string][] = [
    ['planner', planStep, undefined, 'it is not a JSON object'],
    ['planner', planStep, null, 'it is not a JSON object'],
    ['planner', planStep, 'availableNow', 'it is not a JSON object'],
    ['planner', planStep, [], 'it is not a JSON object'],
    ['planner', planStep, {}, "'execution'"],
    ['planner', planStep, planEvent({ execution: '' }), "'execution'"],
    ['planner', planStep, planEvent({ execution: 7 }), "'execution'"],
    ['planner', planStep, planEvent({ input: 'availableNow' }), "'input' is not a JSON object"],
    ['planner', planStep, planEvent({ input: { trigger: 'once' } }), "'trigger' takes 'availableNow'"],
    ['planner', planStep, planEvent({ input: { triger: 'availableNow' } }), "'triger' is unknown"],
    ['planner', planStep, planEvent({ input: { run: 7 } }), "'run'"],
    ['planner', planStep, planEvent({ input: { part: '1' } }), "'part'"],
    ['planner', planStep, planEvent({ entries: -1 }), "'entries'"],
    ['planner', planStep, planEvent({ waits: 1.5 }), "'waits'"],
    // What a rule sends where no input was given.
    ['planner', planStep, planEvent({ input: { 'detail-type': 'Scheduled Event' } }), "'detail-type' is unknown"],
    ['worker', workStep, undefined, 'it is not a JSON object'],
    ['worker', workStep, { task: 0 }, "'message' is not a JSON object"],
    ['worker', workStep, { message }, "'task'"],
    ['worker', workStep, { message, task: '0' }, "'task'"],
    ['worker', workStep, { message, task: -1 }, "'task'"],
    ['worker', workStep, { message: { ...message, runId: null }, task: 0 }, "'message.runId'"],
    ['worker', workStep, { message: { ...message, batchId: '0' }, task: 0 }, "'message.batchId'"],
    ['committer', commitStep, 7, 'it is not a JSON object'],
    ['committer', commitStep, {}, "'message' is not a JSON object"],
    ['committer', commitStep, { message: { ...message, token: undefined } }, "'message.token'"],
    ['committer', commitStep, { message: { ...message, triggerMs: 2 ** 53 } }, "'message.triggerMs'"],
  ]

  it.each(rows)('%s: %o', async (_function, step, event, reason) => {
    const w = world({ t: [4] })
    const before = durable(w)
    await expect(step(contextOf(w), event, signal)).rejects.toMatchObject({
      name: 'EVENT_MALFORMED',
      retryable: false,
      parameters: { reason: expect.stringContaining(reason) },
      message: expect.stringContaining('{"trigger":"availableNow"}'),
    })
    expect(durable(w)).toEqual(before)
  })

  it.each([{}, null, undefined])('is not the input %o: a tick', async (input) => {
    expect(await planStep(contextOf(world({ t: [4] })), planEvent({ input }), signal)).toMatchObject({
      kind: 'work',
      message: { availableNow: false },
    })
  })
})

describe('the plan', () => {
  it('hands out pointers: batch, run, token, times and task numbers', async () => {
    const w = world({ t: [4, 4] })
    expect(await planned(contextOf(w))).toMatchObject({
      message: {
        runId: 'run',
        batchId: 0,
        token: 1,
        triggerMs: expect.any(Number),
        replay: false,
        availableNow: false,
      },
      tasks: [0, 1],
      entries: 60 + 2 * 16,
      waits: 0,
    })
  })

  it('says whose run it continues, and that the rest of a batch of its own is no replay', async () => {
    const w = world({ t: [4, 4] })
    const { message } = await planned(contextOf(w))
    const again = await planned(contextOf(w), { execution: 'run-1', input: { run: 'run', part: 1 } })
    expect(again.message).toEqual({ ...message, runId: 'run', replay: false, token: 1 })
  })

  it('says that it is a replay where it found the batch of another run', async () => {
    const w = world({ t: [4, 4] })
    await planned(contextOf(w))
    w.clock.time += TTL_MS
    expect((await planned(contextOf(w), { execution: 'later' })).message).toMatchObject({
      runId: 'later',
      replay: true,
    })
  })

  it.each([
    ['by the input', { trigger: 'availableNow' }, Trigger.processingTime('1 minute')],
    ['by the query', {}, Trigger.availableNow()],
  ])('is of an AvailableNow run %s', async (_name, input, trigger) => {
    const w = world({ t: [4] })
    expect((await planned(contextOf(w, trigger), { input })).message.availableNow).toBe(true)
    expect(idsOf(w, 'runs')).toEqual(['run/end'])
  })

  // One range more than a pass hands out at most (P13); (24,000 - entries) / 16 is what the history has room for (P18).
  it.each([
    [0, 1000],
    [8000, 1000],
    [8016, 999],
    [16_060, 496],
    [22_400, 100],
  ])('P13: after %i entries it hands out %i tasks', async (entries, tasks) => {
    const w = world({ t: [1001] }, { minPartitions: 1001 })
    const work = await planned(contextOf(w), { entries })
    expect(work.tasks).toEqual(Array.from({ length: tasks }, (_, i) => i))
    expect(work.entries).toBe(entries + 60 + 16 * tasks)
  })

  it.each([22_401, 24_000, 30_000])('P18: after %i entries it goes on in another execution', async (entries) => {
    const w = world({ t: [4] })
    expect(await planStep(contextOf(w), planEvent({ entries }), signal)).toEqual({
      kind: 'continue',
      name: 'run-1',
      input: { run: 'run', part: 1 },
    })
    expect([...w.log]).toEqual([])
  })

  const continuationOf = async (execution: string, input: object = {}) => {
    const outcome = await planStep(contextOf(world({ t: [4] })), { execution, input, entries: 24_000 }, signal)
    return outcome.kind === 'continue' ? outcome : null
  }

  it('P18: a continuation is named after the run, not after the part before, and keeps the input', async () => {
    expect(await continuationOf('run-3', { trigger: 'availableNow', run: 'run', part: 3 })).toEqual({
      kind: 'continue',
      name: 'run-4',
      input: { trigger: 'availableNow', run: 'run', part: 4 },
    })
  })

  it('P18: its name has at most 80 characters, and no two runs share it', async () => {
    expect((await continuationOf('r'.repeat(78)))?.name).toBe(`${'r'.repeat(78)}-1`)
    const names = await Promise.all(['a', 'b'].map((first) => continuationOf(first + 'r'.repeat(79))))
    expect(new Set(names.map((n) => n?.name)).size).toBe(2)
    for (const n of names) expect(n?.name).toMatch(/^[0-9a-f]{40}-1$/)
    expect(names[0]?.input.run).toBe('a' + 'r'.repeat(79))
    expect(await continuationOf('a' + 'r'.repeat(79))).toEqual(names[0])
  })
})

describe('the commit', () => {
  const boundary = Math.ceil(1_700_000_000_000 / MINUTE) * MINUTE
  const everyMinute = Trigger.processingTime('1 minute')

  it.each([
    ['within its interval', everyMinute, 0, MINUTE - 1, 'done', 'committed'],
    ['at the next boundary', everyMinute, 0, MINUTE, 'again', 'more'],
    ['late, over a boundary', everyMinute, 59_000, 61_000, 'again', 'more'],
    ['late, within a boundary', everyMinute, 1000, 59_000, 'done', 'committed'],
    ['after many boundaries', everyMinute, 0, 5 * MINUTE, 'again', 'more'],
    ['without an interval', Trigger.processingTime(0), 0, 1, 'again', 'more'],
    ['of AvailableNow', Trigger.availableNow(), 0, 1, 'again', 'more'],
  ] as const)('%s goes on by decision 5', async (_name, trigger, plannedAt, committedAt, kind, reason) => {
    const w = world({ t: [4] })
    Object.assign(w.clock, { time: boundary + plannedAt, stepMs: 0 })
    const context = contextOf(w, trigger)
    const work = await planned(context)
    await workAll(context, work)
    w.clock.time = boundary + committedAt
    expect(await commitStep(context, { message: work.message }, signal)).toMatchObject({ kind, reason })
    // It keeps the lease between its batches and frees it at its end (P19).
    expect(w.lease.holder).toBe(kind === 'again' ? 'run' : null)
  })

  it('tells the progress of its batch', async () => {
    const w = world({ t: [4] })
    const context = contextOf(w)
    const work = await planned(context)
    await workAll(context, work)
    const told: unknown[] = []
    await commitStep(context, { message: work.message }, signal, ({ batchId, numInputRows }) =>
      told.push({ batchId, numInputRows })
    )
    expect(told).toEqual([{ batchId: 0, numInputRows: 4 }])
  })

  it('asks for another plan where tasks are missing', async () => {
    const w = world({ t: [4, 4] })
    const context = contextOf(w)
    const { message } = await planned(context)
    await workStep(context, { message, task: 0 }, signal)
    expect(await commitStep(context, { message }, signal)).toMatchObject({ kind: 'again', reason: 'incomplete' })
    expect((await planned(context)).tasks).toEqual([1])
  })

  it('asks for another plan where staged output is gone', async () => {
    const w = world({ t: [4, 4] })
    const context = contextOf(w)
    const work = await planned(context)
    await workAll(context, work)
    w.table.objects.clear()
    const { message } = work
    expect(await commitStep(context, { message }, signal)).toMatchObject({ kind: 'again', reason: 'redo' })
    expect((await planned(context)).tasks).toEqual([0, 1])
  })

  it('is at its end where another run took over, and leaves the lease to it', async () => {
    const w = world({ t: [4] })
    const context = contextOf(w)
    const { message } = await planned(context)
    Object.assign(w.lease, { holder: 'other', token: 2 })
    expect(await commitStep(context, { message }, signal)).toMatchObject({ kind: 'done', reason: 'superseded' })
    expect(w.lease).toMatchObject({ holder: 'other', token: 2 })
  })

  it('answers a second committer without a second effect', async () => {
    const w = world({ t: [4] })
    const context = contextOf(w, Trigger.availableNow())
    const work = await planned(context)
    await workAll(context, work)
    await commitStep(context, { message: work.message }, signal)
    const before = durable(w)
    expect(await commitStep(context, { message: work.message }, signal)).toMatchObject({ kind: 'again' })
    expect({ ...durable(w), lease: null }).toEqual({ ...before, lease: null })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

describe('the release', () => {
  const release = (w: World, fields: object = {}, by = signal) =>
    planStep(contextOf(w), planEvent({ release: true, ...fields }), by)

  it('frees the lease of its run, wherever the run got to, and plans nothing', async () => {
    const w = world({ t: [4] })
    await planned(contextOf(w))
    append(w.kafka, 't', 0, 1)
    expect(await release(w)).toEqual({ kind: 'done', reason: 'released' })
    expect([w.lease.holder, idsOf(w, 'offsets')]).toEqual([null, [0]])
  })

  it('frees it for a continuation as well', async () => {
    const w = world({ t: [4] })
    await planned(contextOf(w))
    await release(w, { execution: 'run-7', input: { run: 'run', part: 7 } })
    expect(w.lease.holder).toBe(null)
  })

  it('leaves the lease to another run', async () => {
    const w = world({ t: [4] })
    await planned(contextOf(w))
    expect(await release(w, { execution: 'other' })).toEqual({ kind: 'done', reason: 'released' })
    expect(w.lease).toMatchObject({ holder: 'run', token: 1 })
  })

  it('has no effect after the abort', async () => {
    const w = world({ t: [4] })
    await planned(contextOf(w))
    const before = durable(w)
    await expect(release(w, {}, AbortSignal.abort())).rejects.toMatchObject({ name: 'ABORTED' })
    expect(durable(w)).toEqual(before)
  })
})

describe('P20: after the abort no durable effect begins', () => {
  const steps = {
    plan: (context: StepContext, _message: unknown, by: AbortSignal) => planStep(context, planEvent(), by),
    work: (context: StepContext, message: unknown, by: AbortSignal) => workStep(context, { message, task: 0 }, by),
    commit: (context: StepContext, message: unknown, by: AbortSignal) => commitStep(context, { message }, by),
  }
  type Name = keyof typeof steps

  /** A world in which the step is next. */
  async function ready(step: Name): Promise<{ w: World; message: unknown }> {
    const w = world({ t: [4] })
    if (step === 'plan') return { w, message: null }
    const work = await planned(contextOf(w))
    if (step === 'commit') await workAll(contextOf(w), work)
    return { w, message: work.message }
  }

  /** Runs the step; at the nth point that its ports announce, the signal fires. */
  async function abortedAt(step: Name, nth: number) {
    const { w, message } = await ready(step)
    const abort = new AbortController()
    const points: string[] = []
    let atAbort: unknown
    const hook = (point: string): void => {
      if (points.push(point) !== nth) return
      atAbort = durable(w)
      abort.abort()
    }
    const context = contextOf(w, Trigger.processingTime('1 minute'), { hook })
    const failure: unknown = await steps[step](context, message, abort.signal).then(
      () => null,
      (error: unknown) => error
    )
    return { w, points, atAbort, failure }
  }

  it.each(['plan', 'work', 'commit'] as const)('P20: %s, aborted at each of its points', async (step) => {
    const whole = await abortedAt(step, Infinity)
    expect(whole.failure).toBe(null)
    expect(whole.points.length).toBeGreaterThan(10)
    for (let nth = 1; nth <= whole.points.length; nth++) {
      const { w, points, atAbort, failure } = await abortedAt(step, nth)
      expect({ at: points[nth - 1], now: durable(w) }).toEqual({ at: points[nth - 1], now: atAbort })
      const isLast = nth === whole.points.length // it had nothing left to begin
      expect([nth, isLast || isSluiceError(failure, 'ABORTED')]).toEqual([nth, true])
    }
  })
})
