/** What holds for every text: rows come back as written, nothing but the reader's own condition is thrown. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSluiceError } from '../../src/errors.ts'
import { base64Bytes } from '../../src/formats/base64.ts'
import { unscaledOf } from '../../src/formats/fixed-decimal.ts'
import { doubleText, textOf } from '../../src/formats/java-text.ts'
import { fromJson } from '../../src/formats/json.ts'
import { instantOf, zoneOf } from '../../src/formats/time-zone.ts'
import { t } from '../../src/schema.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

const schema = {
  s: t.string,
  i: t.int,
  l: t.long,
  d: t.double,
  b: t.boolean,
  x: t.binary,
  at: t.timestamp,
  day: t.date,
  list: t.array(t.int),
  inner: t.struct({ s: t.string, list: t.array(t.struct({ i: t.int })) }),
  _corrupt_record: t.string,
}

const text = fc.string({ unit: 'binary' })
const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
const orNull = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arbitrary)

const rows = fc.record({
  s: orNull(text),
  i: orNull(int32),
  l: orNull(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
  d: orNull(fc.double({ noNaN: true, noDefaultInfinity: true })),
  b: orNull(fc.boolean()),
  x: orNull(fc.uint8Array({ maxLength: 20 })),
  at: orNull(fc.date({ min: new Date('0000-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })),
  day: orNull(fc.integer({ min: -719_528, max: 2_932_896 })),
  list: orNull(fc.array(orNull(int32))),
  inner: orNull(fc.record({ s: orNull(text), list: orNull(fc.array(orNull(fc.record({ i: orNull(int32) })))) })),
})

type Written = typeof rows extends fc.Arbitrary<infer T> ? T : never

/** The row as JSON, each value as a producer would write it; fields in the order given, with others among them. */
function jsonOf(row: Written, order: readonly string[]): string {
  const written: Readonly<Record<string, unknown>> = {
    ...row,
    x: row.x && Buffer.from(row.x).toString('base64'),
    at: row.at?.toISOString() ?? null,
    day: row.day === null ? null : new Date(row.day * 86_400_000).toISOString().slice(0, 10),
  }
  const fields = order.map((name) => {
    const value = name === 'l' ? String(row.l) : Object.is(written[name], -0) ? '-0.0' : JSON.stringify(written[name])
    return `${JSON.stringify(name)} :\t${value ?? '[{"other":[1,"}"]}]'}`
  })
  return `{\n${fields.join(' ,')}}`
}

describe('any row', () => {
  const read = fromJson(schema)
  const names = Object.keys(schema).filter((name) => name !== '_corrupt_record')
  const { list: _list, inner: _inner, ...flatSchema } = schema
  const readFlat = fromJson(flatSchema)
  const emptyRow = Object.fromEntries(Object.keys(flatSchema).map((name) => [name, null]))
  const orders = fc.shuffledSubarray([...names, 'other', 'S'], { minLength: names.length + 2 })

  test('comes back as it was written, whatever stands beside and after it', () => {
    fc.assert(
      fc.property(rows, orders, fc.constantFrom('', ' ', '}', '{"s":', '\0'), (row, order, tail) => {
        const at = row.at === null ? null : BigInt(row.at.getTime()) * 1000n
        expect(read(bytesOf(jsonOf(row, order) + tail))).toEqual({ ...row, at, _corrupt_record: null })
      })
    )
  })

  test('cut short anywhere is a broken record with its text, and no flat value of it is taken', () => {
    fc.assert(
      fc.property(rows, orders, fc.nat(), (row, order, at) => {
        const whole = jsonOf(row, order).trimEnd()
        const cut = whole.slice(0, 1 + (at % (whole.length - 1))).toWellFormed()
        expect(readFlat(bytesOf(cut))).toEqual({ ...emptyRow, _corrupt_record: cut })
      })
    )
  })
})

/** Texts near JSON: whole values with characters put in, taken out and exchanged. */
const broken = fc
  .tuple(
    fc.oneof(
      fc.json({ maxDepth: 4 }),
      fc.tuple(rows, fc.shuffledSubarray(Object.keys(schema))).map(([row, order]) => jsonOf(row, order))
    ),
    fc.array(
      fc.record({
        at: fc.nat(),
        remove: fc.nat({ max: 2 }),
        put: fc.oneof(
          fc.constantFrom('NaN', '-INF', '\\u00', '01', '\u00e9', '\ud800'),
          fc.constantFrom(...Array.from('{}[],:"\'\\0123456789-+.eEtfnNIu/*#\0\n '))
        ),
      }),
      { maxLength: 4 }
    )
  )
  .map(([json, edits]) =>
    edits.reduce((at, { at: place, remove, put }) => {
      const i = place % (at.length + 1)
      return at.slice(0, i) + put + at.slice(i + remove)
    }, json)
  )

const leniency = fc.record({
  allowComments: fc.boolean(),
  allowUnquotedFieldNames: fc.boolean(),
  allowSingleQuotes: fc.boolean(),
  allowNumericLeadingZeros: fc.boolean(),
  allowNonNumericNumbers: fc.boolean(),
  allowBackslashEscapingAnyCharacter: fc.boolean(),
  allowUnquotedControlChars: fc.boolean(),
})

describe('any text', () => {
  test('is a row or null in PERMISSIVE; FAILFAST throws its own condition for the same texts, and nothing else', () => {
    fc.assert(
      fc.property(fc.oneof(broken, text), leniency, (json, options) => {
        const row = fromJson(schema, options)(bytesOf(json))
        let condition = 'none'
        try {
          fromJson(schema, { ...options, mode: 'FAILFAST' })(bytesOf(json))
        } catch (error) {
          condition = isSluiceError(error) ? error.name : String(error)
        }
        expect(condition).toBe((row?.['_corrupt_record'] ?? null) === null ? 'none' : 'MALFORMED_RECORD_IN_PARSING')
      }),
      { numRuns: 1000 }
    )
  })

  test('of arbitrary bytes is a row or null', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(fromJson(schema)(bytes)).toBeTypeOf('object')
      })
    )
  })

  const standard = {
    allowSingleQuotes: false,
    allowNonNumericNumbers: false,
  }
  const readNothing = fromJson({ _corrupt_record: t.string }, standard)

  test('is a whole record exactly if it begins with an object that JSON.parse takes', () => {
    fc.assert(
      fc.property(broken, (json) => {
        const row = readNothing(bytesOf(json))
        const isWhole = row !== null && row['_corrupt_record'] === null
        const ends = [...json.matchAll(/\}/g)].map((m) => m.index + 1)
        // What follows the first value is not read.
        expect(isWhole).toBe(ends.some((end) => isObjectText(json.slice(0, end))))
      }),
      { numRuns: 1000 }
    )
  })
})

function isObjectText(json: string): boolean {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}

describe('a string column', () => {
  test('holds any value as JSON that says the same', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.stringify({ s: value })
        const held = fromJson({ s: t.string })(bytesOf(json))?.s ?? 'null'
        const parsed: unknown = JSON.parse(json)
        expect({ s: typeof value === 'string' ? held : (JSON.parse(held) as unknown) }).toEqual(parsed)
      })
    )
  })
})

describe('the parts', () => {
  test('a double is written so that it is read as the same, as Java writes it', () => {
    fc.assert(
      fc.property(fc.double(), (d) => {
        expect(Number(doubleText(d))).toBe(d)
      })
    )
    const known = {
      '4.9E-324': 5e-324,
      '1.0E7': 1e7,
      '9999999.0': 9999999,
      '0.001': 1e-3,
      '9.0E-4': 9e-4,
      '2.0E-323': 2e-323,
    }
    for (const [expected, value] of Object.entries(known)) expect(doubleText(value)).toBe(expected)
  })

  test('UTF-8 is decoded as by TextDecoder, but for surrogates: one U+FFFD each', () => {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    fc.assert(
      fc.property(
        fc.uint8Array().filter((b) => !b.includes(0xed)),
        (b) => {
          expect(textOf(b)).toBe(decoder.decode(b))
        }
      )
    )
    expect(textOf(Uint8Array.of(0xed, 0xa0, 0x80, 0x41, 0xed, 0xbf, 0x41, 0xed, 0xa0))).toBe('\ufffdA\ufffdA\ufffd')
  })

  test('Base64 gives back the bytes, and takes no text of another length', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        const base64 = Buffer.from(bytes).toString('base64')
        expect(base64Bytes(base64)).toEqual(bytes)
        expect(base64Bytes(`${base64}A`)).toBeNull()
      })
    )
  })

  test('a decimal that fits comes back exactly; one digit more is rounded half up', () => {
    const units = fc.bigInt({ min: -(10n ** 20n) + 1n, max: 10n ** 20n - 1n })
    fc.assert(
      fc.property(units, fc.integer({ min: 0, max: 9 }), (unscaled, digit) => {
        const exact = `${unscaled}e-6`
        expect(unscaledOf(exact, 20, 6)).toBe(unscaled)
        const up = digit >= 5 ? 1n : 0n
        expect(unscaledOf(`${unscaled}${digit}e-7`, 21, 6)).toBe(unscaled < 0n ? unscaled - up : unscaled + up)
      })
    )
    expect(unscaledOf('1e2147483647', 38, 0)).toBeNull()
    expect(unscaledOf('1e-2147483648', 38, 18)).toBe(0n)
    expect(unscaledOf('99.5', 2, 0)).toBeNull()
  })

  test('a wall clock in a zone is the instant that shows it, the first of two', () => {
    const berlin = zoneOf('Europe/Berlin') ?? (() => 0)
    fc.assert(
      fc.property(fc.integer({ min: -2_500_000_000, max: 4_000_000_000 }), (instant) => {
        const local = instant + berlin(instant)
        const found = instantOf(local, berlin)
        expect(found + berlin(found)).toBe(local)
        expect(found).toBeLessThanOrEqual(instant)
      })
    )
    const at = (wallClock: string): string =>
      new Date(instantOf(Date.parse(`${wallClock}Z`) / 1000, berlin) * 1000).toISOString()
    expect(at('2026-03-29T02:30:00')).toBe('2026-03-29T01:30:00.000Z')
    expect(at('2026-10-25T02:30:00')).toBe('2026-10-25T00:30:00.000Z')
  })
})
