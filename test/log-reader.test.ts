/** What a planner reads from the logs before it decides, on a log that is damaged or that moves meanwhile. */
import { describe, expect, it } from 'vitest'
import { planBatch } from '../src/batch.ts'
import type { PlanOutcome } from '../src/batch.ts'
import type { BatchContext } from '../src/context.ts'
import { parseExact, stringifyExact } from '../src/offsets.ts'
import { append, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { newRun, runToEnd, TTL_MS, world } from './support/world.ts'
import type { World } from './support/world.ts'

const signal = new AbortController().signal
const plan = (context: BatchContext): Promise<PlanOutcome> => planBatch(context, newRun(), signal)

const logOf = (w: World, log: string) => {
  const entries = w.log.get(`query@1/${log}`)
  if (entries === undefined) throw new Error(`there is no log ${log}`)
  return entries
}

/** Batches 0 to 2 of two records each; the last one is planned and not committed. */
async function threeBatches(): Promise<World> {
  const w = world({ t: [6] }, { maxOffsetsPerTrigger: 2 })
  await runToEnd(w.process())
  expect([...logOf(w, 'offsets').keys()]).toEqual([0, 1, 2])
  logOf(w, 'commits').delete(2)
  return w
}

function rewrite(w: World, log: string, id: number, change: (text: string) => string): void {
  const stored = logOf(w, log).get(id)
  if (stored === undefined) throw new Error(`there is no ${log}/${id}`)
  logOf(w, log).set(id, { ...stored, entry: change(stored.entry) })
}

const withVersion = (text: string): string => stringifyExact({ ...(parseExact(text) as object), v: 99999 })

describe('a log with a hole or a broken entry', () => {
  it.each([
    ['offsets 1 removed', (w: World) => logOf(w, 'offsets').delete(1), 'LOG_ENTRY_MISSING', "batch 1 doesn't exist"],
    [
      'offsets 2 with broken JSON',
      (w: World) => rewrite(w, 'offsets', 2, (text) => text.slice(0, 40)),
      'LOG_ENTRY_UNREADABLE',
      'offsets/2 cannot be read',
    ],
    [
      'commits 2 without offsets 2',
      (w: World) => {
        logOf(w, 'commits').set(2, {
          entry: logOf(w, 'commits').get(1)?.entry.replace('"batchId":1', '"batchId":2') ?? '',
          createdAt: 0,
        })
        logOf(w, 'offsets').delete(2)
      },
      'LOG_ENTRY_MISSING',
      "batch 2 doesn't exist",
    ],
    [
      'an unknown version of offsets 2',
      (w: World) => rewrite(w, 'offsets', 2, withVersion),
      'UNSUPPORTED_LOG_VERSION',
      'offsets/2 has version v99999',
    ],
    [
      'an unknown version of commits 1',
      (w: World) => rewrite(w, 'commits', 1, withVersion),
      'UNSUPPORTED_LOG_VERSION',
      'commits/1 has version v99999',
    ],
    [
      'all plans gone, and the first commits',
      (w: World) => {
        logOf(w, 'offsets').clear()
        logOf(w, 'commits').delete(0)
      },
      'LOG_ENTRY_MISSING',
      "batch 1 doesn't exist",
    ],
  ])('B37 %s: refused by name, nothing asked of Kafka, nothing written', async (_what, damage, name, words) => {
    const w = await threeBatches()
    damage(w)
    append(w.kafka, 't', 0, 10)
    const [log, rows] = [structuredClone([...w.log]), rowsOf(w.table)]
    const asked: string[] = []
    w.kafka.before = (operation) => void asked.push(operation)
    await expect(plan(w.process())).rejects.toMatchObject({
      name,
      retryable: false,
      message: expect.stringContaining(words),
    })
    expect(asked).toEqual([])
    expect([...w.log]).toEqual(log)
    expect(rowsOf(w.table)).toEqual(rows)
  })

  it('K16 a redo entry of a later release is refused before a task of its batch is handed out', async () => {
    const w = await threeBatches()
    w.log.set('query@1/redo/2', new Map([[1, { entry: '{"v":99999}', createdAt: 0 }]]))
    await expect(plan(w.process())).rejects.toMatchObject({
      name: 'UNSUPPORTED_LOG_VERSION',
      message: expect.stringContaining('redo/2/1 has version v99999'),
    })
  })
})

describe('a log that moves on between the reads', () => {
  it('a planner that slept while the plan it saw was retired reads again', async () => {
    const w = world({ t: [12] }, { maxOffsetsPerTrigger: 2, 'sluice.minBatchesToRetain': 1 })
    await runToEnd(w.process())
    append(w.kafka, 't', 0, 8)
    let slept = false
    const sleeper = w.process({
      hook: async (point) => {
        if (slept || point !== 'after log.newest offsets/') return
        slept = true
        w.clock.time += 30 * 86_400_000
        await runToEnd(w.process())
      },
    })
    expect(await plan(sleeper)).toMatchObject({ kind: 'noNewData' })
    expect(slept).toBe(true)
    expect([...logOf(w, 'offsets').keys()]).not.toContain(5)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('a first batch planned and committed between the reads is no commit without plan', async () => {
    const w = world({ t: [3] })
    let done = false
    const racing = w.process({
      hook: async (point) => {
        if (done || point !== 'after log.newest offsets/' || !w.log.get('query@1/meta')?.has('metadata')) return
        done = true
        w.clock.time += TTL_MS
        await runToEnd(w.process())
      },
    })
    expect(await plan(racing)).toMatchObject({ kind: 'noNewData' })
    expect(done).toBe(true)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

describe('the query id', () => {
  it('E18 is written once, and a second process reads the same', async () => {
    const w = world({ t: [2] })
    await runToEnd(w.process())
    const written = logOf(w, 'meta').get('metadata')?.entry ?? ''
    append(w.kafka, 't', 0, 1)
    await runToEnd(w.process())
    expect(logOf(w, 'meta').get('metadata')?.entry).toBe(written)
    const { id } = parseExact(written) as { id: string }
    expect(w.table.commits.map((c) => c.queryId)).toEqual([id, id])
    expect(id).not.toBe('')
  })

  it('is adopted from a process that began between the reads, not taken for lost', async () => {
    const w = world({ t: [2] })
    let done = false
    const racing = w.process({
      hook: async (point) => {
        if (done || point !== 'after log.get meta/metadata') return
        done = true
        w.clock.time += TTL_MS
        await runToEnd(w.process())
      },
    })
    expect(await plan(racing)).toMatchObject({ kind: 'noNewData' })
    expect(done).toBe(true)
    expect(new Set(w.table.commits.map((c) => c.queryId)).size).toBe(1)
  })
})
