import { array, assert, bigInt, property, string } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseExact } from '../../../src/offsets.ts'
import { t } from '../../../src/schema.ts'
import type { Field } from '../../../src/schema.ts'
import { FileStatistics, compareText } from '../../../src/sinks/delta/stats.ts'

interface Stats {
  readonly numRecords: number
  readonly minValues: Record<string, unknown>
  readonly maxValues: Record<string, unknown>
  readonly nullCount: Record<string, unknown>
}

function statsOf(field: Field<unknown>, ...groups: readonly unknown[][]): Stats {
  const stats = new FileStatistics({ c: field })
  for (const group of groups) stats.add(group.length, [group])
  return parseExact(stats.toJson()) as Stats
}
const boundsOf = (field: Field<unknown>, values: unknown[]) => {
  const { minValues, maxValues } = statsOf(field, values)
  return [minValues['c'], maxValues['c']]
}

describe('statistics of a data file', () => {
  test('rows, nulls and bounds over all row groups', () => {
    expect(statsOf(t.int, [3, null], [null, -7, 5])).toEqual({
      numRecords: 5,
      minValues: { c: -7 },
      maxValues: { c: 5 },
      nullCount: { c: 2 },
    })
  })

  test('a column of nulls has no bounds', () => {
    expect(statsOf(t.string, [null, null])).toEqual({
      numRecords: 2,
      minValues: {},
      maxValues: {},
      nullCount: { c: 2 },
    })
  })

  test('B41: int64 beyond 2^53 stands there in its digits', () => {
    const stats = new FileStatistics({ c: t.long })
    stats.add(2, [[9007199254740993n, 2n ** 63n - 1n]])
    expect(stats.toJson()).toContain('"minValues":{"c":9007199254740993},"maxValues":{"c":9223372036854775807}')
  })

  test.for([
    ['a time with whole milliseconds', [1790899200123000n], '2026-10-02T00:00:00.123Z', '2026-10-02T00:00:00.123Z'],
    [
      'microseconds: cut below, rounded up above',
      [1790899200123456n],
      '2026-10-02T00:00:00.123Z',
      '2026-10-02T00:00:00.124Z',
    ],
    ['before 1970', [-1n], '1969-12-31T23:59:59.999Z', '1970-01-01T00:00:00.000Z'],
    ['beyond the year 9999', [2n ** 62n, 0n], '1970-01-01T00:00:00.000Z', undefined],
    ['before the year 1', [-(2n ** 62n), 0n], undefined, '1970-01-01T00:00:00.000Z'],
  ] as const)('timestamp: %s', ([, values, min, max]) => {
    expect(boundsOf(t.timestamp, [...values])).toEqual([min, max])
  })

  test('dates are ISO dates', () => {
    expect(boundsOf(t.date, [0, -1, 20_728])).toEqual(['1969-12-31', '2026-10-02'])
    expect(boundsOf(t.date, [2 ** 31 - 1, -(2 ** 31)])).toEqual([undefined, undefined])
  })

  test.for([
    ['plain numbers', [1.5, -2.25], -2.25, 1.5],
    ['NaN has no number above it, so there is no upper bound', [1, NaN], 1, undefined],
    ['only NaN', [NaN], undefined, undefined],
    ['infinities have no JSON', [Infinity, -Infinity, 0], undefined, undefined],
  ] as const)('double: %s', ([, values, min, max]) => {
    expect(boundsOf(t.double, [...values])).toEqual([min, max])
  })

  test.for([
    ['short ones as they are', ['b', '', 'a'], '', 'b'],
    ['32 characters as they are', ['x'.repeat(32)], 'x'.repeat(32), 'x'.repeat(32)],
    ['longer ones are cut, the upper bound upwards', ['x'.repeat(40)], 'x'.repeat(32), `${'x'.repeat(31)}y`],
    [
      'a surrogate pair is never split',
      ['\u{1f600}'.repeat(33)],
      '\u{1f600}'.repeat(32),
      `${'\u{1f600}'.repeat(31)}\u{1f601}`,
    ],
    ['the last code point has none after it', [`a${'\u{10ffff}'.repeat(40)}`], `a${'\u{10ffff}'.repeat(31)}`, 'b'],
    ['nothing sorts above', ['\u{10ffff}'.repeat(40)], '\u{10ffff}'.repeat(32), undefined],
    ['order of UTF-8, not of code units', ['\uff5e', '\u{1f600}'], '\uff5e', '\u{1f600}'],
  ] as const)('string: %s', ([, values, min, max]) => {
    expect(boundsOf(t.string, [...values])).toEqual([min, max])
  })

  test.for([
    ['boolean', t.boolean, [true, null]],
    ['binary', t.binary, [new Uint8Array(1), null]],
    ['array', t.array(t.int), [[1], null]],
  ] as const)('%s: nulls are counted, there are no bounds', ([, field, values]) => {
    expect(statsOf(field, [...values])).toEqual({ numRecords: 2, minValues: {}, maxValues: {}, nullCount: { c: 1 } })
  })

  test('struct: neither, for both would be those of its leaves', () => {
    expect(statsOf(t.struct({ a: t.int }), [{ a: 1 }, null]).nullCount).toEqual({})
  })

  test('bounds hold for any text', () => {
    const texts = array(string({ unit: 'binary', maxLength: 80 }), { minLength: 1 })
    assert(
      property(texts, (values) => {
        const [min, max] = boundsOf(t.string, values)
        const order = (a: unknown, b: string) => Buffer.compare(Buffer.from(String(a)), Buffer.from(b))
        const outside = values.filter((v) => order(min, v) > 0 || (typeof max === 'string' && order(max, v) < 0))
        expect(outside).toEqual([])
      })
    )
  })

  test('bounds hold for any timestamp', () => {
    const inYears = bigInt({ min: -62_135_596_800_000_000n, max: 253_402_300_799_999_000n })
    assert(
      property(inYears, (micros) => {
        const [min, max] = boundsOf(t.timestamp, [micros])
        expect(BigInt(Date.parse(String(min))) * 1000n).toBeLessThanOrEqual(micros)
        expect(BigInt(Date.parse(String(max))) * 1000n).toBeGreaterThanOrEqual(micros)
      })
    )
  })

  test('text is compared as its UTF-8 bytes are', () => {
    const text = string({ unit: 'binary', maxLength: 4 })
    assert(
      property(text, text, (a, b) => {
        expect(Math.sign(compareText(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)))
      })
    )
  })
})
