import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Trigger, isTrigger, nextBoundary, parseInterval, triggerWarnings } from '../src/trigger.ts'

describe('the next boundary', () => {
  it.each([
    [0, 100],
    [1, 100],
    [99, 100],
    [100, 200],
    [101, 200],
    [150, 200],
  ])('E5 of %d is %d for an interval of 100', (now, next) => expect(nextBoundary(now, 100)).toBe(next))

  it('E7 of a boundary is exactly one interval later', () => {
    const interval = fc.integer({ min: 1, max: 366 * 86_400_000 })
    fc.assert(
      fc.property(fc.nat(2 ** 42), interval, (now, i) => {
        const next = nextBoundary(now, i)
        expect(next % i).toBe(0)
        expect(next - now).toBeGreaterThan(0)
        expect(next - now).toBeLessThanOrEqual(i)
        expect(nextBoundary(next, i)).toBe(next + i)
      })
    )
  })

  it('without an interval is now', () => expect(nextBoundary(1234, 0)).toBe(1234))
})

describe('an interval', () => {
  it.each([
    [0, 0],
    [1500, 1500],
    ['0', 0],
    ['500', 500],
    ['500ms', 500],
    ['1 second', 1000],
    ['30 seconds', 30_000],
    ['30s', 30_000],
    ['1 minute', 60_000],
    ['5 MINUTES', 300_000],
    [' 2 min ', 120_000],
    ['1 hour', 3_600_000],
    ['24h', 86_400_000],
    ['30 days', 2_592_000_000],
  ])('%s is %d ms', (text, ms) => expect(parseInterval(text)).toBe(ms))

  it.each([
    '1 month',
    '2 months',
    '1 year',
    '-1 second',
    -5,
    0.5,
    '1.5 seconds',
    '1 minute 30 seconds',
    'minute',
    '',
    '5 constructor',
    '5 minutess',
    '5 mss',
    1e21,
    Number.NaN,
    Infinity,
    '99999999999999 days',
  ])('%s is refused by its value', (interval) => {
    expect(() => Trigger.processingTime(interval)).toThrow(
      expect.objectContaining({ name: 'OPTION_INVALID', message: expect.stringContaining(`'${interval}' is not`) })
    )
  })
})

describe('a trigger', () => {
  it('is a processing time, all that is available, or once', () => {
    expect(Trigger.processingTime('1 minute')).toEqual({ kind: 'processingTime', intervalMs: 60_000 })
    expect(Trigger.availableNow()).toEqual({ kind: 'availableNow' })
    expect(Trigger.once()).toEqual({ kind: 'once' })
  })

  it('is told from what merely looks like one', () => {
    expect(isTrigger(Trigger.processingTime(0))).toBe(true)
    expect(isTrigger(Trigger.availableNow())).toBe(true)
    expect(isTrigger(Trigger.once())).toBe(true)
    for (const other of [
      '1 minute',
      60_000,
      null,
      { kind: 'processingTime' },
      { kind: 'continuous' },
      Trigger.availableNow,
    ])
      expect(isTrigger(other)).toBe(false)
  })
})

describe('the warnings of a trigger', () => {
  const none = { minOffsetsPerTrigger: null, maxOffsetsPerTrigger: null, maxBytesPerTrigger: null }
  const all = { minOffsetsPerTrigger: 1n, maxOffsetsPerTrigger: 2n, maxBytesPerTrigger: 3n }

  it('once is deprecated', () => {
    expect(triggerWarnings(Trigger.once(), none)).toEqual([expect.stringMatching(/^Trigger.once is deprecated/)])
  })

  it('once ignores each limit by name', () => {
    expect(triggerWarnings(Trigger.once(), all).slice(1)).toEqual([
      "Option 'minOffsetsPerTrigger' is ignored with Trigger.once.",
      "Option 'maxOffsetsPerTrigger' is ignored with Trigger.once.",
      "Option 'sluice.maxBytesPerTrigger' is ignored with Trigger.once.",
    ])
  })

  it.each([Trigger.availableNow(), Trigger.processingTime(0)])('%j has none', (trigger) => {
    expect(triggerWarnings(trigger, all)).toEqual([])
  })
})
