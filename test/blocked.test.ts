/** Open transactions under read_committed: where a batch may end, what waits, since when. */
import { describe, expect, test } from 'vitest'
import { blockedPartitions, stableLatest } from '../src/blocked.ts'
import type { RunEvent } from '../src/local/runner.ts'
import { offsetsToJson } from '../src/offsets.ts'
import type { StreamingQueryProgress } from '../src/progress.ts'
import { append } from './support/fake-kafka.ts'
import type { FakePartition } from './support/fake-kafka.ts'
import { offsets } from './support/log-entries.ts'
import { rowsOf } from './support/memory-sink.ts'
import { runToEnd, world } from './support/world.ts'
import type { World } from './support/world.ts'

describe('where a batch may end', () => {
  test.each([
    { is: 'at the last stable offset', stable: 3, high: 5, position: 2, latest: 3 },
    { is: 'at a position beyond it that the log still holds', stable: 3, high: 5, position: 5, latest: 5 },
    { is: 'at the last stable offset where the log has shrunk', stable: 3, high: 5, position: 6, latest: 3 },
    { is: 'at the high watermark where nothing is open', stable: 5, high: 5, position: 2, latest: 5 },
  ])('$is', ({ stable, high, position, latest }) => {
    const ends = { lastStable: offsets({ t: [stable] }), highWatermarks: offsets({ t: [high] }) }
    expect(offsetsToJson(stableLatest(ends, offsets({ t: [position] })))).toBe(`{"t":{"0":${latest}}}`)
  })

  test('a new partition has no position, and one whose high watermark is not known is taken as it is', () => {
    const ends = { lastStable: offsets({ t: [3, 4] }), highWatermarks: offsets({ t: [9] }) }
    expect(offsetsToJson(stableLatest(ends, offsets({ u: [7] })))).toBe('{"t":{"0":3,"1":4}}')
    expect(offsetsToJson(stableLatest(ends, offsets({ t: [1, 9] })))).toBe('{"t":{"0":3,"1":4}}')
  })
})

describe('what waits', () => {
  const ends = { lastStable: offsets({ t: [3, 8, 0] }), highWatermarks: offsets({ t: [5, 8, 2] }) }
  const at = (ms: number): string => new Date(ms).toISOString()

  test('partitions whose high watermark is above the last stable offset, ordered, seen now', () => {
    expect(blockedPartitions(ends, [], 1000)).toEqual([
      { topic: 't', partition: 0, lastStableOffset: 3n, offsets: 2n, since: at(1000) },
      { topic: 't', partition: 2, lastStableOffset: 0n, offsets: 2n, since: at(1000) },
    ])
  })

  test('the time stays while the last stable offset stands still, however much comes behind it', () => {
    const before = blockedPartitions({ ...ends, highWatermarks: offsets({ t: [4, 8, 1] }) }, [], 1000)
    const moved = { ...ends, lastStable: offsets({ t: [3, 8, 1] }) }
    expect(blockedPartitions(moved, before, 9000).map(({ since }) => since)).toEqual([at(1000), at(9000)])
  })
})

describe('over whole runs', () => {
  const partition = (w: World): FakePartition => w.kafka.topics.get('t')?.partitions[0] as FakePartition

  /** An AvailableNow run to its end. */
  async function run(
    w: World,
    options: Record<string, unknown> = {}
  ): Promise<{ progress: StreamingQueryProgress[]; blocked: RunEvent[] }> {
    const progress: StreamingQueryProgress[] = []
    const blocked: RunEvent[] = []
    await runToEnd(w.process({ options }), (event) => {
      if (event.kind === 'progress') progress.push(event.progress)
      if (event.kind === 'blocked') blocked.push(event)
    })
    return { progress, blocked }
  }

  test('progress tells what waits and since when, from batch to batch and run to run', async () => {
    const w = world({ t: [5, 4] }, { 'kafka.isolation.level': 'read_committed', maxOffsetsPerTrigger: 4 })
    partition(w).openFrom = 3
    const first = await run(w)
    const waits = first.progress.map(({ sluice }) => sluice.blocked)
    const [since] = waits.flat().map((one) => one.since)
    const waiting = { topic: 't', partition: 0, lastStableOffset: 3n, offsets: 2n, since }
    expect(waits.length).toBeGreaterThan(1)
    expect(waits).toEqual(waits.map(() => [waiting]))
    expect(since).toBe(first.progress[0]?.timestamp)

    append(w.kafka, 't', 0, 2) // behind the open transaction
    append(w.kafka, 't', 1, 1)
    const second = await run(w)
    expect(second.progress.map(({ sluice }) => sluice.blocked)).toEqual([[{ ...waiting, offsets: 4n }]])

    partition(w).openFrom = 6 // finished; another one began at 6
    const third = await run(w)
    expect(third.progress[0]?.sluice.blocked).toEqual([
      { ...waiting, lastStableOffset: 6n, offsets: 1n, since: third.progress[0]?.timestamp },
    ])
    partition(w).openFrom = undefined
    const { progress } = await run(w)
    expect(progress[0]?.sluice.blocked).toEqual([])
    expect(rowsOf(w.table)).toHaveLength(12)
  })

  test('where nothing else is new no batch is made, and the wait is told all the same', async () => {
    const w = world({ t: [3] }, { 'kafka.isolation.level': 'read_committed' })
    await run(w)
    append(w.kafka, 't', 0, 2)
    partition(w).openFrom = 3
    const { progress, blocked } = await run(w)
    expect(progress).toEqual([])
    expect(blocked).toMatchObject([{ partitions: [{ partition: 0, lastStableOffset: 3n, offsets: 2n }] }])
  })

  test('under read_uncommitted nothing waits, and the high watermark is not asked for a second time', async () => {
    const w = world({ t: [5] })
    partition(w).openFrom = 3
    const asked: string[] = []
    w.kafka.before = (operation) => void asked.push(operation)
    const { progress } = await run(w)
    expect(progress.map(({ sluice, numInputRows }) => [sluice.blocked, numInputRows])).toEqual([[[], 5]])
    expect(asked).not.toContain('highWatermarks')
  })

  test('a query that turns to read_committed waits where it is: no loss, and nothing twice', async () => {
    for (const failOnDataLoss of [true, false]) {
      const w = world({ t: [5] }, { failOnDataLoss })
      partition(w).openFrom = 3
      await run(w)
      const committed = { 'kafka.isolation.level': 'read_committed' }
      expect((await run(w, committed)).progress).toEqual([])
      append(w.kafka, 't', 0, 1)
      expect((await run(w, committed)).progress).toEqual([])
      partition(w).openFrom = undefined
      const { progress } = await run(w, committed)
      expect(progress.map(({ sluice, numInputRows }) => [sluice.dataLoss, numInputRows])).toEqual([[[], 1]])
      expect(rowsOf(w.table)).toEqual([0, 1, 2, 3, 4, 5].map((n) => `t-0@${n}`))
    }
  })
})
