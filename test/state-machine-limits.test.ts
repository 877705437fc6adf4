/** How far a run goes in one execution: the history's 25,000 entries, the payloads' 256 KB, and what comes after. */
import { describe, expect, it } from 'vitest'
import { decodeOffsets, decodeReport, encodeReport, logKeys } from '../src/log.ts'
import type { RangeReport } from '../src/log.ts'
import { workStep } from '../src/steps.ts'
import { Trigger } from '../src/trigger.ts'
import { append, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { entered, historyEntries, namedError, stepFunctions } from './support/step-functions.ts'
import type { Call, ExecutionResult, SetUp, Step } from './support/step-functions.ts'
import { world } from './support/world.ts'
import type { World } from './support/world.ts'

const accountOn = (w: World, setUp: Partial<SetUp>) =>
  stepFunctions({ trigger: Trigger.processingTime('1 minute'), process: () => w.process(), ...setUp })

const idsOf = (w: World, log: string): (number | string)[] => [...(w.log.get(`query@1/${log}`)?.keys() ?? [])]

describe('a run that outgrows one execution', () => {
  // 76 entries are reserved for a batch of one task: an execution has room for about 295 of them.
  const catchUp = (batches: number, before: (call: Call, w: World) => void | Promise<void> = () => {}) => {
    const w = world({ t: [batches] }, { maxOffsetsPerTrigger: 1 })
    const account = accountOn(w, { before: (call) => before(call, w) })
    account.start({ trigger: 'availableNow' }, 'catch-up')
    return { w, account, settled: account.settled() }
  }
  const partOf = (part: number) => ({ trigger: 'availableNow', run: 'catch-up', part })

  it('P18: goes on under <run>-<k> with its id, its lease and its end, each part within the history', async () => {
    const late: unknown[] = []
    const { w, account, settled } = catchUp(620, async ({ state }) => {
      if (state !== 'Continue' || late.length > 0) return
      append(w.kafka, 't', 0, 5)
      late.push((await account.run({}, 'tick')).output)
    })
    const there = recordsIn(w.kafka)
    const results = await settled
    expect(results.map(({ name, input, status }) => [name, input, status])).toEqual([
      ['catch-up', { trigger: 'availableNow' }, 'SUCCEEDED'],
      ['tick', {}, 'SUCCEEDED'],
      ['catch-up-1', partOf(1), 'SUCCEEDED'],
      ['catch-up-2', partOf(2), 'SUCCEEDED'],
    ])
    expect(late).toEqual([{ kind: 'done', reason: 'busy', holder: 'catch-up' }])
    expect(w.lease).toMatchObject({ holder: null, token: 1 }) // nobody else ever had it
    expect(idsOf(w, 'runs')).toEqual(['catch-up/end'])
    expect(new Set([...(w.log.get('query@1/offsets') ?? [])].map(runOf))).toEqual(new Set(['catch-up']))
    expect(rowsOf(w.table)).toEqual(there)
    expect(Math.max(...results.map((r) => historyEntries(r.events)))).toBeLessThan(25_000)
  })

  it('P18: that somebody has continued already is success', async () => {
    const { w, settled } = catchUp(300, ({ state }) => {
      if (state === 'Continue') throw namedError('StepFunctions.ExecutionAlreadyExistsException')
    })
    const [first, ...others] = await settled
    expect([first?.status, entered(first?.events ?? [], 'Release'), others]).toEqual(['SUCCEEDED', 0, []])
    expect(w.lease.holder).toBe('catch-up')
  })

  it.each([
    [3, ['SUCCEEDED', 'SUCCEEDED'], null],
    [4, ['FAILED'], 'StepFunctions.ThrottlingException'],
  ])('asks for the next execution again: refused %i times', async (times, statuses, error) => {
    const { w, settled } = catchUp(300, ({ state, attempt }) => {
      if (state === 'Continue' && attempt <= times) throw namedError('StepFunctions.ThrottlingException')
    })
    const results = await settled
    expect(results.map((r) => r.status)).toEqual(statuses)
    expect([results[0]?.error, w.lease.holder]).toEqual([error, null])
  })

  it('frees the lease of its run where a later part fails', async () => {
    const { w, settled } = catchUp(300, ({ state, execution }) => {
      if (state === 'Worker' && execution === 'catch-up-1') throw namedError('MAPPING_FAILED')
    })
    expect((await settled).map((r) => r.error)).toEqual([null, 'MAPPING_FAILED'])
    expect(w.lease.holder).toBe(null)
  })
})

const runOf = ([id, { entry }]: [number | string, { entry: string }]): string => decodeOffsets(Number(id), entry).runId

describe('a plan of 3,000 ranges over topics with 200-character names', () => {
  const topics = Object.fromEntries(
    Array.from({ length: 10 }, (_, i) => [`topic-${i}-`.padEnd(200, 'x'), [100, 100, 100]])
  )
  const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
  const handedOut = ({ events }: ExecutionResult): number[][] =>
    events.flatMap((e) =>
      // a state's input is JSON
      e.type === 'StateEntered' && e.state.name === 'Work' ? [(e.state.input as { tasks: number[] }).tasks] : []
    )
  /** Each decodes the whole plan: a real worker for these, the report alone for the others. */
  const isReal = (task: number): boolean => task % 37 === 0 || [495, 496, 999, 1000, 1495, 1496, 2999].includes(task)

  it.each([
    ['in good health', 0],
    ['where every call fails as often as it may', 3],
  ])('B55 P13: fits payloads and history %s, and worker k reads range k', async (_name, failures) => {
    const w = world(topics, { minPartitions: 3000 })
    const account = accountOn(w, {
      work: realOrReportOnly(w, isReal),
      before({ state, attempt }) {
        if (state !== 'Continue' && attempt <= failures) throw namedError('LOG_STORE_UNREACHABLE', 'x'.repeat(4000))
      },
    })
    account.start({ trigger: 'availableNow' }, 'long')
    const results = await account.settled()
    expect(results.map((r) => r.status)).toEqual(['SUCCEEDED', 'SUCCEEDED', 'SUCCEEDED'])
    expect(idsOf(w, 'commits')).toEqual([0])

    // At most 1,000 a pass, each task once, as whole numbers.
    const passes = results.flatMap(handedOut)
    expect(passes.map((tasks) => tasks.length)).toEqual([1000, 496, 1000, 496, 8])
    expect(passes.flat()).toEqual(count(3000))

    const payloads = results.map((r) => r.largestPayload)
    expect(Math.max(...payloads)).toBeLessThan(262_144)
    expect(Math.min(...payloads)).toBeGreaterThan(200) // they were measured

    const entries = results.map((r) => historyEntries(r.events))
    expect(Math.max(...entries)).toBeLessThan(25_000)
    expect(entries[0]).toBeGreaterThan((failures === 0 ? 7 : 16) * 1496)

    const tasks = planOf(w)
    const read = count(3000).filter(isReal)
    expect(read.map((k) => reportOf(w, k).ranges)).toMatchObject(read.map((k) => tasks[k] ?? []))
    const rows = read.flatMap((k) => (tasks[k] ?? []).map((r) => `${r.topic}-${r.partition}@${r.from}`))
    expect(rowsOf(w.table)).toEqual(rows.toSorted())
  })
})

const planOf = (w: World) => decodeOffsets(0, w.log.get('query@1/offsets')?.get(0)?.entry ?? '').tasks

const reportOf = (w: World, task: number): RangeReport => {
  const key = logKeys.report(0, 0, task)
  return decodeReport(key, w.log.get(`query@1/${key.log}`)?.get(key.id)?.entry ?? '')
}

/** A worker that for most tasks leaves a report as one would that found no record in its range. */
function realOrReportOnly(w: World, isReal: (task: number) => boolean): Step {
  let plan: ReturnType<typeof planOf> | undefined
  let first: Promise<unknown> | undefined
  return async (context, event, signal) => {
    const { message, task } = event as { message: object; task: number } // as the state machine makes it
    await (first ??= workStep(context, { message, task: 0 }, signal))
    if (isReal(task)) return workStep(context, event, signal)
    plan ??= planOf(w)
    const { ranges, message: staged, ...model } = reportOf(w, 0)
    const nothing = { records: 0, rows: 0, bytes: 0, hash: ranges[0]?.hash ?? '', highWatermark: null }
    const report = {
      ...model,
      task,
      attempt: `attempt of ${task}`,
      ranges: (plan[task] ?? []).map((range) => ({ ...range, ...nothing })),
      message: { ...staged, objects: [] },
    }
    await context.batch.log.add(logKeys.report(0, 0, task), encodeReport(report), signal)
    return null
  }
}
