/**
 * Writes one task's rows into one Parquet file, row group by row group: what is held is one row group, its encoded form and
 * what the object store holds back for a part.
 */
import { constants, zstdCompressSync } from 'node:zlib'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import { SluiceError } from '../../errors.ts'
import type { Clock, CommitMessage, DataWriter, ObjectStore, ObjectWriter } from '../../ports.ts'
import type { DataType, RowBatch, Schema } from '../../schema.ts'
import { ColumnBuffer } from './column-buffer.ts'
import { encodeDataFiles } from './data-file.ts'
import { parquetSchemaOf } from './schema.ts'
import { FileStatistics } from './stats.ts'

/** A row group ends at whichever comes first. */
const rowGroup = { rows: 100_000, bytes: 32 * 2 ** 20 }
/** Rows between two looks at the limits. */
const stride = 256

export const zstd = (bytes: Uint8Array): Uint8Array =>
  zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: 1 } })

/** Named in every file. The number is that of the files' layout; the form is one that readers can parse. */
export const createdBy = 'sluice version 1'

/** Collects what the encoder writes until it is taken; offsets in the file go on. */
class PieceWriter extends ByteWriter {
  take(): Uint8Array {
    const piece = this.getBytes().slice()
    this.index = 0
    return piece
  }
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
  const buffer = new ColumnBuffer(schema)
  const stats = new FileStatistics(schema)
  const pieces = new PieceWriter()
  const parquet = new ParquetWriter({
    writer: pieces,
    schema: parquetSchemaOf(schema),
    codec: 'ZSTD',
    compressors: { ZSTD: zstd },
    createdBy,
  })
  const columns = Object.entries(schema).map(([name, f]) => ({ name, ...(holdsDouble(f.type) && plain) }))
  let output: ObjectWriter | null = null
  let rows = 0

  const endRowGroup = async () => {
    const count = buffer.rows
    if (count === 0) return
    output ??= await store.create(key, signal)
    const data = buffer.take()
    stats.add(count, data)
    await parquet.write({
      columnData: columns.map((column, i) => ({ ...column, data: data[i] ?? [] })),
      rowGroupSize: count,
    })
    rows += count
    await output.write(pieces.take())
  }
  const write = async (batch: RowBatch) => {
    if (signal.aborted) throw new SluiceError('ABORTED', { step: `Writing ${key}` })
    for (let from = 0; from < batch.length; from += stride) {
      buffer.append(batch, from, Math.min(from + stride, batch.length))
      if (buffer.rows >= rowGroup.rows || buffer.bytes >= rowGroup.bytes) await endRowGroup()
    }
  }
  const commit = async (): Promise<CommitMessage> => {
    await endRowGroup()
    if (keepsEmpty) output ??= await store.create(key, signal)
    if (output === null) return { objects: [], rows: 0, bytes: 0, detail: encodeDataFiles([]) }
    await parquet.finish()
    const size = pieces.offset
    await output.write(pieces.take())
    await output.close()
    const file = { key, size, rows, modificationTime: clock.now(), stats: stats.toJson() }
    return { objects: [key], rows, bytes: size, detail: encodeDataFiles([file]) }
  }
  const abort = async () => {
    await output?.abort().catch(() => {}) // what stays behind is named in no report, so no reader sees it (P3)
  }
  return { write, commit, abort }
}

/** The encoder's dictionaries take -0 and 0 for one value. */
const plain = { encoding: 'PLAIN' } as const

function holdsDouble(type: DataType): boolean {
  if (type.kind === 'array') return holdsDouble(type.element.type)
  if (type.kind === 'struct') return Object.values(type.fields).some((f) => holdsDouble(f.type))
  return type.kind === 'double'
}
