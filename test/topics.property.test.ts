/**
 * Topics, partitions and records that come and go at random under a pattern, with failOnDataLoss=false. fast-check prints the
 * seed and the shortest story that fails.
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { commitBatch, planBatch, processRange } from '../src/batch.ts'
import type { BatchContext, Run } from '../src/context.ts'
import { isSluiceError } from '../src/errors.ts'
import { decodeOffsets } from '../src/log.ts'
import { createTopic } from './support/fake-kafka.ts'
import type { FakePartition } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { newRun, world } from './support/world.ts'
import type { World } from './support/world.ts'

const { signal } = new AbortController()

type Change =
  | { readonly kind: 'create'; readonly partitions: number; readonly records: number }
  | { readonly kind: 'delete' | 'recreate' | 'grow'; readonly at: number; readonly records: number }
  | { readonly kind: 'append' | 'trim'; readonly at: number; readonly records: number }

const records = fc.nat({ max: 6 })
const at = fc.nat({ max: 1000 })
const growing: fc.Arbitrary<Change> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('create' as const), partitions: fc.integer({ min: 1, max: 3 }), records }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('grow' as const), at, records }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('append' as const), at, records }) }
)
const removing = fc.record({
  kind: fc.constantFrom('delete' as const, 'recreate' as const, 'trim' as const),
  at,
  records,
})
const deleting = fc.record({ kind: fc.constant('delete' as const), at, records })

/** A world that changes, with values that no two records share. */
function story() {
  const w = world({}, { subscribe: undefined, subscribePattern: '^t', failOnDataLoss: false, maxOffsetsPerTrigger: 7 })
  let topics = 0
  const produced: string[] = []
  const fill = ({ slots }: FakePartition, count: number): void => {
    for (let i = 0; i < count; i++) slots.push(produced[produced.push(`record ${produced.length}`) - 1] ?? '')
  }
  const create = (topic: string, partitions: number, count: number): void => {
    createTopic(
      w.kafka,
      topic,
      Array.from({ length: partitions }, () => 0)
    )
    for (const partition of w.kafka.topics.get(topic)?.partitions ?? []) fill(partition, count)
  }
  const change = (one: Change): void => {
    if (one.kind === 'create') return create(`t${++topics}`, one.partitions, one.records)
    const names = [...w.kafka.topics.keys()]
    const name = names[one.at % names.length]
    const partitions = w.kafka.topics.get(name ?? '')?.partitions
    if (name === undefined || partitions === undefined) return
    const partition = partitions[one.at % partitions.length]
    if (one.kind === 'delete' || one.kind === 'recreate') w.kafka.topics.delete(name)
    if (one.kind === 'recreate') create(name, 1 + (one.at % 2), one.records)
    if (one.kind === 'grow') partitions.push({ logStart: 0, slots: [] })
    const target = one.kind === 'grow' ? partitions.at(-1) : partition
    if (target === undefined) return
    if (one.kind === 'grow' || one.kind === 'append') fill(target, one.records)
    if (one.kind === 'trim') target.logStart = Math.min(target.slots.length, target.logStart + one.records)
  }
  return { w, produced, change }
}

/** One trigger; false: nothing to do. What a state machine tries again is tried again. */
async function trigger(context: BatchContext, run: Run): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      const plan = await planBatch(context, run, signal)
      if (plan.kind !== 'planned' && plan.kind !== 'replay') return false
      const { batchId, token, triggerMs } = plan
      for (const task of plan.tasks) await processRange(context, { runId: run.runId, batchId, token, task }, signal)
      await commitBatch(context, { runId: run.runId, batchId, token, triggerMs, replay: false }, signal)
      return true
    } catch (error) {
      if (!isSluiceError(error) || !error.retryable || attempt === 20) throw error
    }
  }
}

async function drain(context: BatchContext, run: Run): Promise<void> {
  while (await trigger(context, run));
}

const hasEmptyMap = (w: World): boolean =>
  [...(w.log.get('query@1/offsets') ?? [])].some(([id, { entry }]) => decodeOffsets(Number(id), entry).end.size === 0)

/** What a consumer from the beginning would find now. */
const present = (w: World): string[] =>
  [...w.kafka.topics.values()].flatMap(({ partitions }) =>
    partitions.flatMap((p) => p.slots.slice(p.logStart).map(String))
  )

describe('under a pattern', () => {
  it('K62: every record arrives once, where topics are deleted after they were read', async () => {
    const steps = fc.array(fc.oneof({ weight: 5, arbitrary: growing }, { weight: 1, arbitrary: deleting }), {
      minLength: 20,
      maxLength: 50,
    })
    await fc.assert(
      fc.asyncProperty(steps, fc.infiniteStream(fc.nat({ max: 3 })), async (changes, pauses) => {
        const { w, produced, change } = story()
        const [context, run] = [w.process(), newRun()]
        for (const one of changes) {
          if (one.kind === 'delete') await drain(context, run)
          change(one)
          if (pauses.next().value === 0) await trigger(context, run)
        }
        await drain(context, run)
        expect(rowsOf(w.table)).toEqual(produced.toSorted())
        expect(hasEmptyMap(w)).toBe(false)
      }),
      { numRuns: 40 }
    )
  })

  it('K132: at any moment: the query survives, nothing arrives twice, and what is still there arrives', async () => {
    const burst = fc.array(fc.tuple(fc.nat({ max: 12 }), fc.oneof(growing, removing)), { maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(fc.array(burst, { minLength: 5, maxLength: 20 }), async (bursts) => {
        const { w, produced, change } = story()
        const [context, run] = [w.process(), newRun()]
        change({ kind: 'create', partitions: 2, records: 5 })
        for (const changes of bursts) {
          let operations = 0
          w.kafka.before = () => {
            for (const [when, one] of changes) if (when === operations) change(one)
            operations++
          }
          await trigger(context, run)
        }
        w.kafka.before = () => {}
        await drain(context, run)
        const rows = rowsOf(w.table)
        expect(new Set(rows).size).toBe(rows.length)
        expect(produced).toEqual(expect.arrayContaining(rows))
        expect(rows).toEqual(expect.arrayContaining(present(w)))
        expect(hasEmptyMap(w)).toBe(false)
      }),
      { numRuns: 60 }
    )
  })
})
