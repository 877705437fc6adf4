/**
 * Rows of one row group, by column, checked against the schema. Bytes are copied: a buffered view would keep the whole
 * answer of the broker alive that it came in, and a mapping may use its buffer again.
 */
import { SluiceError } from '../../errors.ts'
import { isObject } from '../../offsets.ts'
import type { DataType, Field, RowBatch, Schema } from '../../schema.ts'

/** Checks one value that is not null, counts its bytes and returns what is stored. */
type Intake = (value: unknown) => unknown

export class ColumnBuffer {
  readonly #columns: readonly { readonly name: string; readonly intake: Intake }[]
  #values: unknown[][]
  #rows = 0
  #bytes = 0
  #arena = new ByteArena()

  constructor(schema: Schema) {
    this.#columns = Object.entries(schema).map(([name, f]) => ({ name, intake: this.#intakeOf(name, f) }))
    this.#values = this.#columns.map(() => [])
  }

  get rows(): number {
    return this.#rows
  }

  /** About what the buffered values take in memory. */
  get bytes(): number {
    return this.#bytes
  }

  /** Rows `[from, until)` of the batch. @throws ROW_INVALID */
  append(batch: RowBatch, from: number, until: number): void {
    for (const [i, { name, intake }] of this.#columns.entries()) {
      const source = batch.columns[i]
      if (source === undefined || source.length < until)
        throw new SluiceError('ROW_INVALID', { column: name, reason: 'the batch of rows has no values for it' })
      const target = this.#values[i] ?? []
      for (let row = from; row < until; row++) target.push(intake(source[row]))
    }
    this.#rows += until - from
  }

  /** Hands the columns out and starts anew. */
  take(): unknown[][] {
    const taken = this.#values
    this.#values = this.#columns.map(() => [])
    this.#rows = 0
    this.#bytes = 0
    this.#arena = new ByteArena()
    return taken
  }

  #intakeOf(column: string, { type, nullable }: Field<unknown>): Intake {
    const intake = this.#valueIntake(column, type)
    return (value) => {
      if (value !== null && value !== undefined) return intake(value)
      if (nullable) return null
      throw new SluiceError('ROW_INVALID', { column, reason: 'it is NOT NULL and a row holds no value for it' })
    }
  }

  #valueIntake(column: string, type: DataType): Intake {
    const reject = (value: unknown): never => {
      const reason = `${wanted[type.kind]}, a row holds ${kindOf(value)}`
      throw new SluiceError('ROW_INVALID', { column, reason })
    }
    switch (type.kind) {
      case 'array': {
        const element = this.#intakeOf(`${column}.element`, type.element)
        return (value) => this.#count(16, Array.isArray(value) ? value.map(element) : reject(value))
      }
      case 'struct':
        return this.#structIntake(column, type.fields, reject)
      case 'string':
        // A lone surrogate has no UTF-8 form: it becomes U+FFFD here, so that statistics and file agree.
        return (value) =>
          typeof value === 'string' ? this.#count(16 + value.length, value.toWellFormed()) : reject(value)
      case 'binary':
        return (value) =>
          value instanceof Uint8Array ? this.#count(32 + value.length, this.#arena.copy(value)) : reject(value)
      default: {
        const fits = scalars[type.kind]
        return (value) => (fits(value) ? this.#count(16, value) : reject(value))
      }
    }
  }

  #structIntake(column: string, fields: Schema, reject: (value: unknown) => never): Intake {
    const members = Object.entries(fields).map(([name, f]) => ({
      name,
      intake: this.#intakeOf(`${column}.${name}`, f),
    }))
    return (value) => {
      if (!isObject(value) || value instanceof Uint8Array) return reject(value)
      const stored: Record<string, unknown> = {}
      for (const { name, intake } of members) stored[name] = intake(value[name])
      return this.#count(32, stored)
    }
  }

  #count<T>(bytes: number, value: T): T {
    this.#bytes += bytes
    return value
  }
}

type ScalarKind = Exclude<DataType['kind'], 'array' | 'struct' | 'string' | 'binary'>

const isInt32 = (value: unknown): boolean => typeof value === 'number' && (value | 0) === value
const isInt64 = (value: unknown): boolean => typeof value === 'bigint' && BigInt.asIntN(64, value) === value

const scalars: Record<ScalarKind, (value: unknown) => boolean> = {
  int: isInt32,
  date: isInt32,
  long: isInt64,
  timestamp: isInt64,
  double: (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
}

const wanted: Record<DataType['kind'], string> = {
  string: 'a string column takes a string',
  int: 'an int column takes a whole number of 32 bits',
  long: 'a long column takes a bigint of 64 bits',
  double: 'a double column takes a number',
  boolean: 'a boolean column takes true or false',
  binary: 'a binary column takes a Uint8Array',
  timestamp: 'a timestamp column takes a bigint of microseconds in 64 bits',
  date: 'a date column takes a whole number of days in 32 bits',
  array: 'an array column takes an array',
  struct: 'a struct column takes an object',
}

/** What kind of value it is; never the value, which may be a secret. */
function kindOf(value: unknown): string {
  if (typeof value === 'number') {
    if (!Number.isInteger(value)) return 'a number with a fraction, NaN or an infinity'
    return isInt32(value) ? 'a number' : 'a number beyond 32 bits'
  }
  if (typeof value === 'bigint') return isInt64(value) ? 'a bigint' : 'a bigint beyond 64 bits'
  if (typeof value !== 'object' || value === null) return `a ${typeof value}`
  if (Array.isArray(value)) return 'an array'
  const name: unknown = value.constructor?.name
  return `an object (${typeof name === 'string' && name !== '' ? name : 'Object'})`
}

/** Copies many small byte strings into few blocks. */
class ByteArena {
  #block = new Uint8Array(0)
  #used = 0

  copy(bytes: Uint8Array): Uint8Array {
    const blockBytes = 2 ** 20
    if (bytes.length > blockBytes / 8) return new Uint8Array(bytes)
    if (this.#used + bytes.length > this.#block.length) {
      this.#block = new Uint8Array(blockBytes)
      this.#used = 0
    }
    const view = this.#block.subarray(this.#used, (this.#used += bytes.length))
    view.set(bytes)
    return view
  }
}
