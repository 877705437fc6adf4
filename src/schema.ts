/**
 * Column types of a query's rows and their TypeScript values. The names are Spark's; `t` is how a query module
 * declares them: `{ id: t.string.notNull(), amount: t.double, at: t.timestamp }`.
 */

export type DataType =
  | { readonly kind: 'string' | 'int' | 'long' | 'double' | 'boolean' | 'binary' | 'timestamp' | 'date' }
  | { readonly kind: 'array'; readonly element: Field<unknown> }
  | { readonly kind: 'struct'; readonly fields: Schema }

/** A column: its type and whether it may hold null. `T` is the TypeScript value, null included where allowed. */
export interface Field<T> {
  readonly type: DataType
  readonly nullable: boolean
  notNull(): Field<NonNullable<T>>
  /** Never present: carries `T` for inference. */
  readonly valueType?: T
}

/** Columns in table order. */
export type Schema = { readonly [column: string]: Field<unknown> }

/** The object a mapping returns for a schema. */
export type Row<S extends Schema> = { readonly [K in keyof S]: S[K] extends Field<infer T> ? T : never }

function field<T>(type: DataType, nullable = true): Field<T> {
  return { type, nullable, notNull: () => field<NonNullable<T>>(type, false) }
}

/**
 * Values: int is a number in 32 bits, long a bigint in 64, timestamp a bigint of microseconds since the epoch (UTC),
 * date a number of days since the epoch, binary a Uint8Array.
 */
export const t = {
  string: field<string | null>({ kind: 'string' }),
  int: field<number | null>({ kind: 'int' }),
  long: field<bigint | null>({ kind: 'long' }),
  double: field<number | null>({ kind: 'double' }),
  boolean: field<boolean | null>({ kind: 'boolean' }),
  binary: field<Uint8Array | null>({ kind: 'binary' }),
  timestamp: field<bigint | null>({ kind: 'timestamp' }),
  date: field<number | null>({ kind: 'date' }),
  array: <T>(element: Field<T>): Field<readonly T[] | null> => field({ kind: 'array', element }),
  struct: <S extends Schema>(fields: S): Field<Row<S> | null> => field({ kind: 'struct', fields }),
} as const

/** The columns of Spark's Kafka source (S1), in its order. */
export const bronzeSchema = {
  key: t.binary,
  value: t.binary,
  topic: t.string,
  partition: t.int,
  offset: t.long,
  timestamp: t.timestamp,
  timestampType: t.int,
} as const satisfies Schema

export const bronzeSchemaWithHeaders = {
  ...bronzeSchema,
  headers: t.array(t.struct({ key: t.string, value: t.binary })),
} as const satisfies Schema

/** One array per column, in schema order; `length` rows. Typed arrays serve int (Int32Array), long and timestamp (BigInt64Array). */
export interface RowBatch {
  readonly length: number
  readonly columns: readonly ArrayLike<unknown>[]
  /**
   * The same columns where the maker has them without an object per value: binary columns as places in a buffer, the
   * others as arrays that may be longer than the batch. A writer may take either form.
   */
  readonly packed?: readonly (ArrayLike<unknown> | ByteSpans)[]
}

/** Byte strings as places in one buffer, so that they can be copied on without a view of each. */
export interface ByteSpans {
  readonly bytes: Buffer
  /** The i-th begins at `cells[first + i * stride]`; the cell after that is its length, -1 for null. */
  readonly cells: Int32Array
  readonly first: number
  readonly stride: number
  readonly length: number
}

export const isByteSpans = (column: ArrayLike<unknown> | ByteSpans): column is ByteSpans => 'cells' in column

/** A view of each, null where it is null. */
export function viewsOf({ bytes, cells, first, stride, length }: ByteSpans): (Uint8Array | null)[] {
  const views: (Uint8Array | null)[] = []
  for (let i = 0, cell = first; i < length; i++, cell += stride) {
    const at = cells[cell] ?? 0
    const size = cells[cell + 1] ?? -1
    views.push(size < 0 ? null : bytes.subarray(at, at + size))
  }
  return views
}

/** A schema as plain JSON, for fingerprints and messages. */
export const schemaToJson = (schema: Schema): string =>
  JSON.stringify(Object.entries(schema).map(([name, f]) => [name, typeToJson(f.type), f.nullable]))

function typeToJson(type: DataType): unknown {
  switch (type.kind) {
    case 'array':
      return { array: typeToJson(type.element.type), nullable: type.element.nullable }
    case 'struct':
      return { struct: schemaToJson(type.fields) }
    default:
      return type.kind
  }
}
