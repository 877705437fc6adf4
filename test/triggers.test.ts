/** What a trigger takes: minimum and delay, Trigger.once, the frozen end of AvailableNow, caps in bytes. In memory. */
import { describe, expect, it, vi } from 'vitest'
import { runReport } from '../src/cli/run-report.ts'
import type { BatchContext, Run } from '../src/context.ts'
import { SluiceError } from '../src/errors.ts'
import { runQuery } from '../src/local/runner.ts'
import type { RunEvent } from '../src/local/runner.ts'
import { Trigger } from '../src/trigger.ts'
import { append, createTopic, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { byHand, once, oneTrigger as trigger, tick } from './support/one-trigger.ts'
import { newRun, runToEnd, TTL_MS, world } from './support/world.ts'
import type { World } from './support/world.ts'

const signal = new AbortController().signal

/** A world whose clock moves only when it is moved. */
function still(sizes: readonly number[], options: Readonly<Record<string, unknown>> = {}): World {
  const w = world({ t: sizes }, options)
  w.clock.stepMs = 0
  return w
}

const runs: readonly (readonly [string, () => () => Run])[] = [
  [
    'one run',
    () => {
      const run = byHand()
      return () => run
    },
  ],
  ['the ticks of a schedule', () => tick],
]

describe('a minimum', () => {
  it.each(runs)(
    'K8 in %s: 16 run, 6 wait, 18 run, 10 wait until 5 s have passed; once ignores it',
    async (_n, start) => {
      const w = still([15, 1, 0], { minOffsetsPerTrigger: 15, maxTriggerDelay: '5s' })
      const next = start()
      const check = (): Promise<number[] | string> => trigger(w.process(), next())
      expect(await check()).toEqual([15, 1, 0])
      w.clock.time += 100
      append(w.kafka, 't', 1, 6)
      expect(await check()).toBe('delayed')
      append(w.kafka, 't', 2, 12)
      expect(await check()).toEqual([0, 6, 12])
      append(w.kafka, 't', 0, 10)
      w.clock.time += 4999
      expect(await check()).toBe('delayed')
      w.clock.time += 1
      expect(await check()).toEqual([10, 0, 0])
      append(w.kafka, 't', 0, 1)
      expect(await check()).toBe('delayed')
      expect(await trigger(w.process(), once())).toEqual([1, 0, 0])
      expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
    }
  )

  it.each(runs)('K9 in %s: with a maximum of 20, 19 run, 14 wait, 33 are cut, the rest waits', async (_n, start) => {
    const w = still([21, 11, 1], { minOffsetsPerTrigger: 15, maxOffsetsPerTrigger: 20, maxTriggerDelay: '5s' })
    const next = start()
    const check = (): Promise<number[] | string> => trigger(w.process(), next())
    expect(await check()).toEqual([12, 6, 1])
    expect(await check()).toBe('delayed')
    append(w.kafka, 't', 0, 9)
    append(w.kafka, 't', 2, 10)
    expect(await check()).toEqual([10, 3, 6]) // of 18, 5 and 10
    w.clock.time += 4999
    expect(await check()).toBe('delayed')
    w.clock.time += 1
    expect(await check()).toEqual([8, 2, 4])
    append(w.kafka, 't', 0, 30)
    append(w.kafka, 't', 1, 1)
    expect(await trigger(w.process(), once())).toEqual([30, 1, 0])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  const options = { minOffsetsPerTrigger: 15, maxTriggerDelay: '5s' }

  it('is a new one for a start by hand alone, and its continuations are the same start', async () => {
    const w = still([16], options)
    expect(await trigger(w.process(), tick())).toEqual([16])
    append(w.kafka, 't', 0, 1)
    expect(await trigger(w.process(), tick())).toBe('delayed')
    const hand = byHand()
    expect(await trigger(w.process(), hand)).toEqual([1])
    append(w.kafka, 't', 0, 1)
    w.clock.time += 4999
    expect(await trigger(w.process(), hand)).toBe('delayed')
    expect(await trigger(w.process(), tick())).toBe('delayed')
    w.clock.time += 1
    expect(await trigger(w.process(), tick())).toEqual([1])
  })

  it('passes also where nothing is new, and the delay begins anew', async () => {
    const w = still([16], options)
    await trigger(w.process(), tick())
    w.clock.time += 5000
    expect(await trigger(w.process(), tick())).toBe('noNewData')
    append(w.kafka, 't', 0, 1)
    w.clock.time += 4999
    expect(await trigger(w.process(), tick())).toBe('delayed')
    w.clock.time += 1
    expect(await trigger(w.process(), tick())).toEqual([1])
  })

  it('was not passed by a plan that failed its checks', async () => {
    const w = still([16, 16], options)
    await trigger(w.process(), tick())
    w.kafka.topics.get('t')?.partitions.pop()
    append(w.kafka, 't', 0, 1)
    w.clock.time += 5000
    const run = tick()
    await expect(trigger(w.process(), run)).rejects.toMatchObject({ name: 'KAFKA_DATA_LOSS' })
    w.lease.holder = null
    expect(await trigger(w.process({ options: { failOnDataLoss: false } }), tick())).toEqual([1])
  })

  it('checks no replay', async () => {
    const w = still([16], options)
    const died = async (point: string): Promise<void> => {
      if (point === 'before log.add reports/0/000000/000000') throw new Error('died')
    }
    await expect(trigger(w.process({ hook: died }), tick())).rejects.toThrow('died')
    w.clock.time += TTL_MS
    const before = w.lease.lastPass
    expect(await trigger(w.process(), tick())).toEqual([16])
    expect(w.lease.lastPass).toEqual(before)
  })

  it('loses its pass harmlessly: the next check passes early', async () => {
    const w = still([16], options)
    const died = async (point: string): Promise<void> => {
      if (point === 'before lease.passed') throw new Error('died')
    }
    await expect(trigger(w.process({ hook: died }), tick())).rejects.toThrow('died')
    w.lease.holder = null
    expect(await trigger(w.process(), tick())).toEqual([16])
    append(w.kafka, 't', 0, 1)
    expect(await trigger(w.process(), tick())).toEqual([1])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('K176 is read in any case: maxtriggerdelay "1111" is 1111 ms', async () => {
    const w = still([4], { MINOFFSETSPERTRIGGER: '2', maxtriggerdelay: '1111', MaxOffsetsPerTrigger: '3' })
    expect(await trigger(w.process(), tick())).toEqual([3])
    w.clock.time += 1110
    expect(await trigger(w.process(), tick())).toBe('delayed')
    w.clock.time += 1
    expect(await trigger(w.process(), tick())).toEqual([1])
  })

  it('X2 ends an AvailableNow run with the tail unread, which is told', async () => {
    const w = still([20], { minOffsetsPerTrigger: 6, maxOffsetsPerTrigger: 8, maxTriggerDelay: '1h' })
    const events: RunEvent[] = []
    expect(await runToEnd(w.process(), (event) => events.push(event))).toEqual({ kind: 'finished' })
    expect(rowsOf(w.table)).toHaveLength(16)
    expect(events.at(-1)).toEqual({ kind: 'delayed', pending: 4n, untilMs: w.clock.time + 3_600_000 })
    // The next run is a new one: its first check passes.
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

describe('Trigger.once', () => {
  const run = async (w: World, events: RunEvent[] = [], context = w.process()) => {
    const request = { runId: newRun().runId, trigger: Trigger.once(), parallelism: 1 }
    return runQuery(context, { ...request, onEvent: (event) => events.push(event) }, signal)
  }
  const limits = { maxOffsetsPerTrigger: 10, minOffsetsPerTrigger: 10, 'sluice.maxBytesPerTrigger': '1m' }

  it('K7 ignores the cap and takes everything, twice', async () => {
    const w = still([101, 11, 1], { maxOffsetsPerTrigger: 10 })
    expect(await run(w)).toEqual({ kind: 'finished' })
    expect(w.table.commits.map((c) => c.endOffsets)).toEqual(['{"t":{"0":101,"1":11,"2":1}}'])
    for (const p of [0, 1, 2]) append(w.kafka, 't', p, 20)
    expect(await run(w)).toEqual({ kind: 'finished' })
    expect(w.table.commits.map((c) => c.batchId)).toEqual([0, 1])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('says that it is deprecated and which limits it ignores', async () => {
    const events: RunEvent[] = []
    await run(still([4], limits), events)
    expect(events.flatMap((event) => (event.kind === 'warning' ? [event.text] : []))).toEqual([
      expect.stringContaining('deprecated'),
      expect.stringContaining("'minOffsetsPerTrigger' is ignored"),
      expect.stringContaining("'maxOffsetsPerTrigger' is ignored"),
      expect.stringContaining("'sluice.maxBytesPerTrigger' is ignored"),
    ])
  })

  it('ignores every limit, also in a tick between delayed ones', async () => {
    const w = still([30], limits)
    await trigger(w.process(), tick())
    expect(await trigger(w.process(), once())).toEqual([29]) // the first batch was the sample of a cap in bytes
    append(w.kafka, 't', 0, 1)
    expect(await trigger(w.process(), tick())).toBe('delayed')
    expect(await trigger(w.process(), once())).toEqual([1])
  })

  it('runs an uncommitted batch again, and that is all: new data waits for the next run', async () => {
    const w = still([4])
    const died = (point: string): void => {
      if (point === 'before sink.commit') throw new Error('died')
    }
    await expect(run(w, [], w.process({ hook: died }))).rejects.toThrow('died')
    append(w.kafka, 't', 0, 3)
    w.clock.time += TTL_MS
    expect(await run(w)).toEqual({ kind: 'finished' })
    expect(rowsOf(w.table)).toHaveLength(4)
    expect(await run(w)).toEqual({ kind: 'finished' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('ends where nothing is new', async () => {
    const w = still([4])
    await run(w)
    expect(await run(w)).toEqual({ kind: 'finished' })
    expect(w.table.commits).toHaveLength(1)
  })
})

it('a run tells its warnings and its delays in words and as JSON', async () => {
  const w = still([8], { minOffsetsPerTrigger: 6, maxOffsetsPerTrigger: 6, maxTriggerDelay: '1h' })
  const written: string[] = []
  const write = (text: string | Uint8Array): boolean => written.push(String(text)) > 0
  const spies = [process.stdout, process.stderr].map((stream) => vi.spyOn(stream, 'write').mockImplementation(write))
  for (const json of [false, true]) {
    const report = runReport({ json, queryName: 'query', options: w.process().options })
    report.event({ kind: 'warning', text: 'a warning' })
    report.event({ kind: 'delayed', pending: 2n, untilMs: Date.UTC(2026, 0, 1) })
  }
  for (const spy of spies) spy.mockRestore()
  expect(written).toEqual([
    'warning: a warning\n',
    '2 new offsets are fewer than minOffsetsPerTrigger: unless more come, no batch before 2026-01-01T00:00:00.000Z\n',
    '{"event":"warning","text":"a warning"}\n',
    '{"event":"delayed","pending":2,"untilMs":1767225600000}\n',
  ])
})

describe('the frozen end of AvailableNow', () => {
  const twoAtATime = { maxOffsetsPerTrigger: 2 }

  /** The world changes once batch 0 is committed. */
  const changing = (w: World, change: () => void, options: Readonly<Record<string, unknown>> = {}): BatchContext => {
    let isDone = false
    const hook = (point: string): void => {
      if (isDone || point !== 'after log.add commits/0') return
      isDone = true
      change()
    }
    return w.process({ hook, options })
  }
  const ends = (w: World) => w.table.commits.map((c) => c.endOffsets)

  it.each([true, false])(
    'K3 a topic recreated with fewer partitions fails by both sets, with failOnDataLoss=%s',
    async (failOnDataLoss) => {
      const w = still([2, 2, 2, 2, 2], { maxOffsetsPerTrigger: 5 })
      const context = changing(w, () => createTopic(w.kafka, 't', [2, 2, 2]), { failOnDataLoss })
      const error = await runToEnd(context).catch((e: unknown) => e)
      expect(error).toMatchObject({
        name: 'LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW',
        parameters: { tpsForLatestOffset: '{t-0, t-1, t-2}', tpsForEndOffset: '{t-0, t-1, t-2, t-3, t-4}' },
      })
      expect(w.table.commits).toHaveLength(1)
    }
  )

  it.each([true, false])(
    'K4 a topic recreated with fewer records fails by both maps, with failOnDataLoss=%s',
    async (failOnDataLoss) => {
      const w = still([6, 6], { maxOffsetsPerTrigger: 8 })
      const context = changing(w, () => createTopic(w.kafka, 't', [5, 9]), { failOnDataLoss })
      await expect(runToEnd(context)).rejects.toMatchObject({
        name: 'END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW',
        parameters: { latestOffset: '{t-0: 5, t-1: 9}', endOffset: '{t-0: 6, t-1: 6}' },
      })
      expect(w.table.commits).toHaveLength(1)
    }
  )

  it('a topic recreated with enough of both is a loss like any other (N4)', async () => {
    const again = (): World => still([6], { maxOffsetsPerTrigger: 4 })
    const failing = again()
    await expect(runToEnd(changing(failing, () => createTopic(failing.kafka, 't', [9])))).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
    })
    const w = again()
    const tolerant = changing(w, () => createTopic(w.kafka, 't', [9]), { failOnDataLoss: false })
    expect(await runToEnd(tolerant)).toEqual({ kind: 'finished' })
    expect(ends(w)).toEqual(['{"t":{"0":4}}', '{"t":{"0":4}}', '{"t":{"0":6}}']) // from its earliest to the run's end
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(ends(w).at(-1)).toBe('{"t":{"0":9}}')
  })

  it('partitions and records that come after the freeze wait for the next run', async () => {
    const w = still([4], twoAtATime)
    const context = changing(w, () => {
      append(w.kafka, 't', 0, 5)
      w.kafka.topics.get('t')?.partitions.push({ logStart: 0, slots: ['t-1@0'] })
    })
    await runToEnd(context)
    expect(ends(w)).toEqual(['{"t":{"0":2}}', '{"t":{"0":4}}'])
    await runToEnd(w.process())
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('K57 partitions that come before a replay do not make it fail', async () => {
    const w = still([5])
    const failing = (): BatchContext => {
      const context = w.process()
      const toRows = (): never => {
        throw new SluiceError('MAPPING_FAILED', { topic: 't', partition: 0, offset: '0', reason: 'user code' })
      }
      return { ...context, toRows }
    }
    await expect(runToEnd(failing())).rejects.toMatchObject({ name: 'MAPPING_FAILED' })
    w.kafka.topics.get('t')?.partitions.push({ logStart: 0, slots: [] }, { logStart: 0, slots: ['t-2@0'] })
    append(w.kafka, 't', 0, 1)
    await expect(runToEnd(failing())).rejects.toMatchObject({ name: 'MAPPING_FAILED' }) // past planning
    expect(await runToEnd(w.process())).toEqual({ kind: 'finished' })
    expect(ends(w)).toEqual(['{"t":{"0":5}}', '{"t":{"0":6,"1":0,"2":1}}'])
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P18 is put after a replay, once for a run: continuations and losers of the put adopt it', async () => {
    const w = still([4], twoAtATime)
    const died = (point: string): void => {
      if (point === 'before log.add commits/0') throw new Error('died')
    }
    await expect(runToEnd(w.process({ hook: died }))).rejects.toThrow('died')
    w.clock.time += TTL_MS
    append(w.kafka, 't', 0, 1)
    const run = newRun(true)
    const endKey = `${run.runId}/end`
    const stored = () => w.log.get('query@1/runs')?.get(endKey)?.entry ?? ''
    expect(await trigger(w.process(), run)).toEqual([2]) // the replay
    expect(stored()).toBe('')
    append(w.kafka, 't', 0, 1)
    // Another planner of the same run is faster between the look at Kafka and the put.
    let isRacing = true
    const slow = w.process({
      hook: async (point) => {
        if (point !== `before log.add runs/${endKey}` || !isRacing) return
        isRacing = false
        expect(await trigger(w.process(), run)).toEqual([2])
        append(w.kafka, 't', 0, 7)
      },
    })
    expect(await trigger(slow, run)).toEqual([2]) // what the other one did
    expect(stored()).toContain('"0":6')
    append(w.kafka, 't', 0, 1)
    expect(await trigger(w.process(), run)).toEqual([2])
    expect(await trigger(w.process(), run)).toBe('noNewData')
    expect(rowsOf(w.table)).toHaveLength(6)
  })
})

it('P11 P18 a planner that asked Kafka before another one of its run froze the end goes to that end', async () => {
  const w = still([4])
  const run = newRun(true)
  let isRacing = true
  const slow = w.process({
    hook: async (point) => {
      if (point !== `before log.add runs/${run.runId}/end` || !isRacing) return
      isRacing = false
      append(w.kafka, 't', 0, 3)
      expect(await trigger(w.process(), run)).toEqual([7])
    },
  })
  expect(await trigger(slow, run)).toEqual([7])
  expect(w.table.commits.map((c) => c.endOffsets)).toEqual(['{"t":{"0":7}}'])
  expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
})

describe('a cap in bytes', () => {
  // The values are `t-0@0` to `t-0@9`: 5 bytes, then 6, then 7.
  it('takes a sample first, then so many offsets as recent batches say', async () => {
    const w = still([1000], { 'sluice.maxBytesPerTrigger': 60 })
    expect(await trigger(w.process(), tick())).toEqual([1])
    expect(await trigger(w.process(), tick())).toEqual([12]) // 60 / 5
    expect(await trigger(w.process(), tick())).toEqual([11]) // 60 / (68 / 13)
    expect(await trigger(w.process(), tick())).toEqual([10]) // 60 / (134 / 24)
  })

  it('looks at the newest five batches', async () => {
    const w = still([1000], { maxOffsetsPerTrigger: 1 })
    for (let i = 0; i < 6; i++) await trigger(w.process(), tick())
    const slots = w.kafka.topics.get('t')?.partitions[0]?.slots ?? []
    for (let i = 6; i < 11; i++) slots[i] = 'x'.repeat(100)
    for (let i = 6; i < 11; i++) await trigger(w.process(), tick())
    const capped = w.process({ options: { 'sluice.maxBytesPerTrigger': 1000, maxOffsetsPerTrigger: undefined } })
    expect(await trigger(capped, tick())).toEqual([10])
  })

  it('is shared in proportion, in Spark’s arithmetic, and the smaller cap counts', async () => {
    const w = still([101, 11, 1], { 'sluice.maxBytesPerTrigger': '10m' })
    expect(await trigger(w.process(), tick())).toEqual([8, 1, 1])
    const both = (offsets: number, bytes: number) =>
      w.process({ options: { maxOffsetsPerTrigger: offsets, 'sluice.maxBytesPerTrigger': bytes } })
    expect(await trigger(both(10, 1_000_000), tick())).toEqual([9, 1, 0])
    expect(await trigger(both(1000, 54), tick())).toEqual([9, 1, 0]) // 5 bytes each and a little more
  })

  it('is frozen in the plan: a replay under another cap reads the same', async () => {
    const w = still([50], { 'sluice.maxBytesPerTrigger': '20m' })
    const died = (point: string): void => {
      if (point === 'before sink.commit') throw new Error('died')
    }
    await expect(trigger(w.process({ hook: died }), tick())).rejects.toThrow('died')
    w.clock.time += TTL_MS
    const options = { 'sluice.maxBytesPerTrigger': '3m' }
    expect(await trigger(w.process({ options }), tick())).toEqual([20])
  })

  it('moves on over offsets that hold no record', async () => {
    const w = still([10], { 'sluice.maxBytesPerTrigger': '2m' })
    const slots = w.kafka.topics.get('t')?.partitions[0]?.slots ?? []
    slots.fill(null, 0, 4)
    const context = w.process()
    expect(await runToEnd(context)).toEqual({ kind: 'finished' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})
