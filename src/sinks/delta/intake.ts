/** What a column takes: the checks of values that every way into a file shares. */
import { SluiceError } from '../../errors.ts'
import type { DataType, Field } from '../../schema.ts'

export class Intake {
  readonly #column: string
  readonly #field: Field<unknown>

  constructor(column: string, field: Field<unknown>) {
    this.#column = column
    this.#field = field
  }

  /** Whether it stands for null. @throws ROW_INVALID where the column takes none */
  isNull(value: unknown): boolean {
    if (value !== null && value !== undefined) return false
    if (this.#field.nullable) return true
    throw this.#invalid('it is NOT NULL and a row holds no value for it')
  }

  /** @throws ROW_INVALID naming the kind of value; never the value, which may be a secret */
  reject(value: unknown): never {
    throw this.#invalid(`${wanted[this.#field.type.kind]}, a row holds ${kindOf(value)}`)
  }

  /** @throws ROW_INVALID where a batch has too few values for the column */
  checkLength(source: { readonly length: number } | undefined, until: number): void {
    if (source === undefined || source.length < until) throw this.#invalid('the batch of rows has no values for it')
  }

  #invalid(reason: string): SluiceError {
    return new SluiceError('ROW_INVALID', { column: this.#column, reason })
  }
}

export const isInt32 = (value: unknown): value is number => typeof value === 'number' && (value | 0) === value
export const isInt64 = (value: unknown): value is bigint =>
  typeof value === 'bigint' && BigInt.asIntN(64, value) === value

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
