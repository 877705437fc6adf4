/** How a batch's ranges become tasks, where ranges share one, and what recent batches say about it. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compareTopicPartitions } from '../src/offsets.ts'
import { splitRanges, totalSizeOf } from '../src/ranges.ts'
import type { OffsetRange } from '../src/ranges.ts'
import { planTasks } from '../src/task-plan.ts'
import type { BatchWork, LeaderOf, TaskLimits } from '../src/task-plan.ts'
import { range } from './support/log-entries.ts'

const none: TaskLimits = {
  minPartitions: null,
  maxRecordsPerPartition: null,
  targetBytesPerWorker: null,
  workerTimeoutMs: null,
}
/** 10 bytes an offset, 1 ms an offset in long tasks. */
const measured: BatchWork = { offsets: 10_000n, bytes: 100_000n, tasks: 2, workMs: 10_000 }
const unmeasured: BatchWork = { offsets: 0n, bytes: 0n, tasks: 0, workMs: 0 }

interface Case {
  readonly limits: Partial<TaskLimits>
  readonly recent?: readonly BatchWork[]
  readonly leaderOf?: LeaderOf
}

/** `0 [0,5) + 1 [0,3)`, a text for each task. */
const plan = (ranges: readonly OffsetRange[], { limits, recent = [measured], leaderOf = () => undefined }: Case) =>
  planTasks(ranges, { ...none, ...limits }, recent, leaderOf).map((task) =>
    task.map((r) => `${r.partition} [${r.from},${r.until})`).join(' + ')
  )

/** Ranges from 0 of partitions 0, 1, ... */
const sized = (...sizes: number[]): OffsetRange[] => sizes.map((size, partition) => range(partition, 0, size))

describe('without limits', () => {
  it('each range is a task, as Spark cuts them, whatever was measured', () => {
    const sizes = fc.array(fc.nat(1000), { maxLength: 10 })
    const options = fc.record({
      minPartitions: fc.option(fc.integer({ min: 1, max: 30 })),
      maxRecordsPerPartition: fc.option(fc.bigInt({ min: 1n, max: 500n })),
    })
    fc.assert(
      fc.property(sizes, options, (of, split) => {
        expect(planTasks(sized(...of), { ...none, ...split }, [measured], () => 1)).toEqual(
          splitRanges(sized(...of), split).map((one) => [one])
        )
      })
    )
  })
})

describe('N3: with a target in bytes', () => {
  const target = (bytes: bigint, more: Partial<TaskLimits> = {}) => ({ targetBytesPerWorker: bytes, ...more })

  it.each<[string, OffsetRange[], Case, string[]]>([
    ['small ranges share a task', sized(3, 4, 3), { limits: target(100n) }, ['0 [0,3) + 1 [0,4) + 2 [0,3)']],
    ['what does not fit begins the next', sized(3, 4, 4), { limits: target(100n) }, ['0 [0,3) + 1 [0,4)', '2 [0,4)']],
    ['a fat one is cut', sized(25), { limits: target(100n) }, ['0 [0,8)', '0 [8,16)', '0 [16,25)']],
    ['and its pieces stand alone', sized(2, 19), { limits: target(100n) }, ['0 [0,2)', '1 [0,9)', '1 [9,19)']],
    ['each task has one offset at least', sized(2), { limits: target(1n) }, ['0 [0,1)', '0 [1,2)']],
    ['empty ranges are none', sized(0, 4, 0), { limits: target(100n) }, ['1 [0,4)']],
    ['no range is no task', [], { limits: target(100n) }, []],
    [
      'maxRecordsPerPartition bounds the ranges',
      sized(5, 2),
      { limits: target(100n, { maxRecordsPerPartition: 3n }) },
      ['0 [0,2) + 0 [2,5) + 1 [0,2)'],
    ],
    ['minPartitions only cuts', sized(6), { limits: target(100n, { minPartitions: 2 }) }, ['0 [0,3) + 0 [3,6)']],
    [
      'a batch without bytes tells nothing',
      sized(3, 4),
      { limits: target(100n), recent: [unmeasured] },
      ['0 [0,3)', '1 [0,4)'],
    ],
    ['nor does no batch', sized(3, 4), { limits: target(100n), recent: [] }, ['0 [0,3)', '1 [0,4)']],
    [
      'recent batches are averaged',
      sized(3, 4, 4),
      { limits: target(100n), recent: [measured, unmeasured, { ...measured, bytes: 300_000n }] },
      ['0 [0,3)', '1 [0,4)', '2 [0,4)'],
    ],
    [
      'leaders are kept together',
      sized(2, 2, 2, 2),
      { limits: target(50n), leaderOf: ({ partition }) => partition % 2 },
      ['0 [0,2) + 2 [0,2)', '1 [0,2) + 3 [0,2)'],
    ],
    [
      'and a task is filled up from the next leader',
      sized(2, 2, 2),
      { limits: target(60n), leaderOf: ({ partition }) => partition % 2 },
      ['0 [0,2) + 2 [0,2) + 1 [0,2)'],
    ],
    [
      'a leader that is not known comes first',
      sized(2, 2, 2),
      { limits: target(20n), leaderOf: ({ partition }) => (partition === 1 ? undefined : 5) },
      ['1 [0,2)', '0 [0,2)', '2 [0,2)'],
    ],
  ])('N3: %s', (_what, ranges, of, expected) => expect(plan(ranges, of)).toEqual(expected))

  it('N3: every offset is in one task, none of them is above the target, and any two neighbours are', () => {
    const anyRanges = fc.uniqueArray(fc.tuple(fc.nat(50), fc.nat(3), fc.nat(2000)), {
      selector: ([partition]) => partition,
    })
    fc.assert(
      fc.property(anyRanges, fc.bigInt({ min: 500n, max: 20_000n }), (parts, bytes) => {
        const ranges = parts.map(([partition, , size]) => range(partition, 7, 7 + size))
        const leaders = new Map(parts.map(([partition, leader]) => [partition, leader]))
        const tasks = planTasks(ranges, { ...none, targetBytesPerWorker: bytes }, [measured], (tp) =>
          leaders.get(tp.partition)
        )
        const sizes = tasks.map((task) => totalSizeOf(task) * 10n)
        for (const size of sizes) expect(size).toBeLessThanOrEqual(bytes)
        const withNext = tasks.slice(1).map((next, i) => (sizes[i] ?? 0n) + totalSizeOf(next.slice(0, 1)) * 10n)
        for (const size of withNext) expect(size).toBeGreaterThan((bytes / 10n) * 10n)
        const ordered = tasks.flat().toSorted((a, b) => compareTopicPartitions(a, b) || (a.from < b.from ? -1 : 1))
        const joined = Map.groupBy(ordered, (r) => r.partition)
        const whole = [...joined.values()].map((pieces) => {
          for (const [i, piece] of pieces.entries()) expect(piece.from).toBe(pieces[i - 1]?.until ?? 7n)
          return range(pieces[0]?.partition ?? -1, 7n, pieces.at(-1)?.until ?? 0n)
        })
        expect(whole).toEqual(ranges.filter((r) => r.until > r.from).toSorted(compareTopicPartitions))
      })
    )
  })
})

describe('P14: where a worker has a time-out', () => {
  // 1 ms an offset: 1,000 offsets in half of 2 s.
  it.each<[string, OffsetRange[], Case, string[]]>([
    [
      'a range that would take more than half of it is cut',
      sized(2000, 10),
      { limits: {} },
      ['0 [0,1000)', '0 [1000,2000)', '1 [0,10)'],
    ],
    ['one that takes half of it is not', sized(1000), { limits: {} }, ['0 [0,1000)']],
    [
      'maxRecordsPerPartition still holds',
      sized(1000),
      { limits: { maxRecordsPerPartition: 500n } },
      ['0 [0,500)', '0 [500,1000)'],
    ],
    ['no batch tells nothing', sized(2000), { limits: {}, recent: [] }, ['0 [0,2000)']],
    [
      'workers that took no time to speak of tell nothing',
      sized(2000),
      { limits: {}, recent: [{ ...measured, workMs: 3999 }] },
      ['0 [0,2000)'],
    ],
    [
      'nor do they beside others',
      sized(2000),
      { limits: {}, recent: [measured, { offsets: 1n, bytes: 1n, tasks: 1, workMs: 1999 }] },
      ['0 [0,1000)', '0 [1000,2000)'],
    ],
    [
      'a batch without offsets tells nothing',
      sized(2000),
      { limits: {}, recent: [{ ...unmeasured, workMs: 5000 }] },
      ['0 [0,2000)'],
    ],
    [
      'a task has one offset at least',
      sized(2),
      { limits: {}, recent: [{ offsets: 1n, bytes: 1n, tasks: 1, workMs: 60_000 }] },
      ['0 [0,1)', '0 [1,2)'],
    ],
    [
      'tasks of several ranges keep to it too',
      sized(600, 600),
      { limits: { targetBytesPerWorker: 100_000n } },
      ['0 [0,600)', '1 [0,600)'],
    ],
  ])('P14: %s', (_what, ranges, { limits, ...rest }, expected) =>
    expect(plan(ranges, { limits: { workerTimeoutMs: 2000, ...limits }, ...rest })).toEqual(expected)
  )
})
