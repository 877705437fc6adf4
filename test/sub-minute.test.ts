/** Intervals under a minute: what one tick's execution does until the next tick, by the state machine's own definition. */
import { describe, expect, it } from 'vitest'
import { decodeCommit } from '../src/log.ts'
import { commitStep, planStep, workStep } from '../src/steps.ts'
import { Trigger, secondsToTrigger } from '../src/trigger.ts'
import { append, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { entered, stepFunctions } from './support/step-functions.ts'
import type { Call, ExecutionResult } from './support/step-functions.ts'
import { newRun, world } from './support/world.ts'
import type { World } from './support/world.ts'

const MINUTE = 60_000
const signal = new AbortController().signal
/** A full minute. */
const start = 28_333_333 * MINUTE

describe('seconds to the next trigger', () => {
  const seconds = (interval: number | string, ms: number) =>
    secondsToTrigger(Trigger.processingTime(interval), start + ms)

  it.each([
    ['10s', 0, 10],
    ['10s', 1, 10], // rounded up
    ['10s', 9000, 1],
    ['10s', 9999, 1],
    ['10s', 42_500, 8],
    ['1s', 300, 1],
    ['500ms', 300, 1],
    ['45s', 1000, 44 - ((start / 1000) % 45)],
  ])('with %s at %d ms are %d', (interval, ms, wanted) => expect(seconds(interval, ms)).toBe(wanted))

  it.each([
    ['10s', 50_000], // the boundary is the minute's: the next tick makes it
    ['10s', 59_999],
    ['1s', 57_001], // a wait may be late, and would end in the next minute
    ['59s', 59_500],
    ['1 minute', 1000],
    ['90s', 1000],
    [0, 1000],
  ])('with %s at %d ms: the next tick', (interval, ms) => expect(seconds(interval, ms)).toBe(null))

  it('other triggers have none', () => {
    for (const trigger of [Trigger.availableNow(), Trigger.once()]) expect(secondsToTrigger(trigger, start)).toBe(null)
  })
})

interface Set {
  readonly interval?: string | number
  /** How long each batch takes, ms; 0 where there is none. */
  readonly batchMs?: readonly number[]
  readonly topic?: number
  readonly options?: Readonly<Record<string, unknown>>
  /** Called as each wait begins. */
  readonly onWait?: (w: World, seconds: number) => void | Promise<void>
}

/** A schedule over a world whose clock moves by waits and by batches alone. One record is there for each batch. */
function schedule({ interval = '10s', batchMs = [], topic = 100, options, onWait = () => {} }: Set = {}) {
  const w = world({ t: [topic] }, options ?? { maxOffsetsPerTrigger: 1 })
  Object.assign(w.clock, { time: start, stepMs: 0 })
  const waits: number[] = []
  const durations = [...batchMs]
  const account = stepFunctions({
    trigger: Trigger.processingTime(interval),
    process: () => w.process(),
    before({ state }) {
      if (state === 'Worker') w.clock.time += durations.shift() ?? 0
    },
    async after({ state }: Call, answer) {
      const { kind, seconds } = Object(answer) as { kind?: string; seconds?: number }
      if (state === 'Worker' || (kind !== 'wait' && kind !== 'pause') || seconds === undefined) return
      waits.push(seconds)
      await onWait(w, seconds)
      w.clock.time += seconds * 1000
    },
  })
  /** Runs a tick so many ms after the start, if that is not over. */
  const tickAt = (ms: number): Promise<ExecutionResult> => {
    w.clock.time = Math.max(w.clock.time, start + ms)
    return account.run()
  }
  /** When each batch began, ms after the start. */
  const triggers = (): number[] =>
    [...(w.log.get('query@1/commits') ?? [])].map(
      ([id, { entry }]) => Date.parse(decodeCommit(Number(id), entry).progress.timestamp) - start
    )
  return { w, account, waits, tickAt, triggers }
}

describe('the execution of a tick', () => {
  it('E6 triggers at once, then at each boundary before the next tick', async () => {
    const { tickAt, triggers, waits, w } = schedule()
    const first = await tickAt(1500)
    expect(first.output).toMatchObject({ commit: { kind: 'done', reason: 'committed' } })
    expect(triggers()).toEqual([1500, 10_500, 20_500, 30_500, 40_500, 50_500]) // waits are whole seconds
    expect(waits).toEqual([9, 10, 10, 10, 10])
    expect(w.lease.holder).toBe(null)
    await tickAt(60_000)
    expect(triggers().slice(6)).toEqual([60_000, 70_000, 80_000, 90_000, 100_000, 110_000])
  })

  it('E6 follows at once after a batch that overran; boundaries missed meanwhile are not made up', async () => {
    const { tickAt, triggers, waits } = schedule({ batchMs: [0, 34_000, 0, 0] })
    await tickAt(0)
    expect(triggers()).toEqual([0, 10_000, 44_000, 50_000])
    expect(waits).toEqual([10, 6])
  })

  it('goes on in the next minute where it overran into it, since that tick finds it busy', async () => {
    const met: unknown[] = []
    const { account, tickAt, triggers, w } = schedule({
      batchMs: [0, 0, 0, 0, 0, 15_000],
      onWait: async ({ clock }) => {
        if (clock.time === start + 65_000) met.push('in the pause')
      },
    })
    w.kafka.before = async (operation) => {
      if (!operation.startsWith('read') || w.clock.time !== start + 65_000 || met.length > 0) return
      met.push((await account.run()).output) // the tick of second 60, while the batch runs
    }
    await tickAt(0)
    expect(met[0]).toMatchObject({ kind: 'done', reason: 'busy' })
    expect(triggers()).toEqual([
      0, 10_000, 20_000, 30_000, 40_000, 50_000, 65_000, 70_000, 80_000, 90_000, 100_000, 110_000,
    ])
  })

  it('E9 reports a batch that took longer than the interval', async () => {
    const w = world({ t: [2] }, { maxOffsetsPerTrigger: 1 })
    Object.assign(w.clock, { time: start, stepMs: 0 })
    const warned: (readonly string[])[] = []
    const context = { batch: w.process(), trigger: Trigger.processingTime('10s') }
    for (const tookMs of [10_001, 10_000]) {
      const plan = await planStep(context, { execution: 'tick', input: {} }, signal)
      if (plan.kind !== 'work') throw new Error(plan.kind)
      await workStep(context, { message: plan.message, task: 0 }, signal)
      w.clock.time += tookMs
      await commitStep(context, { message: plan.message }, signal, (_progress, warnings) => warned.push(warnings))
    }
    expect(warned).toEqual([['batch 0 took 10001 ms, longer than the trigger interval of 10000 ms'], []])
  })

  it('without an interval goes on while there is more, and ends with the data', async () => {
    const { tickAt, triggers, waits, w } = schedule({ interval: 0, topic: 3, batchMs: [10, 10, 10] })
    expect((await tickAt(0)).output).toMatchObject({ kind: 'done', reason: 'noNewData' })
    expect([triggers(), waits]).toEqual([[0, 10, 20], []])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('of less than a second waits whole seconds, and ends in time for the next tick', async () => {
    const { tickAt, triggers } = schedule({ interval: 100 })
    await tickAt(55_000)
    expect(triggers()).toEqual([55_000, 56_000, 57_000, 58_000])
  })

  it('looks at each boundary whether there is something, and frees the lease between two looks', async () => {
    const holders: unknown[] = []
    const { tickAt, triggers, waits, w } = schedule({
      topic: 1,
      onWait(at) {
        holders.push(at.lease.holder)
        if (holders.length === 3) append(at.kafka, 't', 0, 1)
      },
    })
    const result = await tickAt(0)
    expect(result.output).toMatchObject({ kind: 'done', reason: 'noNewData' })
    expect(triggers()).toEqual([0, 30_000])
    expect(waits).toEqual([10, 10, 10, 10, 10])
    expect([new Set(holders), w.lease.holder]).toEqual([new Set([null]), null])
    expect([entered(result.events, 'Pause'), entered(result.events, 'Wait')]).toEqual([2, 3])
    expect(result.largestPayload).toBeLessThan(1000)
  })

  it('ends where a run by hand came in between two boundaries', async () => {
    const hand = newRun(true)
    const { tickAt, triggers, w } = schedule({
      onWait: async (at) => void (await at.process().lease.acquire(hand.runId, signal)),
    })
    expect((await tickAt(0)).output).toMatchObject({ kind: 'done', reason: 'busy', holder: hand.runId })
    expect([triggers(), w.lease.holder]).toEqual([[0], hand.runId])
  })

  it('waits out a minimum: the delay passes within the loop', async () => {
    const { tickAt, triggers } = schedule({
      topic: 5,
      options: { minOffsetsPerTrigger: 5, maxTriggerDelay: '25s' },
      onWait: ({ kafka }) => append(kafka, 't', 0, 1),
    })
    await tickAt(0)
    expect(triggers()).toEqual([0, 30_000])
  })

  it('of a minute or more makes one batch and no loop', async () => {
    const { tickAt, triggers, waits } = schedule({ interval: '1 minute' })
    await tickAt(0)
    expect([triggers(), waits]).toEqual([[0], []])
  })
})

describe('Trigger.once by the state machine', () => {
  const onceOver = (w: World) => stepFunctions({ trigger: Trigger.once(), process: () => w.process() })

  it('is one pass without limits, and warns once', async () => {
    const w = world({ t: [30] }, { maxOffsetsPerTrigger: 10 })
    expect((await onceOver(w).run()).output).toMatchObject({ commit: { kind: 'done', reason: 'committed' } })
    expect(w.table.commits).toHaveLength(1)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
    const warned: string[] = []
    const context = { batch: w.process(), trigger: Trigger.once() }
    await planStep(context, { execution: 'next', input: {} }, signal, (text) => warned.push(text))
    expect(warned).toEqual([
      expect.stringContaining('deprecated'),
      expect.stringContaining("'maxOffsetsPerTrigger' is ignored"),
    ])
  })

  it('is overruled by a start by hand, which keeps the limits', async () => {
    const w = world({ t: [30] }, { maxOffsetsPerTrigger: 10 })
    await onceOver(w).run({ trigger: 'availableNow' })
    expect(w.table.commits).toHaveLength(3)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

it('a minimum is a new one for a start by hand, not for a tick', async () => {
  const w = world({ t: [5] }, { minOffsetsPerTrigger: 5, maxTriggerDelay: '1h' })
  const account = stepFunctions({ trigger: Trigger.processingTime('1 minute'), process: () => w.process() })
  await account.run()
  append(w.kafka, 't', 0, 1)
  expect((await account.run()).output).toMatchObject({ kind: 'done', reason: 'delayed' })
  await account.run({ trigger: 'availableNow' })
  expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
})
