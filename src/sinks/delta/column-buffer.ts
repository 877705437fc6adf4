/**
 * Rows of one row group, by column, checked against the schema. Bytes are copied: a buffered view would keep the whole
 * answer of the broker alive that it came in, and a mapping may use its buffer again.
 */
import { isObject } from '../../offsets.ts'
import type { DataType, Field, RowBatch, Schema } from '../../schema.ts'
import { Intake, isInt32, isInt64 } from './intake.ts'

/** Checks one value, counts its bytes and returns what is stored. */
type Store = (value: unknown) => unknown

export class ColumnBuffer {
  readonly #columns: readonly { readonly intake: Intake; readonly store: Store }[]
  #values: unknown[][]
  #rows = 0
  #bytes = 0
  #arena = new ByteArena()

  constructor(schema: Schema) {
    this.#columns = Object.entries(schema).map(([name, f]) => ({
      intake: new Intake(name, f),
      store: this.#storeOf(name, f),
    }))
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
    for (const [i, { intake, store }] of this.#columns.entries()) {
      const source = batch.columns[i]
      intake.checkLength(source, until)
      const target = this.#values[i] ?? []
      for (let row = from; row < until; row++) target.push(store(source?.[row]))
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

  #storeOf(column: string, field: Field<unknown>): Store {
    const intake = new Intake(column, field)
    const store = this.#valueStore(column, field.type, (value) => intake.reject(value))
    return (value) => (intake.isNull(value) ? null : store(value))
  }

  /** Of values that are not null. */
  #valueStore(column: string, type: DataType, reject: (value: unknown) => never): Store {
    switch (type.kind) {
      case 'array': {
        const element = this.#storeOf(`${column}.element`, type.element)
        return (value) => this.#count(16, Array.isArray(value) ? value.map(element) : reject(value))
      }
      case 'struct':
        return this.#structStore(column, type.fields, reject)
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

  #structStore(column: string, fields: Schema, reject: (value: unknown) => never): Store {
    const members = Object.entries(fields).map(([name, f]) => ({
      name,
      store: this.#storeOf(`${column}.${name}`, f),
    }))
    return (value) => {
      if (!isObject(value) || value instanceof Uint8Array) return reject(value)
      const stored: Record<string, unknown> = {}
      for (const { name, store } of members) stored[name] = store(value[name])
      return this.#count(32, stored)
    }
  }

  #count<T>(bytes: number, value: T): T {
    this.#bytes += bytes
    return value
  }
}

type ScalarKind = Exclude<DataType['kind'], 'array' | 'struct' | 'string' | 'binary'>

const scalars: Record<ScalarKind, (value: unknown) => boolean> = {
  int: isInt32,
  date: isInt32,
  long: isInt64,
  timestamp: isInt64,
  double: (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
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
