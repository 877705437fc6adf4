import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { judgeOutOfRange } from '../../src/kafka/out-of-range.ts'

describe('an offset out of range (spark-semantics 5)', () => {
  test.each([
    ['below the log start: on from there', 5n, 20n, 10n, 40n, { kind: 'gone', until: 10n }],
    ['the whole range below the log start', 5n, 20n, 20n, 40n, { kind: 'gone', until: 20n }],
    ['an emptied log', 5n, 20n, 40n, 40n, { kind: 'gone', until: 20n }],
    ['beyond the end of the log', 50n, 60n, 0n, 40n, { kind: 'gone', until: 60n }],
    ['at the end of the log', 40n, 60n, 0n, 40n, { kind: 'gone', until: 60n }],
    ['there after all', 5n, 20n, 0n, 40n, { kind: 'reappeared' }],
    ['there after all, being the first', 5n, 20n, 5n, 40n, { kind: 'reappeared' }],
  ])('%s', (_name, wanted, until, earliest, latest, verdict) => {
    expect(judgeOutOfRange(wanted, until, earliest, latest)).toEqual(verdict)
  })

  test('what is gone is never empty, never leaves the range and never holds an offset of the log', () => {
    const offset = fc.bigInt({ min: 0n, max: 30n })
    fc.assert(
      fc.property(offset, offset, offset, offset, (wanted, size, earliest, length) => {
        const [until, latest] = [wanted + size + 1n, earliest + length]
        const verdict = judgeOutOfRange(wanted, until, earliest, latest)
        const isThere = wanted >= earliest && wanted < latest
        expect(verdict.kind === 'reappeared').toBe(isThere && earliest < until)
        if (verdict.kind === 'reappeared') return
        expect(verdict.until > wanted && verdict.until <= until).toBe(true)
        for (let o = wanted; o < verdict.until; o += 1n) expect(o >= earliest && o < latest).toBe(false)
      })
    )
  })
})
