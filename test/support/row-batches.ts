/** Rows by column, for tests. */
import type { RowBatch, Schema } from '../../src/schema.ts'

/** A batch of these columns. */
export const rowBatchOf = (columns: readonly (readonly unknown[])[]): RowBatch => ({
  length: columns[0]?.length ?? 0,
  columns,
})

/** The rows as objects. */
export const rowsOf = (schema: Schema, { length, columns }: RowBatch): Record<string, unknown>[] =>
  Array.from({ length }, (_, row) =>
    Object.fromEntries(Object.keys(schema).map((name, column) => [name, columns[column]?.[row]]))
  )
