/** `fromJson`: the bytes of a record as a typed row, with the answers of Spark's from_json. */
import { SluiceError } from '../errors.ts'
import type { Row, Schema } from '../schema.ts'
import { textOf } from './java-text.ts'
import { Malformed } from './json-malformed.ts'
import type { Leniency } from './json-scanner.ts'
import { JsonTokens } from './json-tokens.ts'
import { emptyRow, malformedOf, structReader, valueReader } from './json-values.ts'
import type { JsonFields, JsonType, ValueRules } from './json-values.ts'
import { patternReader } from './time-pattern.ts'
import type { PatternReader } from './time-pattern.ts'
import { zoneOf } from './time-zone.ts'

/** Spark's options of from_json, under its names. */
export interface JsonOptions {
  /** PERMISSIVE (the default) gives a broken record as nulls, FAILFAST fails the batch; from_json has no DROPMALFORMED. */
  readonly mode?: 'PERMISSIVE' | 'FAILFAST' | 'DROPMALFORMED'
  /** The nullable string column that gets the text of a broken record, if the schema has it: `_corrupt_record`. */
  readonly columnNameOfCorruptRecord?: string
  /** Of timestamps that name no zone: `UTC`. */
  readonly timeZone?: string
  /** As `dd/MM/yyyy HH:mm`, of the letters y M d H m s S X x; without it ISO 8601 as Spark casts it. */
  readonly timestampFormat?: string
  readonly dateFormat?: string
  /** Comments as in Java. */
  readonly allowComments?: boolean
  readonly allowUnquotedFieldNames?: boolean
  /** On, as in Spark. */
  readonly allowSingleQuotes?: boolean
  readonly allowNumericLeadingZeros?: boolean
  /** NaN and infinities, bare or quoted: on, as in Spark. */
  readonly allowNonNumericNumbers?: boolean
  readonly allowBackslashEscapingAnyCharacter?: boolean
  readonly allowUnquotedControlChars?: boolean
}

/**
 * A reader of JSON objects: null for null, for an empty and for a blank text. Values that do not fit are null, also in
 * columns that are declared not null, as in Spark.
 * @throws PARSE_MODE_UNSUPPORTED, OPTION_INVALID at once
 * @throws MALFORMED_RECORD_IN_PARSING from the reader, in mode FAILFAST
 */
export function fromJson<S extends Schema>(
  schema: S,
  options: JsonOptions = {}
): (bytes: Uint8Array | null) => Row<S> | null {
  // A row of exactly the columns of the schema, each read as its type.
  return jsonReader({ kind: 'struct', fields: schema }, options) as (bytes: Uint8Array | null) => Row<S> | null
}

/** A reader of any type, as from_json with that type: a struct, an array or a map. @throws as `fromJson` */
export function jsonReader(type: JsonType, options: JsonOptions): (bytes: Uint8Array | null) => unknown {
  // Text without a type may say anything here; Spark takes an unknown mode as PERMISSIVE.
  const mode = (options.mode ?? 'PERMISSIVE').toUpperCase()
  if (mode === 'DROPMALFORMED') throw new SluiceError('PARSE_MODE_UNSUPPORTED', { function: 'fromJson', mode })
  const record: RecordState = { error: null }
  const rules = rulesOf(options, record)
  const { read, broken } = type.kind === 'struct' ? structRoot(type.fields, options, rules) : otherRoot(type, rules)
  const leniency = leniencyOf(options)
  return (bytes) => {
    if (bytes === null) return null
    const text = textOf(bytes)
    record.error = null
    const value = rootValue(new JsonTokens(text, leniency), read, record)
    if (record.error === null) return value
    if (mode === 'FAILFAST') throw malformedRecord(record.error)
    return broken(value, text)
  }
}

interface RecordState {
  error: Malformed | null
}

interface Root {
  readonly read: (tokens: JsonTokens) => unknown
  /** The answer for a broken record, of which `value` is what could be read, or null. */
  readonly broken: (value: unknown, text: string) => unknown
}

function rootValue(tokens: JsonTokens, read: Root['read'], record: RecordState): unknown {
  try {
    if (tokens.next() === null) return null
    const value = read(tokens)
    if (value === null) throw new Malformed('the whole value is null')
    return value
  } catch (error) {
    record.error = malformedOf(error)
    return null
  }
}

function structRoot(schema: JsonFields, options: JsonOptions, rules: ValueRules): Root {
  const corruptColumn = corruptColumnOf(schema, options)
  const fields = Object.fromEntries(Object.entries(schema).filter(([name]) => name !== corruptColumn))
  const readObject = structReader(fields, rules)
  const template = emptyRow(Object.keys(schema))
  const withCorrupt = (value: object | null, text: string | null): unknown =>
    corruptColumn === null ? (value ?? { ...template }) : { ...template, ...value, [corruptColumn]: text }
  return {
    read(tokens) {
      if (tokens.token === 'VALUE_NULL') return null
      if (tokens.token === 'START_ARRAY')
        throw new Malformed('an array stands where an object is expected', 'CANNOT_PARSE_JSON_ARRAYS_AS_STRUCTS')
      return withCorrupt(readObject(tokens), null)
    },
    broken: (value, text) => withCorrupt(isRow(value) ? value : null, text),
  }
}

const isRow = (value: unknown): value is object => typeof value === 'object' && value !== null

function otherRoot(type: JsonType, rules: ValueRules): Root {
  const read = valueReader(type, rules)
  // An object where an array of structs is expected is its one element.
  const one =
    type.kind === 'array' && type.element.type.kind === 'struct' ? valueReader(type.element.type, rules) : null
  return {
    read: (tokens) => (one !== null && tokens.token === 'START_OBJECT' ? [one(tokens)] : read(tokens)),
    broken: (value) => value,
  }
}

/** The column of the schema that is for broken records. @throws OPTION_INVALID if it cannot hold them */
function corruptColumnOf(schema: JsonFields, options: JsonOptions): string | null {
  const name = options.columnNameOfCorruptRecord ?? '_corrupt_record'
  const column = Object.hasOwn(schema, name) ? schema[name] : undefined
  if (column === undefined) return null
  if (column.type.kind === 'string' && !('nullable' in column && column.nullable === false)) return name
  throw new SluiceError('OPTION_INVALID', {
    option: 'columnNameOfCorruptRecord',
    reason: `column '${name}' must be a nullable string: declare it as t.string, or name another column.`,
  })
}

const leniencyOf = (options: JsonOptions): Leniency => ({
  comments: options.allowComments ?? false,
  unquotedFieldNames: options.allowUnquotedFieldNames ?? false,
  singleQuotes: options.allowSingleQuotes ?? true,
  leadingZeros: options.allowNumericLeadingZeros ?? false,
  nonNumericNumbers: options.allowNonNumericNumbers ?? true,
  anyBackslash: options.allowBackslashEscapingAnyCharacter ?? false,
  controlCharacters: options.allowUnquotedControlChars ?? false,
})

function rulesOf(options: JsonOptions, record: RecordState): ValueRules {
  const zone = zoneOf(options.timeZone ?? 'UTC')
  if (zone === null)
    throw new SluiceError('OPTION_INVALID', {
      option: 'timeZone',
      reason: `'${options.timeZone ?? ''}' is no time zone: give a name like Europe/Berlin or an offset like +02:00.`,
    })
  return {
    zone,
    timestampPattern: patternOf('timestampFormat', options.timestampFormat),
    datePattern: patternOf('dateFormat', options.dateFormat),
    nonNumericNumbers: options.allowNonNumericNumbers ?? true,
    onMalformed(error) {
      record.error ??= error
    },
  }
}

function patternOf(option: string, pattern: string | undefined): PatternReader | null {
  if (pattern === undefined) return null
  try {
    return patternReader(pattern)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new SluiceError('OPTION_INVALID', {
      option,
      reason: `${error.message} is not supported in a pattern: use yyyy MM dd HH mm ss S and XXX, with other text in single quotes.`,
    })
  }
}

const malformedRecord = ({ message, subclass }: Malformed): SluiceError =>
  new SluiceError('MALFORMED_RECORD_IN_PARSING', { subclass, reason: message })
