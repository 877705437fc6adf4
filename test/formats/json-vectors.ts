/** The cases of real Spark's from_json, and its answers in the values of this project. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { daysOf } from '../../src/formats/time-zone.ts'
import type { JsonOptions } from '../../src/formats/json.ts'
import type { JsonFields, JsonType } from '../../src/formats/json-values.ts'

export interface JsonCase {
  readonly why: string
  readonly ddl: string
  readonly options: Readonly<Record<string, string>>
  readonly inputHex: string | null
  readonly input: string | null
  readonly isNull?: boolean
  readonly row?: unknown
  readonly toJsonRaw?: string
  readonly error?: { readonly condition: string }
}

const file = join(import.meta.dirname, '../spark/from-json.json')

export const cases = (JSON.parse(readFileSync(file, 'utf8')) as { readonly cases: readonly JsonCase[] }).cases

/** The bytes; where the file only describes them, `<3 x [>` stands for three brackets. */
export function inputOf({ inputHex, input }: JsonCase): Uint8Array {
  if (inputHex !== null) return new Uint8Array(Buffer.from(inputHex, 'hex'))
  return new TextEncoder().encode(input?.replaceAll(/<(\d+) x (.)>/g, (_, n: string, c: string) => c.repeat(Number(n))))
}

/** The options with booleans where Spark has their text. */
export const optionsOf = ({ options }: JsonCase): JsonOptions =>
  Object.fromEntries(
    Object.entries(options).map(([name, value]) => [name, /^(true|false)$/.test(value) ? value === 'true' : value])
  )

const names: Readonly<Record<string, JsonType>> = {
  string: { kind: 'string' },
  tinyint: { kind: 'byte' },
  smallint: { kind: 'short' },
  int: { kind: 'int' },
  bigint: { kind: 'long' },
  float: { kind: 'float' },
  double: { kind: 'double' },
  boolean: { kind: 'boolean' },
  binary: { kind: 'binary' },
  date: { kind: 'date' },
  timestamp: { kind: 'timestamp' },
  timestamp_ntz: { kind: 'timestamp_ntz' },
}

/** The type of a DDL: a list of columns, or one type. */
export function typeOf(ddl: string): JsonType {
  const one = /^(array|map)<.*>$/.test(ddl)
  return one ? single(ddl) : { kind: 'struct', fields: fieldsOf(ddl, ' ') }
}

const fieldsOf = (list: string, separator: string): JsonFields =>
  Object.fromEntries(
    partsOf(list).map((part) => {
      const at = part.startsWith('`') ? part.indexOf('`', 1) + 1 : part.indexOf(separator)
      return [part.slice(0, at).replaceAll('`', ''), { type: single(part.slice(at + 1).replace(/ not null$/, '')) }]
    })
  )

function single(name: string): JsonType {
  const [, outer, inner = ''] = /^(\w+)[<(](.*)[>)]$/.exec(name) ?? []
  const parts = partsOf(inner)
  switch (outer ?? 'none') {
    case 'array':
      return { kind: 'array', element: { type: single(inner) } }
    case 'map':
      return { kind: 'map', value: { type: single(parts[1] ?? '') } }
    case 'struct':
      return { kind: 'struct', fields: fieldsOf(inner, ':') }
    case 'decimal':
      return { kind: 'decimal', precision: Number(parts[0]), scale: Number(parts[1]) }
  }
  const known = names[name]
  if (known === undefined) throw new Error(`no type ${name}`)
  return known
}

/** What stands between the commas that are not within brackets. */
function partsOf(list: string): string[] {
  const parts = ['']
  let depth = 0
  for (const c of list) {
    if (c === '<' || c === '(') depth++
    if (c === '>' || c === ')') depth--
    if (c === ',' && depth === 0) parts.push('')
    else parts[parts.length - 1] += c
  }
  return parts.map((part) => part.trim())
}

/** The answer that is expected: the row's, or where its year is beyond Python's range that of to_json. */
export function expectedOf(it: JsonCase): unknown {
  const type = typeOf(it.ddl)
  if (it.isNull === true) return null
  if (it.row !== undefined && it.row !== null) return valueOf(it.row, type)
  return valueOf((JSON.parse(it.toJsonRaw ?? '') as { readonly o: unknown }).o, type)
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function valueOf(value: unknown, type: JsonType): unknown {
  if (value === null) return null
  const wrapped = isRecord(value) ? Object.values(value)[0] : undefined
  switch (type.kind) {
    case 'struct':
      return Object.fromEntries(
        Object.entries(type.fields).map(([name, f]) => [name, valueOf(isRecord(value) ? value[name] : null, f.type)])
      )
    case 'array':
      return Array.isArray(value) ? value.map((v) => valueOf(v, type.element.type)) : value
    case 'map':
      return new Map(Object.entries(wrapped ?? {}).map(([key, v]) => [key, valueOf(v, type.value.type)]))
    case 'long':
      return BigInt(textIn(wrapped ?? value))
    case 'float':
    case 'double':
      return wrapped === undefined ? value : Number(textIn(wrapped).replace('nan', 'NaN').replace('inf', 'Infinity'))
    case 'decimal':
      return BigInt(textIn(wrapped).replace('.', ''))
    case 'binary':
      return new Uint8Array(Buffer.from(textIn(wrapped), 'hex'))
    case 'date':
      return Number(microsOfText(textIn(wrapped)) / 86_400_000_000n)
    case 'timestamp':
    case 'timestamp_ntz':
      return microsOfText(textIn(wrapped ?? value))
    default:
      return value
  }
}

const textIn = (value: unknown): string =>
  typeof value === 'number' ? `${value}` : typeof value === 'string' ? value : ''

function microsOfText(text: string): bigint {
  const [year = 0, month = 0, day = 0, ...time] = (text.match(/\d+/g) ?? []).map(Number)
  const [hour = 0, minute = 0, second = 0, micros = 0] = time
  const seconds = daysOf(year, month, day) * 86_400 + (hour * 60 + minute) * 60 + second
  return BigInt(seconds) * 1_000_000n + BigInt(micros)
}
