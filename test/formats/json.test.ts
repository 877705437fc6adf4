/** What the recorded answers of Spark do not show: options that are refused, time patterns, what is left out on purpose. */
import { describe, expect, test } from 'vitest'
import { isSluiceError } from '../../src/errors.ts'
import { fromJson, jsonReader } from '../../src/formats/json.ts'
import type { JsonOptions } from '../../src/formats/json.ts'
import { t } from '../../src/schema.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

const one = (
  type: typeof t.string | typeof t.date | typeof t.timestamp,
  value: unknown,
  options: JsonOptions = {}
): unknown => fromJson({ v: type }, options)(bytes(JSON.stringify({ v: value })))?.v

const day = (text: string): number => Date.parse(`${text}T00:00:00Z`) / 86_400_000
const micros = (text: string): bigint => BigInt(Date.parse(text)) * 1000n

function refusal(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    return isSluiceError(error) ? { name: error.name, ...error.parameters } : error
  }
}

describe('rows', () => {
  test('of null are null', () => {
    expect(fromJson({ a: t.int })(null)).toBeNull()
  })

  test('are each an object of their own, also broken ones', () => {
    const read = fromJson({ a: t.int })
    const [first, second] = [read(bytes('{')), read(bytes('{'))]
    expect(first).toEqual({ a: null })
    expect(first).not.toBe(second)
  })

  test('of a record after a broken one are whole', () => {
    const read = fromJson({ a: t.int, _corrupt_record: t.string })
    expect(read(bytes('{"a":"x"}'))).toEqual({ a: null, _corrupt_record: '{"a":"x"}' })
    expect(read(bytes('{"a":1}'))).toEqual({ a: 1, _corrupt_record: null })
  })

  test('have columns of any name, as own properties', () => {
    const schema = { ['__proto__']: t.int, constructor: t.int, toString: t.string }
    const row = fromJson(schema)(bytes('{"__proto__":1,"constructor":2,"valueOf":3}')) ?? {}
    expect(Object.entries(row)).toEqual([
      ['__proto__', 1],
      ['constructor', 2],
      ['toString', null],
    ])
  })

  test('hold null where a column is not null, as in Spark: the sink refuses it', () => {
    expect(fromJson({ a: t.int.notNull() })(bytes('{}'))).toEqual({ a: null })
  })

  test('keep the fields before and after a broken one in a nested value; an element that is broken takes its array along', () => {
    const read = fromJson({ u: t.struct({ x: t.int, y: t.string }), l: t.array(t.struct({ x: t.int })), z: t.int })
    expect(read(bytes('{"u":{"x":1.5,"y":"kept"},"l":[{"x":1},{"x":"bad"}],"z":3}'))).toEqual({
      u: { x: null, y: 'kept' },
      l: [{ x: 1 }, { x: null }],
      z: 3,
    })
    expect(read(bytes('{"l":[{"x":1},5],"z":3}'))).toEqual({ u: null, l: null, z: 3 })
  })

  test('of 1,000 levels are read, of 1,001 broken; so are numbers of 1,001 digits', () => {
    const read = fromJson({ a: t.int, _corrupt_record: t.string })
    const isBroken = (text: string): boolean => read(bytes(text))?.['_corrupt_record'] === text
    const nested = (levels: number): string => `{"x":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
    expect([1000, 1001].map((levels) => isBroken(nested(levels)))).toEqual([false, true])
    expect([1000, 1001].map((digits) => isBroken(`{"x":${'1'.repeat(digits)}}`))).toEqual([false, true])
  })
})

describe('after an error within a nested value', () => {
  const read = fromJson({
    l: t.array(t.int),
    u: t.struct({ x: t.int }),
    b: t.string,
    c: t.int,
    _corrupt_record: t.string,
  })

  // Where Jackson 2.21 goes on: behind the word, behind the point or digit, not at all after a field's name.
  test.each([
    ['{"l":[tru,1],"b":"x"}', { b: 'x' }],
    ['{"l":[truelse,1],"b":"x"}', { b: 'x' }],
    ['{"c":1,"l":[2.],"b":"x"}', { c: 1, b: 'x' }],
    ['{"c":1,"u":{"x":01},"b":"x"}', { c: 1 }],
    ['{"c":1,"b":"\\x,"l":[2]}', { c: 1, l: [2] }],
    ['{"c":1,"l":[01],"b":"x"}', {}],
  ])('of %s the fields beside it are %j', (json, found) => {
    expect(read(bytes(json))).toEqual({ l: null, u: null, b: null, c: null, ...found, _corrupt_record: json })
  })
})

describe('options', () => {
  test('of the corrupt column are refused where it cannot hold a text', () => {
    const refused = { name: 'OPTION_INVALID', option: 'columnNameOfCorruptRecord' }
    expect(refusal(() => fromJson({ _corrupt_record: t.int }))).toMatchObject(refused)
    expect(refusal(() => fromJson({ bad: t.string.notNull() }, { columnNameOfCorruptRecord: 'bad' }))).toMatchObject(
      refused
    )
  })

  test.each(['Europe/Atlantis', 'europe/berlin', '+19:00', ''])('name no time zone: %j', (timeZone) => {
    expect(refusal(() => fromJson({}, { timeZone }))).toMatchObject({ name: 'OPTION_INVALID', option: 'timeZone' })
  })

  test.each(['EEEE', 'yy', 'yyyy-MM-dd a', "yyyy 'open", 'dd dd', '[HH]', ''])(
    'are patterns beyond what is read: %j',
    (pattern) => {
      const name = 'OPTION_INVALID'
      expect(refusal(() => fromJson({}, { timestampFormat: pattern }))).toMatchObject({
        name,
        option: 'timestampFormat',
      })
      expect(refusal(() => fromJson({}, { dateFormat: pattern }))).toMatchObject({ name, option: 'dateFormat' })
    }
  )

  test('of mode are refused when the reader is made, in any case of letters', () => {
    expect(refusal(() => fromJson({}, { mode: 'DROPMALFORMED' }))).toMatchObject({ name: 'PARSE_MODE_UNSUPPORTED' })
  })

  test('of FAILFAST name the class of what is wrong, and never the value', () => {
    const read = fromJson({ d: t.double }, { mode: 'FAILFAST' })
    const classOf = (text: string): unknown => refusal(() => read(bytes(text)))
    const name = 'MALFORMED_RECORD_IN_PARSING'
    expect(classOf('{"d":"secret"}')).toMatchObject({ name, subclass: 'CANNOT_PARSE_STRING_AS_DATATYPE' })
    expect(classOf('[]')).toMatchObject({ name, subclass: 'CANNOT_PARSE_JSON_ARRAYS_AS_STRUCTS' })
    expect(classOf('{"d":secret}')).toMatchObject({ name, subclass: 'WITHOUT_SUGGESTION' })
    expect(JSON.stringify(['{"d":"secret"}', '{"d":secret}'].map(classOf))).not.toContain('secret')
  })
})

describe('times', () => {
  test.each([
    ['2026-01-01T10:00:00.5+1:00', '2026-01-01T09:00:00.500Z'],
    ['2026-01-01T10:00:00UTC+02', '2026-01-01T08:00:00Z'],
    ['2026-01-01T10:00:00 GMT', '2026-01-01T10:00:00Z'],
    ['2026-01-01T10:00:00-08:00:30', '2026-01-01T18:00:30Z'],
    ['2026-01-01 1:2:3 JST', '2025-12-31T16:02:03Z'],
    ['2026-06-01 12:00:00 PST', '2026-06-01T19:00:00Z'],
    ['2026', '2026-01-01T00:00:00Z'],
    ['2026-7', '2026-07-01T00:00:00Z'],
  ])('%s is read as Spark casts it', (text, instant) => {
    expect(one(t.timestamp, text)).toBe(micros(instant))
  })

  test.each([
    '2026-01-01T10:00Z',
    '2026-01-01T',
    '2026-01-01T10:00:00 Nowhere/City',
    '2026-02-29',
    '20260101',
    '300000-01-01',
  ])('%s is no timestamp', (text) => {
    expect(one(t.timestamp, text)).toBeNull()
  })

  test.each(['12:30', 'T12:30:00', '12:30:00.5Z'])(
    'without a date are no timestamp, as today is another day in a replay: %s',
    (text) => {
      expect(one(t.timestamp, text)).toBeNull()
    }
  )

  test.each([
    ['2026-01-31 what follows', day('2026-01-31')],
    ['2026-2', day('2026-02-01')],
    ['20484', day('+020484-01-01')],
    ['5', 5],
    ['-141427', day('-141427-01-01')],
    ['2026-01 x', null],
    ['31.01.2026', null],
  ])('the date %j is %j', (text, expected) => {
    expect(one(t.date, text)).toBe(expected)
  })

  test('are read by a pattern, with quoted text, fraction and offset, and by it alone', () => {
    const options = {
      timestampFormat: "d.M.yyyy 'um' HH:mm:ss.SSS XXX",
      dateFormat: 'yyyy/MM/dd',
      timeZone: 'Asia/Tokyo',
    }
    expect(one(t.timestamp, '5.1.2026 um 10:00:00.250 +02:00', options)).toBe(micros('2026-01-05T08:00:00.250Z'))
    expect(one(t.timestamp, '5.1.2026', { ...options, timestampFormat: 'd.M.yyyy' })).toBe(
      micros('2026-01-04T15:00:00Z')
    )
    expect(one(t.timestamp, '31.2.2026 um 10:00:00.250 +02:00', options)).toBeNull()
    expect(one(t.date, '2026/01/31', options)).toBe(day('2026-01-31'))
    expect(one(t.date, '2026/02/30', options)).toBeNull()
    expect(one(t.date, '2026-01-31', options)).toBeNull()
  })
})

describe('strings', () => {
  test.each([
    ['{"v":[NaN,1e400,"\\u001f\\n",-0,01e1]}', null],
    ['{"v":[NaN,1e400,"\\u001f\\n",-0,1E-7]}', '["NaN","Infinity","\\u001F\\n",0,1.0E-7]'],
    ['{"v":["\\ud800","\u{1f600}","\\\\u00ab"]}', '["\\uD800","\\uD83D\\uDE00","\\\\u00ab"]'],
    ["{'v':'it\\'s \"so\"'}", `it's "so"`],
  ])('%s is %j', (json, text) => {
    expect(fromJson({ v: t.string })(bytes(json))?.v).toBe(text)
  })
})

test('an array or a map may stand at the top, with the types that no sink takes yet', () => {
  const shorts = jsonReader({ kind: 'array', element: { type: { kind: 'short' } } }, {})
  expect(shorts(bytes('[1,null,-32768]'))).toEqual([1, null, -32_768])
  expect(shorts(bytes('[1,32768]'))).toBeNull()
})
