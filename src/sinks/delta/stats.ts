/**
 * Statistics of one data file as Delta keeps them in `add.stats`. Readers skip files by them, so a bound may be wide but
 * never narrow: what cannot be said exactly is rounded outwards, and what cannot be rounded is left out.
 */
import { stringifyExact } from '../../offsets.ts'
import type { DataType, Schema } from '../../schema.ts'

/** Strings longer than this many characters are cut, as Spark cuts them. */
const stringPrefix = 32

export type Bound = string | number | bigint
type Side = 'min' | 'max'

interface Rule {
  readonly compare: (a: Bound, b: Bound) => number
  /** The bound as JSON holds it; null where JSON or the calendar has no word for it. */
  readonly write: (bound: Bound, side: Side) => Bound | null
}

/** What is known of one column of a row group; bounds are null where there are none. */
export interface ColumnSummary {
  readonly nulls: number
  readonly min: Bound | null
  readonly max: Bound | null
  /** NaN among the values; the bounds leave it out. */
  readonly hasNaN: boolean
}

/** Grows with the row groups of one file. Columns are those of the schema, in its order. */
export class FileStatistics {
  readonly #columns: readonly ColumnStatistics[]
  #rows = 0

  constructor(schema: Schema) {
    this.#columns = Object.entries(schema).map(([name, f]) => new ColumnStatistics(name, f.type))
  }

  /** Of each column of a row group its values, or what is known of them. */
  add(rows: number, columns: readonly (readonly unknown[] | ColumnSummary)[]): void {
    this.#rows += rows
    for (const [i, column] of this.#columns.entries()) column.add(columns[i] ?? [])
  }

  /** `{numRecords, minValues, maxValues, nullCount}`; int64 as its digits. */
  toJson(): string {
    const perColumn = (of: (c: ColumnStatistics) => Bound | null) =>
      Object.fromEntries(this.#columns.flatMap((c) => (of(c) === null ? [] : [[c.name, of(c)]])))
    return stringifyExact({
      numRecords: this.#rows,
      minValues: perColumn((c) => c.bound('min')),
      maxValues: perColumn((c) => c.bound('max')),
      nullCount: perColumn((c) => c.nullCount),
    })
  }
}

class ColumnStatistics {
  readonly name: string
  readonly #rule: Rule | null
  readonly #isStruct: boolean
  #nulls = 0
  #hasNaN = false
  #min: Bound | null = null
  #max: Bound | null = null

  constructor(name: string, type: DataType) {
    this.name = name
    this.#rule = rules[type.kind]
    this.#isStruct = type.kind === 'struct'
  }

  add(values: readonly unknown[] | ColumnSummary): void {
    if ('nulls' in values) this.#addSummary(values)
    else this.#addValues(values)
  }

  #addSummary({ nulls, min, max, hasNaN }: ColumnSummary): void {
    this.#nulls += nulls
    if (hasNaN) this.#hasNaN = true
    if (this.#rule === null) return
    for (const bound of [min, max]) if (bound !== null) this.#widen(bound, this.#rule)
  }

  #addValues(values: readonly unknown[]): void {
    for (const value of values) {
      if (value === null) this.#nulls++
      else if (this.#rule !== null) this.#widen(value as Bound, this.#rule) // the column buffer let only this type in
    }
  }

  #widen(value: Bound, { compare }: Rule): void {
    if (Number.isNaN(value)) this.#hasNaN = true
    else {
      if (this.#min === null || compare(value, this.#min) < 0) this.#min = value
      if (this.#max === null || compare(value, this.#max) > 0) this.#max = value
    }
  }

  /** The null count of a struct would be one of each leaf; it may be absent, and is. */
  get nullCount(): number | null {
    return this.#isStruct ? null : this.#nulls
  }

  bound(side: Side): Bound | null {
    const bound = side === 'min' ? this.#min : this.#max
    // NaN is greater than every number for Spark and delta-rs: a file that holds one has no largest number.
    if (bound === null || this.#rule === null || (side === 'max' && this.#hasNaN)) return null
    return this.#rule.write(bound, side)
  }
}

const byOrder = (a: Bound, b: Bound): number => (a < b ? -1 : a > b ? 1 : 0)

const rules: Record<DataType['kind'], Rule | null> = {
  int: { compare: byOrder, write: (bound) => bound },
  long: { compare: byOrder, write: (bound) => bound },
  double: { compare: byOrder, write: (bound) => (Number.isFinite(bound) ? bound : null) },
  date: { compare: byOrder, write: (bound) => isoTime(Number(bound) * 86_400_000)?.slice(0, 10) ?? null },
  // Milliseconds are all that the format holds: the smallest is cut, the largest rounded up.
  timestamp: { compare: byOrder, write: (bound, side) => isoTime(Number(milliseconds(BigInt(bound), side))) },
  string: {
    compare: (a, b) => compareText(String(a), String(b)),
    write: (bound, side) => (side === 'min' ? prefixOf(String(bound)) : upperBound(String(bound))),
  },
  // Delta's readers skip by no bounds of these.
  boolean: null,
  binary: null,
  array: null,
  struct: null,
}

function milliseconds(micros: bigint, side: Side): bigint {
  const cut = micros / 1000n // towards zero
  const rest = micros % 1000n
  if (side === 'min') return rest < 0n ? cut - 1n : cut
  return rest > 0n ? cut + 1n : cut
}

/** ISO text of a time within the years 0001 to 9999, which every reader can parse; else null. */
function isoTime(ms: number): string | null {
  const date = new Date(ms)
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1 || date.getUTCFullYear() > 9999) return null
  return date.toISOString()
}

/** Order of the UTF-8 bytes, in which Parquet and Delta compare; code units differ from it above U+D7FF. */
export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x !== y) return rank(x) - rank(y)
  }
  return a.length - b.length
}

/** Surrogates stand for code points above all others. */
const rank = (unit: number): number => (unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit)

function prefixOf(text: string): string {
  return text.length <= stringPrefix ? text : codePointsOf(text).join('')
}

const codePointsOf = (text: string): string[] => Array.from(text.slice(0, 2 * stringPrefix + 1)).slice(0, stringPrefix)

/** A short text that sorts at or after `text`; null if there is none. */
function upperBound(text: string): string | null {
  const prefix = prefixOf(text)
  if (prefix === text) return text
  const points = codePointsOf(text)
  while (points.length > 0) {
    const last = points.pop()?.codePointAt(0) ?? 0
    if (last === 0x10ffff) continue
    return points.join('') + String.fromCodePoint(last === 0xd7ff ? 0xe000 : last + 1)
  }
  return null
}
