/**
 * Writes one task's rows into one Parquet file, row group by row group: what is held is one row group, its encoded form and
 * what the object store holds back for a part.
 */
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import { SluiceError } from '../../errors.ts'
import type { Clock, CommitMessage, DataWriter, ObjectStore, ObjectWriter } from '../../ports.ts'
import type { RowBatch, Schema } from '../../schema.ts'
import { encodeDataFiles } from './data-file.ts'
import { columnOf } from './file-column.ts'
import { PageArena, zstd } from './page-arena.ts'
import { parquetSchemaOf } from './schema.ts'
import { FileStatistics } from './stats.ts'

/** A row group ends at whichever comes first. */
const rowGroup = { rows: 100_000, bytes: 32 * 2 ** 20 }
/** Rows between two looks at the limits. */
const stride = 256
/** Bytes from which a piece is not copied into the collecting buffer. */
const largePiece = 32 * 1024
/** Bytes that go out in one write where pieces are smaller. */
const joinedBytes = 256 * 1024

/** Named in every file. The number is that of the files' layout; the form is one that readers can parse. */
export const createdBy = 'sluice version 1'

/** Collects what is written until it is taken; offsets in the file go on. Large pieces are kept as they are. */
class PieceWriter extends ByteWriter {
  #pieces: Uint8Array[] = []

  override appendBytes(bytes: Uint8Array): void {
    if (bytes.length < largePiece) return super.appendBytes(bytes)
    this.#cut()
    this.#pieces.push(bytes)
    this.offset += bytes.length
  }

  take(): Uint8Array[] {
    this.#cut()
    const pieces = this.#pieces
    this.#pieces = []
    return joined(pieces)
  }

  #cut(): void {
    if (this.index > 0) this.#pieces.push(this.getBytes().slice())
    this.index = 0
  }
}

/** Small neighbours together: each piece is a write of its own. */
function joined(pieces: readonly Uint8Array[]): Uint8Array[] {
  const groups: Uint8Array[][] = []
  let held = Infinity
  for (const piece of pieces) {
    held += piece.length
    if (held > joinedBytes) {
      groups.push([])
      held = piece.length
    }
    groups.at(-1)?.push(piece)
  }
  return groups.map((group) => (group.length === 1 ? (group[0] ?? new Uint8Array()) : Buffer.concat(group)))
}

export interface ParquetTarget {
  readonly store: ObjectStore
  readonly key: string
  readonly schema: Schema
  readonly clock: Clock
  /** Whether a file without rows is one. Default: no. */
  readonly keepsEmpty?: boolean
}

/** Creates the object with its first row group; a task without rows leaves none. */
export function parquetWriter(
  { store, key, schema, clock, keepsEmpty = false }: ParquetTarget,
  signal: AbortSignal
): DataWriter {
  const stats = new FileStatistics(schema)
  const pieces = new PieceWriter()
  const arena = new PageArena()
  const parquet = new ParquetWriter({
    writer: pieces,
    schema: parquetSchemaOf(schema),
    codec: 'ZSTD',
    compressors: { ZSTD: zstd },
    createdBy,
  })
  const columns = Object.entries(schema).map(([name, f]) => columnOf(name, f, parquet, arena))
  let output: ObjectWriter | null = null
  let rows = 0
  let groupRows = 0

  const send = async () => {
    output ??= await store.create(key, signal)
    for (const piece of pieces.take()) await output.write(piece)
    arena.reset()
  }
  const endRowGroup = async () => {
    if (groupRows === 0) return
    const start = pieces.offset
    const ended = columns.map((column) => column.end(pieces))
    const chunks = ended.flatMap((one) => one.chunks)
    parquet.row_groups.push({
      columns: chunks,
      total_byte_size: chunks.reduce((sum, { meta_data }) => sum + (meta_data?.total_uncompressed_size ?? 0n), 0n),
      num_rows: BigInt(groupRows),
      total_compressed_size: BigInt(pieces.offset - start),
    })
    parquet.num_rows += BigInt(groupRows)
    stats.add(
      groupRows,
      ended.map((one) => one.summary)
    )
    rows += groupRows
    groupRows = 0
    await send()
  }
  const write = async (batch: RowBatch) => {
    if (signal.aborted) throw new SluiceError('ABORTED', { step: `Writing ${key}` })
    for (let from = 0; from < batch.length; from += stride) {
      const until = Math.min(from + stride, batch.length)
      for (const [i, column] of columns.entries()) column.append(batch, i, from, until)
      groupRows += until - from
      if (groupRows >= rowGroup.rows || columns.reduce((sum, column) => sum + column.bytes, 0) >= rowGroup.bytes)
        await endRowGroup()
    }
  }
  const free = () => {
    for (const column of columns) column.free()
    arena.free()
  }
  const commit = async (): Promise<CommitMessage> => {
    await endRowGroup()
    free()
    if (keepsEmpty) output ??= await store.create(key, signal)
    if (output === null) return { objects: [], rows: 0, bytes: 0, detail: encodeDataFiles([]) }
    await parquet.finish()
    const size = pieces.offset
    await send()
    await output.close()
    const file = { key, size, rows, modificationTime: clock.now(), stats: stats.toJson() }
    return { objects: [key], rows, bytes: size, detail: encodeDataFiles([file]) }
  }
  const abort = async () => {
    await output?.abort().catch(() => {}) // what stays behind is named in no report, so no reader sees it (P3)
    free()
  }
  return { write, commit, abort }
}
