/** A column of a file in either way of writing: flat ones by our own pages, lists, structs and booleans by hyparquet-writer. */
import type { ColumnChunk } from 'hyparquet'
import type { ParquetWriter } from 'hyparquet-writer'
import { isByteSpans } from '../../schema.ts'
import type { DataType, Field, RowBatch } from '../../schema.ts'
import { BinaryColumn, TextColumn } from './byte-column.ts'
import { ColumnBuffer } from './column-buffer.ts'
import type { FlatColumn } from './flat-column.ts'
import { Intake } from './intake.ts'
import { DoubleColumn, IntColumn, LongColumn } from './number-column.ts'
import { ChunkPages } from './chunk-pages.ts'
import type { ChunkTarget } from './chunk-pages.ts'
import type { PageArena } from './page-arena.ts'
import { parquetSchemaOf } from './schema.ts'
import type { ColumnSummary } from './stats.ts'

export interface FileColumn {
  /** About the bytes of the row group under way before compression. */
  readonly bytes: number
  /** Rows `[from, until)` of the batch, whose column `i` this is. @throws ROW_INVALID */
  append(batch: RowBatch, i: number, from: number, until: number): void
  /** Writes the row group's chunks, one for each leaf, and starts anew. */
  end(target: ChunkTarget): EndedColumn
  /** No row group follows: gives its memory back. */
  free(): void
}

interface EndedColumn {
  readonly chunks: readonly ColumnChunk[]
  readonly summary: readonly unknown[] | ColumnSummary
}

/** `parquet` writes into the file's target; `arena` holds pages until the row group's chunks are written. */
export function columnOf(name: string, field: Field<unknown>, parquet: ParquetWriter, arena: PageArena): FileColumn {
  const intake = new Intake(name, field)
  const flat = flatColumn(name, field, intake, arena)
  return flat === null ? new ForeignColumn(name, field, parquet) : new OwnColumn(flat, intake)
}

function flatColumn(name: string, field: Field<unknown>, intake: Intake, arena: PageArena): FlatColumn | null {
  const [, element] = parquetSchemaOf({ [name]: field })
  if (element === undefined) return null
  const pages = new ChunkPages(element, arena)
  switch (field.type.kind) {
    case 'binary':
      return new BinaryColumn(pages, intake)
    case 'string':
      return new TextColumn(pages, intake)
    case 'int':
    case 'date':
      return new IntColumn(pages, intake)
    case 'long':
    case 'timestamp':
      return new LongColumn(pages, intake)
    case 'double':
      return new DoubleColumn(pages, intake)
    default:
      return null
  }
}

class OwnColumn implements FileColumn {
  readonly #flat: FlatColumn
  readonly #intake: Intake

  constructor(flat: FlatColumn, intake: Intake) {
    this.#flat = flat
    this.#intake = intake
  }

  get bytes(): number {
    return this.#flat.bytes
  }

  append(batch: RowBatch, i: number, from: number, until: number): void {
    const source = (batch.packed ?? batch.columns)[i]
    this.#intake.checkLength(source, until)
    if (source !== undefined) this.#flat.append(source, from, until)
  }

  end(target: ChunkTarget): EndedColumn {
    const { chunk, summary } = this.#flat.end(target)
    return { chunks: [chunk], summary }
  }

  free(): void {
    this.#flat.free()
  }
}

/** Holds its values until the row group ends. */
class ForeignColumn implements FileColumn {
  readonly #name: string
  readonly #buffer: ColumnBuffer
  readonly #parquet: ParquetWriter
  readonly #options: { readonly encoding?: 'PLAIN' }

  constructor(name: string, field: Field<unknown>, parquet: ParquetWriter) {
    this.#name = name
    this.#buffer = new ColumnBuffer({ [name]: field })
    this.#parquet = parquet
    // The encoder's dictionaries take -0 and 0 for one value.
    this.#options = holdsDouble(field.type) ? { encoding: 'PLAIN' } : {}
  }

  get bytes(): number {
    return this.#buffer.bytes
  }

  append(batch: RowBatch, i: number, from: number, until: number): void {
    const source = (batch.packed ?? batch.columns)[i]
    const columns = source === undefined || isByteSpans(source) ? [] : [source]
    this.#buffer.append({ length: batch.length, columns }, from, until)
  }

  /** The encoder takes it for a row group of its own, of which only the chunks are kept. */
  end(): EndedColumn {
    const { rows } = this.#buffer
    const [data = []] = this.#buffer.take()
    void this.#parquet.write({ columnData: [{ name: this.#name, data, ...this.#options }], rowGroupSize: rows })
    const group = this.#parquet.row_groups.pop()
    this.#parquet.num_rows -= BigInt(rows)
    return { chunks: group?.columns ?? [], summary: data }
  }

  free(): void {
    this.#buffer.take()
  }
}

function holdsDouble(type: DataType): boolean {
  if (type.kind === 'array') return holdsDouble(type.element.type)
  if (type.kind === 'struct') return Object.values(type.fields).some((f) => holdsDouble(f.type))
  return type.kind === 'double'
}
