/** A column that is no list and no struct, and what its row group's end gives. */
import type { ColumnChunk } from 'hyparquet'
import type { ByteSpans } from '../../schema.ts'
import type { ChunkTarget } from './chunk-pages.ts'
import type { ColumnSummary } from './stats.ts'

export interface EndedChunk {
  readonly chunk: ColumnChunk
  readonly summary: ColumnSummary
}

export interface FlatColumn {
  /** About the bytes of the row group under way before compression. */
  readonly bytes: number
  /** Values `[from, until)`. @throws ROW_INVALID */
  append(source: ArrayLike<unknown> | ByteSpans, from: number, until: number): void
  /** Writes the row group's chunk and starts anew. */
  end(target: ChunkTarget): EndedChunk
  /** No row group follows: gives its memory back. */
  free(): void
}
