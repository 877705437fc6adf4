/** Interleavings that the protocol's rules close, each with the rule's id. All durable parts are in memory. */
import { describe, expect, it } from 'vitest'
import { commitBatch, planBatch, processRange } from '../src/batch.ts'
import type { PlanOutcome } from '../src/batch.ts'
import type { BatchContext, Run } from '../src/context.ts'
import { SluiceError } from '../src/errors.ts'
import { decodeOffsets, encodeOffsets } from '../src/log.ts'
import { append, createTopic, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { newRun, runToEnd, TTL_MS, world } from './support/world.ts'
import type { World } from './support/world.ts'

const signal = new AbortController().signal
type Planned = Extract<PlanOutcome, { kind: 'planned' | 'replay' }>

async function plan(context: BatchContext, run: Run): Promise<Planned> {
  const outcome = await planBatch(context, run, signal)
  if (outcome.kind !== 'planned' && outcome.kind !== 'replay') throw new Error(`not planned: ${outcome.kind}`)
  return outcome
}

const work = (context: BatchContext, run: Run, { batchId, token }: Planned, task: number) =>
  processRange(context, { runId: run.runId, batchId, token, task }, signal)

const commit = (context: BatchContext, run: Run, { batchId, token, triggerMs }: Planned) =>
  commitBatch(context, { runId: run.runId, batchId, token, triggerMs, replay: false }, signal)

async function workAll(context: BatchContext, run: Run, planned: Planned): Promise<void> {
  for (const task of planned.tasks) await work(context, run, planned, task)
}

/** The stored texts of a log of the world's query, by id. */
const stored = (w: World, log: string): ReadonlyMap<number | string, { entry: string }> =>
  w.log.get(`query@1/${log}`) ?? new Map()

const idsOf = (w: World, log: string): (number | string)[] =>
  [...stored(w, log).keys()].toSorted((a, b) => (a < b ? -1 : 1))

/** The run that held it ended in order. */
const released = (w: World): void => void (w.lease.holder = null)

/** Another run goes on to the end of what is there. */
async function finish(context: BatchContext): Promise<void> {
  expect(await runToEnd(context)).toEqual({ kind: 'finished' })
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

describe('P1 P3: the task is the unit of report and output', () => {
  it('P1: two attempts of a packed task give its rows once, one report for both ranges', async () => {
    const w = world({ t: [3, 4] })
    const [a, b] = [w.process(), w.process()]
    const run = newRun()
    const planned = await plan(a, run)
    const entry = stored(w, 'offsets').get(0)
    const packed = encodeOffsets({
      ...decodeOffsets(0, entry?.entry ?? ''),
      tasks: [decodeOffsets(0, entry?.entry ?? '').tasks.flat()],
    })
    w.log.get('query@1/offsets')?.set(0, { entry: packed, createdAt: 0 })
    await Promise.all([work(a, run, planned, 0), work(b, run, planned, 0)])
    expect(idsOf(w, 'reports/0')).toHaveLength(1)
    expect(await commit(a, run, planned)).toMatchObject({ kind: 'committed' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P3: a zombie that stages after another attempt reported has an object that nobody sees', async () => {
    const w = world({ t: [4] })
    const run = newRun()
    const live = w.process()
    const planned = await plan(live, run)
    // The zombie has read everything and is about to stage, when the other attempt does its whole work.
    const zombie = w.process({ hook: once('before sink.stage', () => work(live, run, planned, 0)) })
    expect(await work(zombie, run, planned, 0)).toEqual({ kind: 'alreadyReported', differs: false })
    expect(w.table.objects.size).toBe(2)
    await commit(live, run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('tells that a later attempt read other records than the one that counts (N5)', async () => {
    const w = world({ t: [4] })
    const run = newRun()
    const live = w.process()
    const planned = await plan(live, run)
    const slots = w.kafka.topics.get('t')?.partitions[0]?.slots ?? []
    const compacted = w.process({
      hook: once('before sink.stage', async () => {
        slots[1] = null // compaction after the first read, before the second
        await work(live, run, planned, 0)
      }),
    })
    expect(await work(compacted, run, planned, 0)).toEqual({ kind: 'alreadyReported', differs: true })
  })
})

describe('P2: a sink that is ahead of the log', () => {
  it('P2: a log restored to an earlier time is refused, whether it plans the same batch otherwise or an older one', async () => {
    const w = world({ t: [4] }, { maxOffsetsPerTrigger: 2 })
    const run = newRun()
    const context = w.process()
    const first = await plan(context, run)
    await workAll(context, run, first)
    await commit(context, run, first)
    const backup = structuredClone([...w.log])
    released(w)
    await finish(w.process())
    w.log.clear()
    for (const [log, entries] of backup) w.log.set(log, entries)
    w.clock.time += TTL_MS
    append(w.kafka, 't', 0, 10)
    const before = rowsOf(w.table)
    await expect(runToEnd(w.process({ options: { maxOffsetsPerTrigger: 5 } }))).rejects.toMatchObject({
      name: 'SINK_AHEAD_OF_LOG',
      parameters: { recorded: '1', batchId: 1, endOffsets: '{"t":{"0":4}}' },
    })
    expect(rowsOf(w.table)).toEqual(before)
    expect(idsOf(w, 'commits')).toEqual([0])
  })
})

describe('P7: a step on a batch that is not the newest has no effect', () => {
  it('P7: a worker that slept over the commit and the next plan writes nothing', async () => {
    const w = world({ t: [4] }, { maxOffsetsPerTrigger: 2 })
    const run = newRun()
    const context = w.process()
    const first = await plan(context, run)
    await workAll(context, run, first)
    await commit(context, run, first)
    await plan(context, run)
    w.log.get('query@1/reports/0')?.clear() // retention came by as well
    const objects = w.table.objects.size
    expect(await work(context, run, first, 0)).toEqual({ kind: 'superseded' })
    expect(await commit(context, run, first)).toEqual({ kind: 'superseded' })
    expect([w.table.objects.size, idsOf(w, 'reports/0')]).toEqual([objects, []])
  })

  it('P7: a planner that slept until retention freed its key goes no further after a won put', async () => {
    const w = world({ t: [12] }, { maxOffsetsPerTrigger: 2, 'sluice.minBatchesToRetain': 1 })
    const run = newRun()
    const context = w.process()
    const first = await plan(context, run)
    await workAll(context, run, first)
    await commit(context, run, first)
    released(w)
    const sleeper = w.process({
      hook: once('before log.add offsets/1', async () => {
        w.clock.time += 100 * 86_400_000
        w.clock.stepMs = 86_400_000
        await finish(w.process())
      }),
    })
    expect(await planBatch(sleeper, newRun(), signal)).toMatchObject({ kind: 'busy' })
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
    await finish(w.process())
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P7: removal never touches entries younger than 24 hours', async () => {
    const w = world({ t: [12] }, { maxOffsetsPerTrigger: 2, 'sluice.minBatchesToRetain': 1 })
    await finish(w.process())
    expect(idsOf(w, 'offsets')).toEqual([0, 1, 2, 3, 4, 5])
    w.clock.time += 86_400_000
    append(w.kafka, 't', 0, 1)
    await finish(w.process())
    expect(idsOf(w, 'offsets')).toEqual([5, 6])
  })

  it('P7: the newest two batches stay, whatever minBatchesToRetain says', async () => {
    const w = world({ t: [8] }, { maxOffsetsPerTrigger: 2, 'sluice.minBatchesToRetain': 1 })
    w.clock.stepMs = 86_400_000
    await finish(w.process())
    expect(idsOf(w, 'offsets')).toEqual([2, 3])
  })
})

describe('P8: the query id', () => {
  it('P8: metadata missing beside other entries is refused and not made anew', async () => {
    const w = world({ t: [4] })
    await finish(w.process())
    w.log.get('query@1/meta')?.delete('metadata')
    append(w.kafka, 't', 0, 1)
    await expect(runToEnd(w.process())).rejects.toMatchObject({ name: 'STREAMING_CHECKPOINT_MISSING_METADATA' })
    expect(idsOf(w, 'meta')).toEqual(['sources/0'])
  })
})

describe('P9: a topic recreated between plan and read', () => {
  const recreate = (w: World) => createTopic(w.kafka, 't', [9])

  it('P9: fails by the topic id although the offsets look valid', async () => {
    const w = world({ t: [4] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    recreate(w)
    await expect(work(w.process(), run, planned, 0)).rejects.toMatchObject({
      name: 'KAFKA_DATA_LOSS',
      message: expect.stringContaining('TOPIC_RECREATED'),
    })
    expect([idsOf(w, 'reports/0'), w.table.objects.size]).toEqual([[], 0])
  })

  it('P9: with failOnDataLoss=false delivers none of the new topic under the old range, and reports the loss', async () => {
    const w = world({ t: [4] }, { failOnDataLoss: false })
    const run = newRun()
    const planned = await plan(w.process(), run)
    recreate(w)
    await work(w.process(), run, planned, 0)
    expect(await commit(w.process(), run, planned)).toMatchObject({
      progress: {
        sluice: { dataLoss: [{ topic: 't', partition: 0, from: 0n, until: 4n, reason: 'TOPIC_RECREATED' }] },
      },
    })
    expect(rowsOf(w.table)).toEqual([])
  })

  it.each([true, false])(
    'P9: recreated under the read, no report is made (failOnDataLoss=%s)',
    async (failOnDataLoss) => {
      const w = world({ t: [4] }, { failOnDataLoss })
      const run = newRun()
      const planned = await plan(w.process(), run)
      w.kafka.before = async (operation) => {
        if (operation === 'read t-0 3') recreate(w)
      }
      await expect(work(w.process(), run, planned, 0)).rejects.toMatchObject({
        name: 'TOPIC_RECREATED',
        retryable: true,
      })
      expect([idsOf(w, 'reports/0'), w.table.objects.size]).toEqual([[], 0])
    }
  )
})

describe('P10 P12: staged output that cannot be used', () => {
  it.each([
    ['another mapping', (w: World) => w.process({ mappingDigest: 'changed' })],
    [
      'another table schema',
      (w: World) => {
        w.table.fingerprint = 'changed'
        return w.process()
      },
    ],
  ])('P10: a deployment in mid-batch (%s) publishes one shape', async (_name, deploy) => {
    const w = world({ t: [4, 4] })
    const run = newRun()
    const planned = await plan(w.process(), run)
    await work(w.process(), run, planned, 0)
    const deployed = deploy(w)
    await work(deployed, run, planned, 1)
    expect(await commit(deployed, run, planned)).toMatchObject({ kind: 'redo', generation: 1 })
    expect(w.table.commits).toEqual([])
    const again = await plan(deployed, run)
    expect(again).toMatchObject({ kind: 'planned', tasks: [0, 1] })
    await workAll(deployed, run, again)
    expect(await commit(deployed, run, again)).toMatchObject({ kind: 'committed' })
    const objects = w.table.commits.flatMap((c) => c.objects)
    expect(objects).toHaveLength(2)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P12: objects that are gone are written again under a new generation; a report of the old one does not count', async () => {
    const w = world({ t: [4, 4] })
    const run = newRun()
    const context = w.process()
    const planned = await plan(context, run)
    await workAll(context, run, planned)
    w.table.objects.clear()
    expect(await commit(context, run, planned)).toMatchObject({ kind: 'redo', generation: 1 })
    expect(await commit(context, run, planned)).toEqual({ kind: 'incomplete', tasks: [0, 1] })
    expect(await runToEnd({ ...context, lease: w.process().lease })).toMatchObject({ kind: 'busy' })
    w.clock.time += TTL_MS
    await finish(w.process())
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})

describe('P11: the stored entry counts', () => {
  it('P11: a planner that loses the put of offsets/0 works on the plan that is stored', async () => {
    const w = world({ t: [10] })
    const winner = newRun()
    const loser = w.process({
      options: { maxOffsetsPerTrigger: 7 },
      hook: once('before log.add offsets/0', async () => {
        w.lease.holder = null // its lease ran out; the other one came and went
        await plan(w.process({ options: { maxOffsetsPerTrigger: 3 } }), winner)
        w.lease.holder = null
      }),
    })
    // Without the lease it does not go on ...
    expect(await planBatch(loser, newRun(), signal)).toEqual({ kind: 'busy', holder: winner.runId })
    // ... and whoever holds the lease replays the stored plan.
    const run = newRun()
    const planned = await plan(loser, run)
    expect(planned.kind).toBe('replay')
    await workAll(loser, run, planned)
    await commit(loser, run, planned)
    expect(rowsOf(w.table)).toEqual(['t-0@0', 't-0@1', 't-0@2'])
  })

  it('P11: the holder of the lease that loses the put adopts the stored plan', async () => {
    const w = world({ t: [10] })
    const loser = w.process({
      options: { maxOffsetsPerTrigger: 7 },
      hook: once('before log.add offsets/0', async () => {
        const held = { ...w.lease }
        w.lease.holder = null
        await plan(w.process({ options: { maxOffsetsPerTrigger: 3 } }), newRun())
        Object.assign(w.lease, held)
      }),
    })
    const run = newRun()
    const planned = await plan(loser, run)
    expect(planned.kind).toBe('replay')
    await workAll(loser, run, planned)
    await commit(loser, run, planned)
    expect(rowsOf(w.table)).toEqual(['t-0@0', 't-0@1', 't-0@2'])
  })

  it('P11: two committers at once: one entry, one commit, both know that it is done', async () => {
    const w = world({ t: [4] })
    const run = newRun()
    const context = w.process()
    const planned = await plan(context, run)
    await workAll(context, run, planned)
    const slow = w.process({ hook: once('before log.add commits/0', () => commit(context, run, planned)) })
    expect(await commit(slow, run, planned)).toMatchObject({ kind: 'alreadyCommitted' })
    expect(w.table.commits).toHaveLength(1)
    expect(idsOf(w, 'commits')).toEqual([0])
  })
})

describe('P15: housekeeping', () => {
  it('P15: a checkpoint that fails leaves the batch committed and is told', async () => {
    const w = world({ t: [4] })
    const hook = (point: string): void => {
      if (point === 'before sink.maintain') throw new Error('no space')
    }
    const warnings: string[] = []
    await runToEnd(w.process({ hook }), (e) => void (e.kind === 'progress' && warnings.push(...e.warnings)))
    expect(idsOf(w, 'commits')).toEqual([0])
    expect(warnings).toEqual([expect.stringContaining('no space')])
  })

  it('E2: an error of the removal is told with the batch that is committed all the same', async () => {
    const w = world({ t: [8] }, { maxOffsetsPerTrigger: 2, 'sluice.minBatchesToRetain': 1 })
    w.clock.stepMs = 86_400_000
    const hook = (point: string): void => {
      if (point.startsWith('before log.remove')) throw new Error('throttled')
    }
    const warnings: string[] = []
    await runToEnd(w.process({ hook }), (e) => void (e.kind === 'progress' && warnings.push(...e.warnings)))
    expect(idsOf(w, 'commits')).toEqual([0, 1, 2, 3])
    expect(warnings).toEqual([expect.stringContaining('throttled'), expect.stringContaining('throttled')])
  })

  it('E1: with minBatchesToRetain 2, after batches 0 to 3 the logs hold exactly 1, 2 and 3', async () => {
    const w = world({ t: [8] }, { maxOffsetsPerTrigger: 2, 'sluice.minBatchesToRetain': 2 })
    w.clock.stepMs = 40 * 86_400_000 // commits are kept for 30 days
    await finish(w.process())
    expect([idsOf(w, 'offsets'), idsOf(w, 'commits')]).toEqual([
      [1, 2, 3],
      [1, 2, 3],
    ])
    expect(idsOf(w, 'reports/0')).toEqual([])
  })
})

describe('P16: the frozen start', () => {
  it('P16: a start beyond the end fails and is not frozen', async () => {
    const w = world({ t: [20] })
    const mistyped = w.process({ options: { startingOffsets: { t: { 0: 50 } } } })
    await expect(planBatch(mistyped, newRun(), signal)).rejects.toThrow(/50.*20/)
    expect([idsOf(w, 'meta'), idsOf(w, 'offsets')]).toEqual([['metadata'], []])
    w.clock.time += TTL_MS
    await finish(w.process())
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P16: a loser of the put of sources/0 plans from the stored start', async () => {
    const w = world({ t: [20] })
    const fromFive = (): BatchContext => w.process({ options: { startingOffsets: { t: { 0: 5 } } } })
    const loser = w.process({
      options: { startingOffsets: { t: { 0: 15 } } },
      hook: once('before log.add meta/sources/0', async () => {
        const held = { ...w.lease }
        w.lease.holder = null
        // The other one dies right after its put.
        const dying = fromFive()
        const log = { ...dying.log, add: once2(dying.log) }
        await planBatch({ ...dying, log }, newRun(), signal).catch(() => {})
        Object.assign(w.lease, held)
      }),
    })
    const run = newRun()
    const planned = await plan(loser, run)
    await workAll(loser, run, planned)
    await commit(loser, run, planned)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka).filter((r) => Number(r.split('@')[1]) >= 5))
  })
})

/** A log's `add` that dies after the put of `sources/0`. */
function once2(log: BatchContext['log']): BatchContext['log']['add'] {
  return async (key, entry, s) => {
    const outcome = await log.add(key, entry, s)
    if (key.id === 'sources/0') throw new Error('died')
    return outcome
  }
}

describe('P17: a healthy race is not corruption', () => {
  it('P17: commits and plans that appear between the reads of a planner are no hole', async () => {
    const w = world({ t: [6] }, { maxOffsetsPerTrigger: 2 })
    const run = newRun()
    const context = w.process()
    const first = await plan(context, run)
    const racing = w.process({
      hook: once('after log.newest offsets/', async () => {
        await workAll(context, run, first)
        await commit(context, run, first)
        const second = await plan(context, run)
        await workAll(context, run, second)
        await commit(context, run, second)
        await plan(context, run)
      }),
    })
    expect(await planBatch(racing, run, signal)).toMatchObject({ kind: expect.stringMatching(/planned|busy/) })
    w.clock.time += TTL_MS
    await finish(w.process())
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P17 B37: commits/N-1 missing is refused by name, and nothing is read', async () => {
    const w = world({ t: [6] }, { maxOffsetsPerTrigger: 2 })
    const run = newRun()
    const context = w.process()
    const first = await plan(context, run)
    await workAll(context, run, first)
    await commit(context, run, first)
    await plan(context, run)
    w.log.get('query@1/commits')?.delete(0)
    w.kafka.before = (operation) => expect(operation).not.toContain('read')
    await expect(planBatch(context, run, signal)).rejects.toMatchObject({
      name: 'LOG_ENTRY_MISSING',
      message: expect.stringContaining("batch 0 of commits doesn't exist"),
    })
  })
})

describe('P19: the lease', () => {
  it('P19: a tick while a run is going on is busy; after the expiry it takes over and the old run has no effect', async () => {
    const w = world({ t: [4] })
    const [old, next] = [newRun(), newRun()]
    const context = w.process()
    const planned = await plan(context, old)
    expect(await planBatch(w.process(), next, signal)).toEqual({ kind: 'busy', holder: old.runId })
    w.clock.time += TTL_MS
    const taken = await plan(w.process(), next)
    expect(taken).toMatchObject({ kind: 'replay', batchId: 0 })
    expect(await work(context, old, planned, 0)).toEqual({ kind: 'superseded' })
    await context.lease.release(planned.token, signal)
    expect(await planBatch(w.process(), newRun(), signal)).toEqual({ kind: 'busy', holder: next.runId })
    await workAll(w.process(), next, taken)
    expect(await commit(context, old, planned)).toEqual({ kind: 'superseded' })
    await commit(w.process(), next, taken)
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })

  it('P19: every step renews it, so that a batch may take longer than the expiry', async () => {
    const w = world({ t: [4, 4] })
    const run = newRun()
    const context = w.process()
    const planned = await plan(context, run)
    for (const task of planned.tasks) {
      w.clock.time += TTL_MS - 10_000
      await work(context, run, planned, task)
    }
    w.clock.time += TTL_MS - 10_000
    expect(await planBatch(w.process(), newRun(), signal)).toMatchObject({ kind: 'busy' })
    expect(await commit(context, run, planned)).toMatchObject({ kind: 'committed' })
  })
})

describe('P20: after the abort no durable effect begins', () => {
  it.each(['read t-0 3', 'topicIds'])(
    'P20: aborted at %s, the worker unwinds without object or report',
    async (operation) => {
      const w = world({ t: [8] })
      const run = newRun()
      const planned = await plan(w.process(), run)
      const abort = new AbortController()
      const effects: string[] = []
      w.kafka.before = (reached) => {
        if (reached === operation) abort.abort()
      }
      const worker = w.process({ hook: (point) => void (abort.signal.aborted && effects.push(point)) })
      const step = processRange(worker, { runId: run.runId, batchId: 0, token: planned.token, task: 0 }, abort.signal)
      await expect(step).rejects.toMatchObject({ name: 'ABORTED' })
      expect([idsOf(w, 'reports/0'), w.table.objects.size]).toEqual([[], 0])
      expect(effects.filter((point) => point.startsWith('after'))).toEqual([])
      expect(w.table.aborted).toBe(1)
    }
  )

  it.each([{}, { subscribe: undefined, subscribePattern: 't.*' }])(
    'P20 K37: a planner (%o) stopped at its first look at offsets logs no plan',
    async (options) => {
      const w = world({ t: [8] }, options)
      const abort = new AbortController()
      w.kafka.before = (reached) => {
        if (reached === 'latest') abort.abort()
      }
      await expect(planBatch(w.process(), newRun(), abort.signal)).rejects.toMatchObject({ name: 'ABORTED' })
      expect([idsOf(w, 'meta'), idsOf(w, 'offsets')]).toEqual([['metadata'], []])
    }
  )
})

describe('a row that the sink refuses', () => {
  it('is named by topic, partition and offsets, and nothing is reported', async () => {
    const w = world({ t: [2] })
    const run = newRun()
    const context = w.process()
    const planned = await plan(context, run)
    const refusing = {
      ...context.sink,
      createWriter: async () => ({
        write: async () => {
          throw new SluiceError('ROW_INVALID', { column: 'n', reason: 'a text is no int' })
        },
        commit: async () => ({ objects: [], rows: 0, bytes: 0, detail: '' }),
        abort: async () => {},
      }),
    }
    await expect(work({ ...context, sink: refusing }, run, planned, 0)).rejects.toMatchObject({
      name: 'MAPPING_FAILED',
      message: expect.stringMatching(/t-0 at offset 0 to 1: .*'n'/),
    })
    expect(idsOf(w, 'reports/0')).toEqual([])
  })
})

describe('P12: output that stays unusable', () => {
  it('P12: ends the run by name after three generations; the next run tries again', async () => {
    const w = world({ t: [4] })
    const gone = { ...w.process().sink, missing: async () => ['everything'] }
    await expect(runToEnd({ ...w.process(), sink: gone })).rejects.toMatchObject({
      name: 'STAGED_OUTPUT_UNUSABLE',
      message: expect.stringContaining('written 3 times'),
    })
    expect([idsOf(w, 'redo/0'), w.table.commits]).toEqual([[1, 2, 3], []])
    await finish(w.process())
    expect(rowsOf(w.table)).toEqual(recordsIn(w.kafka))
  })
})
