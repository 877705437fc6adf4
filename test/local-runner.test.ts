/** The local loop over the protocol's steps, on parts in memory and with timers in the test's hand. */
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { runReport } from '../src/cli/run-report.ts'
import type { BatchContext } from '../src/context.ts'
import { runQuery } from '../src/local/runner.ts'
import type { RunEvent } from '../src/local/runner.ts'
import { decodeOffsets } from '../src/log.ts'
import { entriesOf } from '../src/offsets.ts'
import type { StreamingQueryProgress } from '../src/progress.ts'
import { Trigger } from '../src/trigger.ts'
import { append, recordsIn } from './support/fake-kafka.ts'
import { memoryLease } from './support/memory-lease.ts'
import { memoryLog } from './support/memory-log.ts'
import { memorySink, memoryTable, rowsOf } from './support/memory-sink.ts'
import { newRun, runToEnd, TTL_MS, world } from './support/world.ts'
import type { World } from './support/world.ts'

const timer = vi.hoisted(() => ({
  /** Of one test: a loop that never ends would wait for ever without taking time. */
  waits: 0,
  wait: async (ms: number): Promise<void> => {
    throw new Error(`nothing waits here, not ${ms} ms`)
  },
}))
vi.mock('node:timers/promises', async (original) => ({
  ...(await original<object>()),
  setTimeout: async (ms: number, _value: undefined, { signal }: { signal: AbortSignal }) => {
    signal.throwIfAborted()
    if (++timer.waits > 100) throw new Error('the run waits for ever')
    await timer.wait(ms)
    signal.throwIfAborted()
  },
}))

afterEach(() => {
  vi.restoreAllMocks()
  timer.waits = 0
})

const idsIn = (w: World, log: string): (number | string)[] => [...(w.log.get(`query@1/${log}`)?.keys() ?? [])]

/** The ends of each logged batch, by partition: `[[98, 1, 1], ...]`. */
const endsIn = (w: World): number[][] =>
  [...(w.log.get('query@1/offsets') ?? [])].map(([id, { entry }]) =>
    entriesOf(decodeOffsets(Number(id), entry).end).map((e) => Number(e.offset))
  )

/** How far each batch moved each partition. */
const stepsIn = (w: World): number[][] => {
  const ends = endsIn(w)
  return ends.map((end, n) => end.map((offset, partition) => offset - (ends[n - 1]?.[partition] ?? 0)))
}

/** Runs on until it has committed so many batches; then the signal fires, as Ctrl-C does. */
async function runBatches(
  context: BatchContext,
  batches: number,
  { interval = 0, parallelism = 1 }: { interval?: number; parallelism?: number } = {}
): Promise<RunEvent[]> {
  const stop = new AbortController()
  const events: RunEvent[] = []
  let left = batches
  const onEvent = (event: RunEvent): void => {
    events.push(event)
    if (event.kind === 'progress' && --left === 0) stop.abort()
  }
  const request = { runId: newRun().runId, trigger: Trigger.processingTime(interval), parallelism, onEvent }
  await expect(runQuery(context, request, stop.signal)).rejects.toMatchObject({ name: 'ABORTED' })
  return events
}

const progressesIn = (events: readonly RunEvent[]): StreamingQueryProgress[] =>
  events.flatMap((event) => (event.kind === 'progress' ? [event.progress] : []))

/** A process that has no effect any more from this point on. */
function dyingAt(w: World, point: string, options: Readonly<Record<string, unknown>> = {}): BatchContext {
  let isDead = false
  const hook = (reached: string): void => {
    isDead ||= reached === point
    if (isDead) throw new Error('died')
  }
  return w.process({ hook, options })
}

async function die(w: World, point: string): Promise<void> {
  await expect(runToEnd(dyingAt(w, point))).rejects.toThrow('died')
  w.clock.time += TTL_MS
}

describe('AvailableNow', () => {
  it('K2 15 records in one of 5 partitions under a cap of 5 are exactly 3 batches, then the run ends by itself', async () => {
    const w = world({ t: [0, 0, 15, 0, 0] }, { maxOffsetsPerTrigger: 5 })
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(endsIn(w)).toEqual([
      [0, 0, 5, 0, 0],
      [0, 0, 10, 0, 0],
      [0, 0, 15, 0, 0],
    ])
    expect(idsIn(w, 'commits')).toEqual([0, 1, 2])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('K6 a cap of 2^63-1 from offset 5 reads the 5 records that are there', async () => {
    const w = world({ t: [10] }, { maxOffsetsPerTrigger: '9223372036854775807', startingOffsets: { t: { 0: 5 } } })
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(endsIn(w)).toEqual([[10]])
    expect(rowsOf(w.table)).toEqual(['t-0@5', 't-0@6', 't-0@7', 't-0@8', 't-0@9'])
  })

  it('B01 every partition with backlog moves, shares follow the backlog, and 1013 rows come once', async () => {
    const w = world({ t: [1000, 10, 3] }, { maxOffsetsPerTrigger: 100 })
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(endsIn(w)[0]).toEqual([98, 1, 1])
    expect(rowsOf(w.table)).toHaveLength(1013)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it.each([
    { sizes: Array<number>(8).fill(100), cap: 3, first: Array<number>(8).fill(1) },
    { sizes: [25, 25, 25], cap: 10, first: [3, 3, 3] },
  ])('B01 a cap of $cap over $sizes ends at $first first', async ({ sizes, cap, first }) => {
    const w = world({ t: sizes }, { maxOffsetsPerTrigger: cap })
    await runBatches(w.process(), 1)
    expect(endsIn(w)).toEqual([first])
  })

  it('B03 goes to the end that it found at its start, however much comes meanwhile', async () => {
    const w = world({ t: [100, 100] }, { maxOffsetsPerTrigger: 40 })
    let written = 0
    const hook = (point: string): void => {
      if (!point.startsWith('before log.add offsets/') || written === 100) return // a moving end would be chased for ever
      append(w.kafka, 't', 0, 10)
      written += 10
    }
    expect(await runToEnd(w.process({ hook }))).toEqual({ kind: 'finished' })
    const expected = [20, 40, 60, 80, 100].map((end) => [end, end])
    expect(endsIn(w)).toEqual(expected)
    expect(rowsOf(w.table)).toHaveLength(200)
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(endsIn(w)).toEqual([...expected, [140, 100], [150, 100]])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('finds its end after the replay of what another run left', async () => {
    const w = world({ t: [4] }, { maxOffsetsPerTrigger: 2 })
    await die(w, 'before sink.stage')
    append(w.kafka, 't', 0, 2)
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(endsIn(w)).toEqual([[2], [4], [6]])
  })
})

describe('batch after batch', () => {
  it('K7 a backlog of 101, 11 and 1 under a cap of 10 takes 8+1+1, then 9+1, and after a restart 9+1 again', async () => {
    const w = world({ t: [101, 11, 1] }, { maxOffsetsPerTrigger: 10 })
    await runBatches(w.process(), 2)
    expect(stepsIn(w)).toEqual([
      [8, 1, 1],
      [9, 1, 0],
    ])
    await runBatches(w.process(), 2)
    expect(stepsIn(w).slice(2)).toEqual([
      [9, 1, 0],
      [9, 1, 0],
    ])
  })

  it.each(['t', '__proto__'])(
    'B16 batch 0 of topic %s, planned and not committed, is the same again under another cap',
    async (t) => {
      const w = world({ [t]: [30] }, { maxOffsetsPerTrigger: 10 })
      await die(w, 'before sink.stage')
      expect([endsIn(w), idsIn(w, 'commits')]).toEqual([[[10]], []])
      append(w.kafka, t, 0, 10)
      await runToEnd(w.process({ options: { maxOffsetsPerTrigger: 3 } }))
      expect(stepsIn(w)).toEqual([[10], ...Array.from({ length: 10 }, () => [3])])
      expect(rowsOf(w.table)).toHaveLength(40)
      expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
    }
  )

  it('B16 batch 1 likewise', async () => {
    const w = world({ t: [30] }, { maxOffsetsPerTrigger: 10 })
    await runBatches(w.process(), 1)
    await die(w, 'before log.add reports/1/000000/000000')
    append(w.kafka, 't', 0, 10)
    await runToEnd(w.process({ options: { maxOffsetsPerTrigger: 3 } }))
    expect(stepsIn(w).slice(0, 3)).toEqual([[10], [10], [3]])
    expect(rowsOf(w.table)).toHaveLength(40)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('B06 a changed start is not used, which one warning says; another query name starts there', async () => {
    const w = world({ t: [5] })
    await runToEnd(w.process())
    append(w.kafka, 't', 0, 3)
    const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
    vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    const changed = w.process({ options: { startingOffsets: '{"t":{"0":2}}' } })
    const report = runReport({ json: false, queryName: 'query', options: changed.options })
    const before = rowsOf(w.table)
    await runToEnd(changed, report.event)
    const warnings = written.mock.calls.map(([text]) => text)
    expect(warnings).toEqual([expect.stringMatching(/startingOffsets.*\{"t":\{"0":5\}\}.*another name/)])
    expect(rowsOf(w.table)).toEqual([...before, 't-0@5', 't-0@6', 't-0@7'])

    const table = memoryTable()
    const log = memoryLog({ store: w.log, query: 'other', clock: w.clock })
    const other = { ...changed, queryName: 'other', log, lease: memoryLease(), sink: memorySink(table) }
    await runToEnd(other)
    expect(rowsOf(table)).toEqual(recordsIn(w.kafka).slice(2))
  })

  it('tells once where it resumes; nothing for a fresh query', async () => {
    const w = world({ t: [6] }, { maxOffsetsPerTrigger: 2 })
    const resumed = (events: RunEvent[]) => events.filter((event) => event.kind === 'resumed')
    expect(resumed(await runBatches(w.process(), 2))).toEqual([])
    expect(resumed(await runBatches(w.process(), 1))).toEqual([{ kind: 'resumed', offsets: '{"t":{"0":4}}' }])
  })

  it('a fresh query at latest commits an empty batch 0, which pins its start', async () => {
    const w = world({ t: [5] }, { startingOffsets: 'latest' })
    const progresses: StreamingQueryProgress[] = []
    await runToEnd(w.process(), (event) => void (event.kind === 'progress' && progresses.push(event.progress)))
    expect(progresses).toMatchObject([{ batchId: 0, numInputRows: 0, sluice: { tasks: 0, offsets: 0n } }])
    expect([endsIn(w), idsIn(w, 'commits'), rowsOf(w.table)]).toEqual([[[5]], [0], []])
    append(w.kafka, 't', 0, 2)
    await runToEnd(w.process())
    expect(rowsOf(w.table)).toEqual(['t-0@5', 't-0@6'])
  })

  it('a range that holds no record is committed without an object, and is not planned again', async () => {
    const w = world({ t: [7] }, { maxOffsetsPerTrigger: 4 })
    w.kafka.topics.get('t')?.partitions[0]?.slots.fill(null, 3)
    const counted: unknown[] = []
    const count = (event: RunEvent): void => {
      if (event.kind === 'progress') counted.push([event.progress.numInputRows, event.progress.sluice.offsets])
    }
    await runToEnd(w.process(), count)
    expect(counted).toEqual([
      [3, 4n],
      [0, 3n],
    ])
    expect([w.table.objects.size, w.table.commits.map((c) => c.objects.length)]).toEqual([1, [1, 0]])
    await runToEnd(w.process())
    expect(idsIn(w, 'offsets')).toEqual([0, 1])
  })
})

describe('passes of one batch', () => {
  it('1,001 tasks are handed out in two passes, which are no replay', async () => {
    const w = world({ t: Array<number>(1001).fill(1) })
    const events = await runBatches(w.process(), 1, { parallelism: 8 })
    expect(events.filter((event) => event.kind === 'planned')).toEqual([
      { kind: 'planned', batchId: 0, tasks: 1000, replay: false },
      { kind: 'planned', batchId: 0, tasks: 1, replay: false },
    ])
    const [progress] = progressesIn(events)
    expect(progress).toMatchObject({ numInputRows: 1001, sluice: { replay: false, tasks: 1001 } })
    expect(progress?.sources[0]?.metrics).toBeDefined()
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  }, 120_000) // each task reads the plan of all

  /** Takes the staged objects away, once, right before the commit looks for them. */
  function losingObjects(w: World): (point: string) => void {
    let isLost = false
    return (point) => {
      if (isLost || point !== 'after log.add reports/0/000000/000001') return
      isLost = true
      w.table.objects.clear()
      w.clock.time += 5000
    }
  }
  const replaysIn = (events: readonly RunEvent[]): boolean[] =>
    events.flatMap((event) => (event.kind === 'planned' ? [event.replay] : []))

  it('the time of a batch is that of all its passes', async () => {
    const w = world({ t: [2, 2] })
    const events = await runBatches(w.process({ hook: losingObjects(w) }), 1)
    const kinds = events.map((event) => event.kind)
    expect(kinds.join(' ')).toBe('started planned task task redo planned task task progress')
    const [progress] = progressesIn(events)
    expect(progress?.batchDuration).toBeGreaterThan(5000)
    expect([replaysIn(events), progress?.sluice.replay]).toEqual([[false, false], false])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('a batch that another run left is a replay in all its passes', async () => {
    const w = world({ t: [2, 2] })
    await die(w, 'before sink.stage')
    const events = await runBatches(w.process({ hook: losingObjects(w) }), 1)
    expect([replaysIn(events), progressesIn(events)[0]?.sluice.replay]).toEqual([[true, true], true])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

describe('failures and other runs', () => {
  it('P20 the first failure aborts the siblings, and is thrown when they have unwound', async () => {
    const w = world({ t: [6, 6, 6, 6] })
    const gate = Promise.withResolvers<void>()
    const allReading = Promise.withResolvers<void>()
    const reads: string[] = []
    w.kafka.before = async (operation) => {
      if (!operation.startsWith('read ')) return
      reads.push(operation)
      if (reads.length === 3) allReading.resolve()
      await allReading.promise
      if (operation === 'read t-0 0') throw new Error('the disk is full')
      await gate.promise
    }
    let settled = false
    const request = { runId: 'r', trigger: Trigger.availableNow(), parallelism: 3, onEvent: () => {} }
    const run = runQuery(w.process(), request, new AbortController().signal)
    const failure = run.then(
      () => 'none',
      (error: unknown) => String(error)
    )
    void failure.then(() => (settled = true))
    await allReading.promise
    for (let i = 0; i < 20; i++) await turn()
    expect(settled).toBe(false)
    gate.resolve()
    expect(await failure).toBe('Error: the disk is full')
    expect(reads.toSorted()).toEqual(['read t-0 0', 'read t-1 0', 'read t-2 0'])
    expect([w.table.objects.size, idsIn(w, 'reports/0'), idsIn(w, 'commits')]).toEqual([0, [], []])
  })

  it('P20 a signal that fires while tasks run ends the run as aborted', async () => {
    const w = world({ t: [6, 6] })
    const stop = new AbortController()
    w.kafka.before = (operation) => {
      if (operation === 'read t-0 3') stop.abort()
    }
    const request = { runId: 'r', trigger: Trigger.availableNow(), parallelism: 2, onEvent: () => {} }
    await expect(runQuery(w.process(), request, stop.signal)).rejects.toMatchObject({ name: 'ABORTED' })
    expect([w.table.objects.size, idsIn(w, 'commits'), w.lease.holder]).toEqual([0, [], null])
  })

  it('is busy where another run holds the query, and leaves its lease alone', async () => {
    const w = world({ t: [3] })
    const lease = { holder: 'other', token: 7, expiresAt: w.clock.time + TTL_MS, lastPass: null }
    Object.assign(w.lease, lease)
    expect(await runToEnd(w.process())).toEqual({ kind: 'busy', holder: 'other' })
    expect([w.lease, idsIn(w, 'offsets')]).toEqual([lease, []])
  })

  it('is busy where another run took over in the middle, without a commit', async () => {
    const w = world({ t: [3] })
    const hook = (point: string): void => {
      if (point === 'after sink.stage') Object.assign(w.lease, { holder: 'other', token: 99 })
    }
    expect(await runToEnd(w.process({ hook }))).toMatchObject({ kind: 'busy' })
    expect([w.table.commits, idsIn(w, 'commits'), w.lease.holder]).toEqual([[], [], 'other'])
  })

  it.each([
    ['a plan that failed', 'latest'],
    ['a task that failed', 'read t-0 0'],
  ])('P19 gives the lease back after %s', async (_what, failing) => {
    const w = world({ t: [3] })
    w.kafka.before = (operation) => {
      if (operation === failing) throw new Error('broken')
    }
    await expect(runToEnd(w.process())).rejects.toThrow('broken')
    expect(w.lease.holder).toBeNull()
    w.kafka.before = () => {}
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
  })

  it('ends in the failure itself where the lease cannot be given back either', async () => {
    const w = world({ t: [3] })
    await expect(runToEnd(dyingAt(w, 'before log.add offsets/0'))).rejects.toThrow('died')
    expect(w.lease.holder).not.toBeNull()
  })
})

describe('processing time', () => {
  const start = 1_700_000_000_000 // a boundary of one second

  /** A world whose clock moves only by waiting, and by as much as each batch is to take. */
  function timed(batchMs: readonly number[]): { w: World; context: BatchContext; waits: number[] } {
    const w = world({ t: [batchMs.length] }, { maxOffsetsPerTrigger: 1 })
    Object.assign(w.clock, { time: start, stepMs: 0 })
    const waits: number[] = []
    timer.wait = async (ms) => {
      waits.push(ms)
      w.clock.time += ms
    }
    const durations = [...batchMs]
    const hook = (point: string): void => {
      if (point === 'before sink.commit') w.clock.time += durations.shift() ?? 0
    }
    return { w, context: w.process({ hook }), waits }
  }
  const triggersOf = (events: readonly RunEvent[]): number[] =>
    progressesIn(events).map((progress) => Date.parse(progress.timestamp) - start)

  it('E6 the first batch starts at once; a short one waits for the boundary; after a long one the next follows at once', async () => {
    const { context, waits } = timed([500, 0, 1500, 0, 0])
    const events = await runBatches(context, 5, { interval: 1000 })
    expect(triggersOf(events)).toEqual([0, 1000, 2000, 3500, 4000])
    expect(waits).toEqual([500, 1000, 500])
  })

  it('E9 a batch longer than the interval is told; one that merely crossed a boundary is not', async () => {
    const { context } = timed([1500, 600, 0, 0])
    const events = await runBatches(context, 4, { interval: 1000 })
    expect(triggersOf(events)).toEqual([0, 1500, 2100, 3000])
    expect(events.filter((event) => event.kind === 'fallingBehind')).toEqual([
      { kind: 'fallingBehind', batchId: 0, intervalMs: 1000, tookMs: 1500 },
    ])
  })

  it.each([0, 10])('E8 a run with interval %d stops with the batch that stops it', async (interval) => {
    const { w, context } = timed([0, 0, 0, 0, 0])
    await runBatches(context, 3, { interval })
    expect(idsIn(w, 'commits')).toEqual([0, 1, 2])
    expect(idsIn(w, 'offsets')).toEqual([0, 1, 2])
  })

  it('a timer that fires early does not start a batch before its boundary', async () => {
    const { w, context } = timed([0, 0, 0])
    timer.wait = async (ms) => {
      w.clock.time += Math.max(1, ms - 1)
    }
    expect(triggersOf(await runBatches(context, 3, { interval: 1000 }))).toEqual([0, 1000, 2000])
  })

  it('an interval beyond the longest timer is waited for in pieces', async () => {
    const { w, context, waits } = timed([0, 0])
    const interval = 30 * 86_400_000
    w.clock.time = 700 * interval
    expect(triggersOf(await runBatches(context, 2, { interval })).map((ms) => ms + start)).toEqual([
      700 * interval,
      701 * interval,
    ])
    expect(waits).toEqual([2 ** 31 - 1, interval - (2 ** 31 - 1)])
  })

  it('without new data it waits for the boundary, or with no interval a moment', async () => {
    for (const [interval, waited] of [
      [1000, 1000],
      [0, 100],
    ] as const) {
      const { w, context } = timed([0])
      const waits: number[] = []
      timer.wait = async (ms) => {
        waits.push(ms)
        w.clock.time += ms
        if (waits.length === (interval === 0 ? 2 : 3)) append(w.kafka, 't', 0, 1)
      }
      const events = await runBatches(context, 2, { interval })
      expect(new Set(waits)).toEqual(new Set([waited]))
      expect(progressesIn(events).map((p) => p.batchId)).toEqual([0, 1])
    }
  })

  it('P20 a signal that fires while it waits ends the run as aborted', async () => {
    const { w, context } = timed([0])
    const stop = new AbortController()
    timer.wait = async () => stop.abort()
    const request = { runId: 'r', trigger: Trigger.processingTime(1000), parallelism: 1, onEvent: () => {} }
    await expect(runQuery(context, request, stop.signal)).rejects.toMatchObject({ name: 'ABORTED', retryable: true })
    expect(w.lease.holder).toBeNull()
  })
})
