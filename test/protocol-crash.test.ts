/**
 * The crash matrix of the protocol, in memory: a process dies before or after each durable effect, or loses the answer of
 * one, and another process goes on. The set of delivered records equals Kafka's, none twice. The same points on real parts:
 * test/crash.
 */
import { describe, expect, it } from 'vitest'
import { append, recordsIn } from './support/fake-kafka.ts'
import { rowsOf } from './support/memory-sink.ts'
import { runToEnd, TTL_MS, world } from './support/world.ts'
import type { World } from './support/world.ts'

function smallWorld(): World {
  const options = { minOffsetsPerTrigger: 1, maxOffsetsPerTrigger: 6, 'sluice.minBatchesToRetain': 1 }
  const small = world({ t: [5, 3], u: [4] }, options)
  small.clock.stepMs = 86_400_000 // so that retention has something to remove
  return small
}

class Crash extends Error {}

const isEffect = (point: string): boolean => / (log\.(add|remove)|lease\.|sink\.(stage|commit|maintain))/.test(point)

/** Every effect of a run that nothing disturbs, in order, numbered where a point recurs. */
async function effectsOfRun(): Promise<string[]> {
  const points: string[] = []
  const subject = smallWorld()
  await runToEnd(subject.process({ hook: (point) => void (isEffect(point) && points.push(point)) }))
  expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
  return points
}

const points = await effectsOfRun()
const cases = points.map((point, n) => ({ point, n }))

describe('effects 1 to 5 and the side effects', () => {
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
    const subject = smallWorld()
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
    await runToEnd(subject.process({ hook })).catch((e: unknown) => expect(e).toBeInstanceOf(Crash))
    expect(dead).toBe(true)
    append(subject.kafka, 't', 1, 2)
    subject.clock.time += TTL_MS + 1
    expect(await runToEnd(subject.process())).toEqual({ kind: 'finished' })
    expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
  })

  it.each(cases.filter(({ point }) => point.startsWith('after ')))(
    'lose the answer at $n: $point, then the same process goes on',
    async ({ n }) => {
      const subject = smallWorld()
      let at = 0
      const hook = (point: string): void => {
        if (isEffect(point) && at++ === n) throw new Error('answer lost')
      }
      const context = subject.process({ hook })
      await runToEnd(context).catch((e: unknown) => expect(String(e)).toContain('answer lost'))
      expect(at).toBeGreaterThan(n)
      subject.clock.time += TTL_MS + 1
      expect(await runToEnd(context)).toEqual({ kind: 'finished' })
      expect(rowsOf(subject.table)).toEqual(recordsIn(subject.kafka))
    }
  )
})
