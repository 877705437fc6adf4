/** What a warm function keeps: for how long, and what makes it begin anew. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { MAX_IDLE_MS, WarmParts } from '../../functions/warm-parts.ts'
import { world } from '../support/world.ts'

beforeEach(() => vi.useFakeTimers({ toFake: ['Date'] }))
afterEach(() => {
  vi.useRealTimers()
  vi.unstubAllEnvs()
})

/** What happened, in order: `open 1`, `use 1`, `closed 1`. Closing takes a while. */
function recorded() {
  const events: string[] = []
  let count = 0
  const warm = new WarmParts(() => {
    const number = (count += 1)
    events.push(`open ${number}`)
    return {
      context: async () => {
        events.push(`use ${number}`)
        return world({ t: [1] }).process()
      },
      close: async () => {
        await new Promise((resolve) => setImmediate(resolve))
        events.push(`closed ${number}`)
      },
    }
  })
  const use = (step: () => Promise<unknown> = async () => null, signal = new AbortController().signal) =>
    warm.use(signal, step)
  return { events, use }
}

test('a use takes what the one before left, and asks for a context of its own', async () => {
  const { events, use } = recorded()
  expect([await use(async () => 1), await use(async () => 2)]).toEqual([1, 2])
  expect(events).toEqual(['open 1', 'use 1', 'use 1'])
})

test('P20: after a failure everything is ended before it is told, and the next use begins anew', async () => {
  const { events, use } = recorded()
  await use()
  const failing = use(() => Promise.reject(new Error('failed'))).finally(() => events.push('told'))
  await expect(failing).rejects.toThrow('failed')
  await use()
  expect(events).toEqual(['open 1', 'use 1', 'use 1', 'closed 1', 'told', 'open 2', 'use 2'])
})

test('P20: so it is where the deadline fired, though the step was done', async () => {
  const { events, use } = recorded()
  expect(await use(async () => 'done', AbortSignal.abort())).toBe('done')
  expect(events).toEqual(['open 1', 'use 1', 'closed 1'])
})

test('what lay idle for five minutes is ended at the next use', async () => {
  const { events, use } = recorded()
  await use()
  vi.advanceTimersByTime(MAX_IDLE_MS - 1)
  await use()
  vi.advanceTimersByTime(MAX_IDLE_MS)
  await use()
  expect(events).toEqual(['open 1', 'use 1', 'use 1', 'closed 1', 'open 2', 'use 2'])
})

test('another password, endpoint or any other variable is a new beginning; the trace of an invocation is none', async () => {
  const { events, use } = recorded()
  vi.stubEnv('SLUICE_TEST_PASSWORD', 'old')
  await use()
  vi.stubEnv('_X_AMZN_TRACE_ID', 'Root=1')
  await use()
  vi.stubEnv('SLUICE_TEST_PASSWORD', 'new')
  await use()
  expect(events).toEqual(['open 1', 'use 1', 'use 1', 'closed 1', 'open 2', 'use 2'])
})

test('two at a time never share, and one of them is kept', async () => {
  const { events, use } = recorded()
  await use()
  const first = Promise.withResolvers<void>()
  const slow = use(() => first.promise)
  await use()
  first.resolve()
  await slow
  await use()
  expect(events).toEqual(['open 1', 'use 1', 'use 1', 'open 2', 'use 2', 'closed 1', 'use 2'])
})
