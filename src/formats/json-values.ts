/**
 * JSON values as column values, by the rules of Spark's from_json. A value that does not fit its type is Malformed: the
 * field is null then and the record is marked, while the fields beside it stay; an array or a map goes as a whole.
 */
import { base64Bytes } from './base64.ts'
import { unscaledOf } from './fixed-decimal.ts'
import { encodable } from './java-text.ts'
import { compactText } from './json-text.ts'
import { Malformed } from './json-malformed.ts'
import type { JsonTokens } from './json-tokens.ts'
import { dateOf, dayOf, microsecondsAt, timestampOf } from './spark-time.ts'
import type { PatternReader } from './time-pattern.ts'
import type { Zone } from './time-zone.ts'

/**
 * What a JSON value can be read as: a column's `DataType`, and types that no sink takes yet. A decimal is a bigint of units
 * of its last place, a map a Map, byte, short and float are numbers, timestamp_ntz is the wall clock's microseconds.
 */
export type JsonType =
  | { readonly kind: 'string' | 'int' | 'long' | 'double' | 'boolean' | 'binary' | 'timestamp' | 'date' }
  | { readonly kind: 'byte' | 'short' | 'float' | 'timestamp_ntz' }
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number }
  | { readonly kind: 'array'; readonly element: { readonly type: JsonType } }
  | { readonly kind: 'map'; readonly value: { readonly type: JsonType } }
  | { readonly kind: 'struct'; readonly fields: JsonFields }

export type JsonFields = { readonly [column: string]: { readonly type: JsonType } }

export interface ValueRules {
  readonly zone: Zone
  readonly timestampPattern: PatternReader | null
  readonly datePattern: PatternReader | null
  readonly nonNumericNumbers: boolean
  /** Told of each value that is left out of its row. */
  readonly onMalformed: (error: Malformed) => void
}

/** The value at the current token, or after it if that is a field's name. @throws Malformed */
export type ValueReader = (tokens: JsonTokens) => unknown

export function valueReader(type: JsonType, rules: ValueRules): ValueReader {
  const read = readerOf(type, rules)
  return (tokens) => {
    if (tokens.token === 'FIELD_NAME') tokens.next()
    return tokens.token === null || tokens.token === 'VALUE_NULL' ? null : read(tokens)
  }
}

function readerOf(type: JsonType, rules: ValueRules): ValueReader {
  switch (type.kind) {
    case 'string':
      return (tokens) => (tokens.token === 'VALUE_STRING' ? encodable(tokens.text) : encodable(compactText(tokens)))
    case 'boolean':
      return booleanAt
    case 'byte':
      // Up to 255 as in Java's parser, which takes a byte of either sign.
      return (tokens) => (intAt(tokens, 'byte', -128, 255) << 24) >> 24
    case 'short':
      return (tokens) => intAt(tokens, 'short', -32_768, 32_767)
    case 'int':
      return (tokens) => intAt(tokens, 'int', -2_147_483_648, 2_147_483_647)
    case 'long':
      return (tokens) => longAt(tokens, 'long')
    case 'float':
      return (tokens) => Math.fround(doubleAt(tokens, 'float', rules))
    case 'double':
      return (tokens) => doubleAt(tokens, 'double', rules)
    case 'decimal':
      return (tokens) => decimalAt(tokens, type.precision, type.scale)
    case 'timestamp':
      return (tokens) => timestampAt(tokens, rules)
    case 'timestamp_ntz':
      return (tokens) => timestampOf(stringAt(tokens, 'timestamp_ntz'), null) ?? misfit(tokens, 'timestamp_ntz')
    case 'date':
      return (tokens) => dateAt(tokens, rules)
    case 'binary':
      return binaryAt
    case 'array':
      return arrayReader(type.element.type, rules)
    case 'map':
      return mapReader(type.value.type, rules)
    default:
      return structReader(type.fields, rules)
  }
}

function misfit(tokens: JsonTokens, type: string, isText = false): never {
  // The rest of a string is read, as its own errors come first.
  if (tokens.token === 'VALUE_STRING') void tokens.text
  throw new Malformed(
    `field '${tokens.name ?? ''}' holds a ${tokens.token ?? ''} that is no ${type}`,
    isText ? 'CANNOT_PARSE_STRING_AS_DATATYPE' : 'WITHOUT_SUGGESTION'
  )
}

function booleanAt(tokens: JsonTokens): boolean {
  if (tokens.token === 'VALUE_TRUE') return true
  return tokens.token === 'VALUE_FALSE' ? false : misfit(tokens, 'boolean')
}

function intAt(tokens: JsonTokens, type: string, least: number, most: number): number {
  if (tokens.token !== 'VALUE_NUMBER_INT') return misfit(tokens, type)
  const value = Number(tokens.text)
  // Plus zero: there is no negative zero among whole numbers.
  return value >= least && value <= most ? value + 0 : misfit(tokens, type)
}

function longAt(tokens: JsonTokens, type: string): bigint {
  if (tokens.token !== 'VALUE_NUMBER_INT') return misfit(tokens, type)
  const value = BigInt(tokens.text)
  return BigInt.asIntN(64, value) === value ? value : misfit(tokens, type)
}

const nonNumericTexts: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Infinity,
  '+Infinity': Infinity,
  '+INF': Infinity,
  '-Infinity': -Infinity,
  '-INF': -Infinity,
}

function doubleAt(tokens: JsonTokens, type: string, { nonNumericNumbers }: ValueRules): number {
  switch (tokens.token) {
    case 'VALUE_NUMBER_FLOAT':
      return Number(tokens.text)
    case 'VALUE_NUMBER_INT':
      return Number(tokens.text) + 0
    case 'VALUE_STRING': {
      const { text } = tokens
      const known = nonNumericNumbers && Object.hasOwn(nonNumericTexts, text) ? nonNumericTexts[text] : undefined
      return known ?? misfit(tokens, type, text !== '')
    }
    default:
      return misfit(tokens, type)
  }
}

function decimalAt(tokens: JsonTokens, precision: number, scale: number): bigint {
  const { token } = tokens
  const isNumber = token === 'VALUE_NUMBER_INT' || token === 'VALUE_NUMBER_FLOAT'
  const text = isNumber ? tokens.text : stringAt(tokens, 'decimal').replaceAll(',', '')
  return unscaledOf(text, precision, scale) ?? misfit(tokens, 'decimal')
}

const stringAt = (tokens: JsonTokens, type: string): string =>
  tokens.token === 'VALUE_STRING' ? tokens.text : misfit(tokens, type)

/** Spark reads a text that does not fit once more without the letters GMT. */
const withoutGmt = (text: string): string => text.replaceAll('GMT', '')

/** A whole number is seconds, which wrap around at 64 bits of microseconds as Java's do. */
function timestampAt(tokens: JsonTokens, { zone, timestampPattern }: ValueRules): bigint {
  if (tokens.token === 'VALUE_NUMBER_INT') return BigInt.asIntN(64, longAt(tokens, 'timestamp') * 1_000_000n)
  const text = stringAt(tokens, 'timestamp')
  if (timestampPattern === null)
    return timestampOf(text, zone) ?? timestampOf(withoutGmt(text), zone) ?? misfit(tokens, 'timestamp')
  const found = timestampPattern(text)
  return (found && microsecondsAt(found.wallClock, found.zone ?? zone)) ?? misfit(tokens, 'timestamp')
}

/** The first day of the Gregorian calendar: Spark counts days before it in another one. */
const GREGORIAN = -141_427

function dateAt(tokens: JsonTokens, { datePattern }: ValueRules): number {
  const text = stringAt(tokens, 'date')
  if (datePattern !== null) {
    const day = datePattern(text)?.wallClock
    return (day && dayOf(day.year, day.month, day.day)) ?? misfit(tokens, 'date')
  }
  const days = dateOf(text) ?? dateOf(withoutGmt(text))
  if (days !== null) return days
  const number = /^[+-]?\d{1,10}$/.test(text) ? Number(text) : Number.NaN
  return number >= GREGORIAN && number <= 2_147_483_647 ? number + 0 : misfit(tokens, 'date')
}

const binaryAt = (tokens: JsonTokens): Uint8Array => base64Bytes(stringAt(tokens, 'binary')) ?? misfit(tokens, 'binary')

function arrayReader(element: JsonType, rules: ValueRules): ValueReader {
  const read = valueReader(element, rules)
  return (tokens) => {
    if (tokens.token !== 'START_ARRAY') misfit(tokens, 'array')
    const values: unknown[] = []
    while (hasMore(tokens, 'END_ARRAY')) values.push(read(tokens))
    return values
  }
}

const hasMore = (tokens: JsonTokens, end: 'END_ARRAY' | 'END_OBJECT'): boolean => {
  const token = tokens.next()
  return token !== null && token !== end
}

function mapReader(value: JsonType, rules: ValueRules): ValueReader {
  const read = valueReader(value, rules)
  return (tokens) => {
    if (tokens.token !== 'START_OBJECT') misfit(tokens, 'map')
    const entries = new Map<string, unknown>()
    let bad: Malformed | null = null
    while (hasMore(tokens, 'END_OBJECT')) {
      const key = encodable(tokens.name ?? '')
      try {
        entries.set(key, read(tokens))
      } catch (error) {
        bad ??= malformedOf(error)
        tokens.skipChildren()
      }
    }
    if (bad !== null) throw bad
    return entries
  }
}

/** The error as one of the record; any other is a defect and goes on. */
export function malformedOf(error: unknown): Malformed {
  if (error instanceof Malformed) return error
  throw error
}

/** Reads objects; fields that the schema does not name are passed by, those that a record does not have are null. */
export function structReader(fields: JsonFields, rules: ValueRules): (tokens: JsonTokens) => Record<string, unknown> {
  const readers = new Map(Object.entries(fields).map(([name, { type }]) => [name, valueReader(type, rules)]))
  const template = emptyRow(Object.keys(fields))
  return (tokens) => {
    if (tokens.token !== 'START_OBJECT') misfit(tokens, 'struct')
    const row = { ...template }
    while (hasMore(tokens, 'END_OBJECT')) {
      const { name } = tokens
      const read = name === null ? undefined : readers.get(name)
      if (name === null || read === undefined) tokens.skipChildren()
      else
        try {
          row[name] = read(tokens)
        } catch (error) {
          rules.onMalformed(malformedOf(error))
          tokens.skipChildren()
        }
    }
    return row
  }
}

/** A row of nulls with these columns as its own, whatever their names. */
export const emptyRow = (names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(names.map((name) => [name, null]))
