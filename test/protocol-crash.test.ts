/**
 * The crash matrix of the protocol, in memory: a process dies before or after each durable effect, or loses the answer of
 * one, and another process goes on. The set of delivered records equals Kafka's, none twice. The same points on real parts:
 * test/crash.
 */
import { describe, expect, it } from 'vitest'
import { SluiceError } from '../src/errors.ts'
import { append, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { runTimed } from './support/timed-run.ts'
import { newRun, runToEnd, TTL_MS, world } from './support/world.ts'
import type { Hook, World } from './support/world.ts'

/** `isPacked`: from the second batch on one worker reads all ranges. */
function smallWorld(isPacked: boolean): World {
  const target = isPacked ? { 'sluice.targetBytesPerWorker': '1m' } : {}
  const options = { minOffsetsPerTrigger: 1, maxOffsetsPerTrigger: 6, 'sluice.minBatchesToRetain': 1, ...target }
  const small = world({ t: [5, 3], u: [4] }, options)
  small.clock.stepMs = 86_400_000 // so that retention has something to remove
  return small
}

class Crash extends Error {
  override readonly name = 'Crash'
}

/** Lets pass only what the test itself threw. */
const unless =
  (expected: RegExp) =>
  (error: unknown): void => {
    if (!expected.test(String(error))) throw error
  }

const isEffect = (point: string): boolean => / (log\.(add|remove)|lease\.|sink\.(stage|commit|maintain))/.test(point)

/** Every effect of a run that nothing disturbs, in order, numbered where a point recurs. */
async function effectsOfRun(isPacked: boolean): Promise<string[]> {
  const points: string[] = []
  const subject = smallWorld(isPacked)
  await runToEnd(subject.process({ hook: (point) => void (isEffect(point) && points.push(point)) }))
  expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
  return points
}

const runs = [
  { how: 'with a task for each range', isPacked: false, points: await effectsOfRun(false) },
  { how: 'with several ranges in a task (N3)', isPacked: true, points: await effectsOfRun(true) },
]

describe.each(runs)('effects 1 to 5 and the side effects, $how', ({ isPacked, points }) => {
  const cases = points.map((point, n) => ({ point, n }))

  it('are all among the points', () => {
    const names = new Set(points.map((p) => p.replace(/^(before|after) /, '').replace(/\d{6}/g, 'n')))
    for (const effect of [
      'log.add meta/metadata',
      'log.add meta/sources/0',
      'log.add offsets/0',
      'sink.stage',
      'log.add reports/0/n/n',
      'sink.commit',
      'log.add commits/0',
      'log.remove offsets/0',
      'log.remove reports/0/n/n',
      'lease.acquire',
      'lease.renew',
      'lease.passed',
      'lease.release',
      'sink.maintain',
    ])
      expect(names).toContain(effect)
    expect(points.some((p) => p.startsWith('before log.add runs/'))).toBe(true)
  })

  it.each(cases)('die at $n: $point, then another process finishes', async ({ n }) => {
    const subject = smallWorld(isPacked)
    let at = 0
    let dead = false
    const hook = (point: string): void => {
      if (dead) throw new Crash(point) // a dead process has no further effect
      if (isEffect(point) && at++ === n) {
        dead = true
        throw new Crash(point)
      }
    }
    // Two points do not fail the run: its last release, and housekeeping after a commit (which then dies at the next point).
    await runToEnd(subject.process({ hook })).catch(unless(/^Crash/))
    expect(dead).toBe(true)
    append(subject.kafka, 't', 1, 2)
    subject.clock.time += TTL_MS + 1
    expect(await runToEnd(subject.process())).toEqual({ kind: 'finished' })
    expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
  })

  it.each(cases.filter(({ point }) => point.startsWith('after ')))(
    'lose the answer at $n: $point, then the same process goes on',
    async ({ n }) => {
      const subject = smallWorld(isPacked)
      let at = 0
      const hook = (point: string): void => {
        if (isEffect(point) && at++ === n) throw new Error('answer lost')
      }
      const context = subject.process({ hook })
      await runToEnd(context).catch(unless(/answer lost/))
      expect(at).toBeGreaterThan(n)
      subject.clock.time += TTL_MS + 1
      expect(await runToEnd(context)).toEqual({ kind: 'finished' })
      expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
    }
  )
})

/**
 * Batch 2, about to be planned: one task for all ranges, which two workers began before they were killed; then parts of it whose
 * workers stop at their deadline. Kafka fails once. Batch 0 has what retention removes.
 */
async function splittingWorld(): Promise<World> {
  const subject = world({ t: [2, 0], u: [1] }, { 'sluice.targetBytesPerWorker': '1m', 'sluice.minBatchesToRetain': 1 })
  subject.clock.stepMs = 86_400_000
  await runTimed(subject.process(), newRun(true))
  append(subject.kafka, 't', 0, 1)
  await runTimed(subject.process(), newRun(true))
  append(subject.kafka, 't', 0, 20)
  append(subject.kafka, 't', 1, 5)
  append(subject.kafka, 'u', 0, 7)
  const starts = ['000000/000000/1', '000000/000000/2'].map((id) => [id, { entry: '{"v":1}', createdAt: 0 }] as const)
  subject.log.set('query@1/attempts/2', new Map(starts))
  let failed = false
  subject.kafka.before = (operation) => {
    if (failed || operation !== 'read t-0 7') return
    failed = true
    throw new SluiceError('KAFKA_TIMEOUT', { topic: 't', partition: 0, offset: '7', timeoutMs: 1 })
  }
  return subject
}

async function effectsOfSplits(): Promise<string[]> {
  const reached: string[] = []
  const subject = await splittingWorld()
  await runTimed(subject.process({ hook: (point) => void (isEffect(point) && reached.push(point)) }), newRun(true), 1)
  expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
  return reached
}

const splits = (await effectsOfSplits()).map((point, n) => ({ point, n }))

describe('effects of tasks that are split', () => {
  it('P14: are among the points: starts and their end, splits, parts, their parts', () => {
    const names = new Set(splits.map(({ point }) => point.replace(/^(before|after) /, '')))
    for (const effect of [
      'log.add reports/2/000000/000000', // split unread
      'log.add attempts/2/000000/000001/1',
      'log.remove attempts/2/000000/000002/1', // Kafka failed
      'log.add reports/2/000000/000001', // split at the deadline
      'log.add reports/2/000000/000009', // a part of the part
      'log.remove attempts/0/000000/000000/1',
      'log.remove reports/0/000000/000000',
    ])
      expect(names).toContain(effect)
  })

  const watched = (n: number, failure: Error, isFinal: boolean): { hook: Hook; reached: () => boolean } => {
    let [at, failed] = [0, false]
    const hook = (point: string): void => {
      if (failed && isFinal) throw failure
      if (!isEffect(point) || at++ !== n) return
      failed = true
      throw failure
    }
    return { hook, reached: () => failed }
  }

  it.each(splits)('P14: die at $n: $point, then another process finishes', async ({ n }) => {
    const subject = await splittingWorld()
    const { hook, reached } = watched(n, new Crash(), true)
    await runTimed(subject.process({ hook }), newRun(true), 1).catch(unless(/^Crash/))
    expect(reached()).toBe(true)
    append(subject.kafka, 't', 1, 2)
    subject.clock.time += TTL_MS + 1
    await runTimed(subject.process(), newRun(true), 1)
    expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
  })

  it.each(splits.filter(({ point }) => point.startsWith('after ')))(
    'P14: lose the answer at $n: $point, then the same process goes on',
    async ({ n }) => {
      const subject = await splittingWorld()
      const { hook, reached } = watched(n, new Error('answer lost'), false)
      const context = subject.process({ hook })
      await runTimed(context, newRun(true), 2).catch(unless(/answer lost/))
      expect(reached()).toBe(true)
      subject.clock.time += TTL_MS + 1
      await runTimed(context, newRun(true), 1)
      expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
    }
  )
})
