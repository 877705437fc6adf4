/** Whether what the tasks of a batch reported, and the parts of those that were split, covers its plan. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { differ, verifyReports } from '../src/coverage.ts'
import type { RangeReport } from '../src/log.ts'
import { sizeOf, totalSizeOf } from '../src/ranges.ts'
import type { OffsetRange } from '../src/ranges.ts'
import type { TaskEntry, TaskSplit } from '../src/split-entry.ts'
import { splitRest, splitUnread } from '../src/task-split.ts'
import { partNumber } from '../src/task-tree.ts'
import { planOf, range, receiptOf, reportOf } from './support/log-entries.ts'

describe('whether reports cover a plan', () => {
  const plan = planOf([range(0, 0, 5), range(1, 0, 3)])
  const [a, b] = [reportOf(plan, 0), reportOf(plan, 1)]
  const verify = (reports: readonly RangeReport[], generation = 0, of = plan) =>
    verifyReports(of, 'digest', generation, reports)

  it('B48 A twice is A once: no commit', () => {
    expect(verify([a, a])).toEqual({ kind: 'incomplete', tasks: [1] })
    expect(verify([a, { ...a, attempt: 'another' }])).toEqual({ kind: 'incomplete', tasks: [1] })
  })

  it('B48 A twice and B: A once, the first, in the order of the tasks', () => {
    expect(verify([b, a, { ...a, attempt: 'another' }])).toEqual({ kind: 'complete', reports: [a, b] })
  })

  it.each([
    ['another batch', { batchId: 1 }],
    ['another plan of this batch', { planDigest: 'other' }],
    ['an older generation', { generation: 0 }],
    ['other ranges', { ranges: [receiptOf(range(1, 0, 2))] }],
    ['more ranges', { ranges: [receiptOf(range(1, 0, 3)), receiptOf(range(0, 0, 5))] }],
    ['no range', { ranges: [] }],
    ['a task that the plan does not have', { task: 2 }],
  ])('B48 a report of %s does not count', (_what, change) => {
    const [one, two] = [a, b].map((report) => ({ ...report, generation: 1 }))
    expect(verify([one, { ...two, ...change }] as RangeReport[], 1)).toEqual({ kind: 'incomplete', tasks: [1] })
  })

  it('B48 a range that held no record answers too', () => {
    const empty = reportOf(plan, 1, { ranges: [receiptOf(range(1, 0, 3), { records: 0, rows: 0 })] })
    expect(verify([a])).toEqual({ kind: 'incomplete', tasks: [1] })
    expect(verify([a, empty])).toEqual({ kind: 'complete', reports: [a, empty] })
  })

  it('a plan without tasks is covered by nothing', () => {
    expect(verify([], 0, planOf([]))).toEqual({ kind: 'complete', reports: [] })
  })

  it('a packed task answers for all its ranges in their order (P1)', () => {
    const packed = planOf([range(0, 0, 5), range(1, 0, 3)], { tasks: [[range(0, 0, 5), range(1, 0, 3)]] })
    expect(verify([reportOf(packed, 0)], 0, packed).kind).toBe('complete')
    const half = reportOf(packed, 0, { ranges: [receiptOf(range(0, 0, 5))] })
    expect(verify([half], 0, packed)).toEqual({ kind: 'incomplete', tasks: [0] })
  })

  it.each([
    ['sink', { sink: 'changed', mapping: 'bronze' }],
    ['mapping', { sink: 'table', mapping: 'changed' }],
  ])(
    'P10 reports under two fingerprints (%s) are unusable, under one other than the plan they are not',
    (_w, other) => {
      const [changedA, changedB] = [a, b].map((report) => ({ ...report, fingerprint: other }))
      expect(verify([a, changedB] as RangeReport[])).toMatchObject({ kind: 'unusable' })
      expect(verify([changedA, changedB] as RangeReport[])).toMatchObject({ kind: 'complete' })
    }
  )

  it('P10 is not judged before all have answered', () => {
    const wide = planOf([range(0, 0, 5), range(1, 0, 3), range(2, 0, 1)])
    const changed = reportOf(wide, 1, { fingerprint: { sink: 'changed', mapping: 'bronze' } })
    expect(verify([reportOf(wide, 0), changed], 0, wide)).toEqual({ kind: 'incomplete', tasks: [2] })
  })
})

describe('whether parts cover a task that was split', () => {
  const plan = planOf([range(0, 0, 100), range(1, 0, 3)])
  const { ranges: _ranges, message, fingerprint, dataLoss, workMs, ...attempt } = reportOf(plan, 0)
  const doneOf = (...ranges: OffsetRange[]) => ({
    ranges: ranges.map((one) => receiptOf(one)),
    message,
    fingerprint,
    dataLoss,
    workMs,
  })
  const split = (changes: Partial<TaskSplit> = {}): TaskSplit => ({
    ...attempt,
    kind: 'split',
    done: doneOf(range(0, 0, 60)),
    parts: [[range(0, 60, 80)], [range(0, 80, 100)]],
    ...changes,
  })
  const partOf = (index: number, of: OffsetRange, parent = 0): RangeReport =>
    reportOf(plan, 0, { task: partNumber(2, parent, index), ranges: [receiptOf(of)] })
  const other = reportOf(plan, 1)
  const verify = (...entries: TaskEntry[]) => verifyReports(plan, 'digest', 0, entries)

  it('P14: what was done counts, and each part is a task of its own', () => {
    expect(verify(split(), other)).toEqual({ kind: 'incomplete', tasks: [2, 3] })
    const [first, second] = [partOf(0, range(0, 60, 80)), partOf(1, range(0, 80, 100))]
    expect(verify(split(), second, other)).toEqual({ kind: 'incomplete', tasks: [2] })
    const done = reportOf(plan, 0, { ranges: [receiptOf(range(0, 0, 60))] })
    expect(verify(other, second, split(), first)).toEqual({ kind: 'complete', reports: [done, first, second, other] })
  })

  it('P14: a split of an unread task has nothing of its own', () => {
    const unread = split({ done: null, parts: [[range(0, 0, 50)], [range(0, 50, 100)]] })
    const parts = [partOf(0, range(0, 0, 50)), partOf(1, range(0, 50, 100))]
    expect(verify(unread, ...parts, other)).toEqual({ kind: 'complete', reports: [...parts, other] })
  })

  it('P14: parts are split again', () => {
    const again = split({ task: 3, done: doneOf(range(0, 80, 81)), parts: [[range(0, 81, 100)]] })
    expect(verify(split(), partOf(0, range(0, 60, 80)), again, other)).toEqual({
      kind: 'incomplete',
      tasks: [partNumber(2, 3, 0)],
    })
    const last = partOf(0, range(0, 81, 100), 3)
    expect(verify(split(), partOf(0, range(0, 60, 80)), again, last, other).kind).toBe('complete')
  })

  it.each<[string, Partial<TaskSplit>]>([
    ['another batch', { batchId: 1 }],
    ['another plan of this batch', { planDigest: 'other' }],
    ['another generation', { generation: 1 }],
    ['a gap between what is done and the parts', { parts: [[range(0, 61, 100)]] }],
    ['a gap between two parts', { parts: [[range(0, 60, 70)], [range(0, 71, 100)]] }],
    ['parts that overlap', { parts: [[range(0, 60, 71)], [range(0, 70, 100)]] }],
    ['parts in another order', { parts: [[range(0, 80, 100)], [range(0, 60, 80)]] }],
    ['an end too early', { parts: [[range(0, 60, 99)]] }],
    ['an end too late', { parts: [[range(0, 60, 101)]] }],
    ['another partition', { parts: [[range(1, 60, 100)]] }],
    ['no parts', { parts: [] }],
  ])('P14: a split of %s does not count', (_what, changes) => {
    const parts = [partOf(0, range(0, 60, 80)), partOf(1, range(0, 80, 100))]
    expect(verify(split(changes), ...parts, other)).toEqual({ kind: 'incomplete', tasks: [0] })
  })

  it('P14: a report of a part counts for that part alone', () => {
    expect(verify(split(), partOf(1, range(0, 60, 80)), partOf(1, range(0, 80, 100)), other)).toEqual({
      kind: 'incomplete',
      tasks: [2, 3], // of two entries of one task the first is the one that is stored
    })
    expect(verify(split(), partOf(0, range(0, 60, 79)), partOf(1, range(0, 80, 100)), other)).toMatchObject({
      tasks: [2],
    })
  })

  it('P10 P14: what is done and the parts are under one fingerprint, or unusable', () => {
    const changed = { sink: 'changed', mapping: 'bronze' }
    const parts = [partOf(0, range(0, 60, 80)), { ...partOf(1, range(0, 80, 100)), fingerprint: changed }]
    expect(verify(split(), ...parts, other)).toMatchObject({ kind: 'unusable' })
  })
})

describe('any course of a batch', () => {
  /** What a worker does with a task, by a number from 0 to 1. */
  type Deed = { readonly what: 'report' | 'late' | 'unread' | 'again'; readonly at: number }
  const deed = fc.record<Deed>({
    what: fc.constantFrom('report', 'late', 'unread', 'again'),
    at: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  const anyPlan = fc
    .array(fc.array(fc.tuple(fc.nat(3), fc.integer({ min: 1, max: 40 })), { minLength: 1, maxLength: 3 }), {
      minLength: 1,
      maxLength: 4,
    })
    .map((tasks) => {
      const ends = new Map<number, number>()
      const ranges = tasks.map((task) =>
        task.map(([partition, size]) => {
          const from = ends.get(partition) ?? 0
          ends.set(partition, from + size)
          return range(partition, from, from + size)
        })
      )
      return planOf(ranges.flat(), { tasks: ranges })
    })

  const offsetsIn = (ranges: readonly OffsetRange[]): string[] =>
    ranges.flatMap((r) => Array.from({ length: Number(sizeOf(r)) }, (_, i) => `${r.partition}:${Number(r.from) + i}`))

  /** The first `n` offsets of some ranges, and the others. */
  function divided(ranges: readonly OffsetRange[], n: bigint): { done: OffsetRange[]; rest: OffsetRange[] } {
    const [done, rest]: [OffsetRange[], OffsetRange[]] = [[], []]
    for (const r of ranges) {
      const room = n - totalSizeOf(done)
      const until = room <= 0n ? r.from : sizeOf(r) > room ? r.from + room : r.until
      if (until > r.from) done.push({ ...r, until })
      if (until < r.until) rest.push({ ...r, from: until })
    }
    return { done, rest }
  }

  it('P14: covers each offset once at any moment, by a report or by a part that is still open, and comes to its end', () => {
    fc.assert(
      fc.property(anyPlan, fc.array(deed, { maxLength: 60 }), (plan, deeds) => {
        const all = offsetsIn(plan.tasks.flat())
        const stored = new Map<number, TaskEntry>()
        const put = (entry: TaskEntry): void => void (stored.has(entry.task) || stored.set(entry.task, entry))
        const rangesOf = new Map(plan.tasks.map((ranges, task) => [task, ranges]))
        const look = () => verifyReports(plan, 'digest', 0, [...stored.values()])
        const openTasks = (): readonly number[] => {
          const verdict = look()
          return verdict.kind === 'incomplete' ? verdict.tasks : []
        }
        const reportFor = (task: number, ranges: readonly OffsetRange[]): RangeReport =>
          reportOf(plan, 0, { task, ranges: ranges.map((r) => receiptOf(r)) })
        const started: number[] = []
        const act = ({ what, at }: Deed): void => {
          const open = openTasks()
          const candidates = what === 'again' ? started : open // 'again': an old attempt comes late
          const task = candidates[Math.floor(at * (candidates.length - 0.001))]
          if (task === undefined) return
          started.push(task)
          const ranges = rangesOf.get(task) ?? []
          const size = totalSizeOf(ranges)
          const { ranges: _r, ...ofTask } = reportFor(task, ranges)
          const { message, fingerprint, dataLoss, workMs, ...attempt } = ofTask
          if (what === 'report' || what === 'again' || size === 1n) put(reportFor(task, ranges))
          else if (what === 'unread') put(splitUnread(attempt, ranges))
          else {
            const { done, rest } = divided(ranges, 1n + BigInt(Math.floor(at * Number(size - 2n))))
            const work = { message, fingerprint, dataLoss, workMs, ranges: done.map((r) => receiptOf(r)) }
            put(splitRest(attempt, work, rest))
          }
          const entry = stored.get(task)
          const parts = entry !== undefined && 'parts' in entry ? entry.parts : []
          const numbers = parts.map((_part, i) => partNumber(plan.tasks.length, task, i))
          expect(numbers.map((n, i) => rangesOf.get(n) ?? parts[i])).toEqual(parts) // nobody else has them
          numbers.forEach((n, i) => rangesOf.set(n, parts[i] ?? []))
          const receipts = [...stored.values()].flatMap((e) => ('parts' in e ? (e.done?.ranges ?? []) : e.ranges))
          const openRanges = openTasks().flatMap((t) => rangesOf.get(t) ?? [])
          expect(offsetsIn([...receipts, ...openRanges]).toSorted()).toEqual(all.toSorted())
        }
        deeds.forEach(act)
        while (openTasks().length > 0) act({ what: 'report', at: 0 })
        const verdict = look()
        const reports = verdict.kind === 'complete' ? verdict.reports : []
        expect(offsetsIn(reports.flatMap((r) => r.ranges))).toEqual(all) // in the order of the plan
      })
    )
  })
})

describe('two attempts', () => {
  const receipt = receiptOf(range(0, 0, 5), { hash: 'a' })
  it.each([
    ['the same', [receipt], [receipt], false],
    ['another hash of the same range', [receipt], [{ ...receipt, hash: 'b' }], true],
    ['another hash of another range', [receipt], [{ ...receipt, until: 4n, hash: 'b' }], false],
    ['one of several', [receipt, receiptOf(range(1, 0, 2))], [receiptOf(range(1, 0, 2), { hash: 'b' })], true],
    ['nothing to compare', [], [receipt], false],
  ])('N5: %s', (_what, one, other, expected) => {
    expect(differ(one, other)).toBe(expected)
  })
})
