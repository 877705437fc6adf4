/** Checkpoints of a Delta log: all that its commits up to a version amount to, in one Parquet file (the classic kind). */
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib'
import { parquetMetadataAsync, parquetRead } from 'hyparquet'
import type { SchemaElement } from 'hyparquet'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import type { Action } from './actions.ts'
import type { TableState } from './log.ts'
import { createdBy } from './parquet.ts'
import { zstd } from './page-arena.ts'

// -- reading

const decompressors = {
  GZIP: (bytes: Uint8Array) => gunzipSync(bytes),
  BROTLI: (bytes: Uint8Array) => brotliDecompressSync(bytes),
  ZSTD: (bytes: Uint8Array) => zstdDecompressSync(bytes),
}

/** Actions by their names, as `actionOf` takes them. Without files only protocol, metadata and transactions are decoded. */
export async function readCheckpoint(
  body: Uint8Array,
  withFiles: boolean
): Promise<readonly (readonly [name: string, value: unknown])[]> {
  const bytes = new Uint8Array(body).buffer
  const file = { byteLength: bytes.byteLength, slice: (start: number, end?: number) => bytes.slice(start, end) }
  const metadata = await parquetMetadataAsync(file)
  const present = new Set(metadata.row_groups.flatMap((g) => g.columns.map((c) => c.meta_data?.path_in_schema[0])))
  const wanted = ['protocol', 'metaData', 'txn', ...(withFiles ? ['remove', 'add'] : [])]
  const columns = wanted.filter((name) => present.has(name))
  const rows: (readonly [string, unknown])[] = []
  const onChunk = ({ columnName, columnData }: { columnName: string; columnData: ArrayLike<unknown> }) => {
    for (let i = 0; i < columnData.length; i++)
      if (columnData[i] !== null && columnData[i] !== undefined) rows.push([columnName, columnData[i]])
  }
  if (columns.length > 0) await parquetRead({ file, metadata, columns, compressors: decompressors, onChunk })
  return rows
}

// -- writing

/** Delta's default for delta.deletedFileRetentionDuration: clean-up by others needs to know younger removals. */
const tombstoneMs = 7 * 24 * 3_600_000
const retentionProperty = 'delta.deletedFileRetentionDuration'
const rowGroupRows = 50_000

export interface Checkpoint {
  readonly body: Uint8Array
  /** JSON text of `_last_checkpoint`. */
  readonly hint: string
}

/** Encodes a table that was read with its files. `now` is in milliseconds since the epoch. */
export function encodeCheckpoint(table: TableState, now: number): Checkpoint {
  const actions = actionsOf(table, now)
  const writer = new ByteWriter()
  const parquet = new ParquetWriter({ writer, schema, codec: 'ZSTD', compressors: { ZSTD: zstd }, createdBy })
  const columnData = kinds.map((kind) => ({ name: kind, data: actions.map((a) => (a.kind === kind ? a.body : null)) }))
  void parquet.write({ columnData, rowGroupSize: rowGroupRows }) // into memory, so at once
  void parquet.finish()
  const body = writer.getBytes()
  const hint = {
    version: table.version,
    size: actions.length,
    sizeInBytes: body.length,
    numOfAddFiles: table.files.size,
  }
  return { body, hint: JSON.stringify(hint) }
}

function actionsOf(table: TableState, now: number): Action[] {
  const expired = table.metaData.configuration[retentionProperty] === undefined ? now - tombstoneMs : -Infinity
  const tombstones = [...table.tombstones.values()].filter((r) => Number(r.deletionTimestamp ?? 0n) > expired)
  return [
    { kind: 'protocol', body: table.protocol },
    { kind: 'metaData', body: table.metaData },
    ...[...table.transactions.values()].map((body): Action => ({ kind: 'txn', body })),
    ...tombstones.map((body): Action => ({ kind: 'remove', body: { ...body, dataChange: false } })),
    ...[...table.files.values()].map((body): Action => ({ kind: 'add', body: { ...body, dataChange: false } })),
  ]
}

const kinds = ['txn', 'add', 'remove', 'metaData', 'protocol'] as const

type Repetition = 'OPTIONAL' | 'REQUIRED'

const text = (name: string, repetition_type: Repetition = 'OPTIONAL'): SchemaElement[] => [
  { name, type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' }, repetition_type },
]
const leaf = (name: string, type: 'INT32' | 'INT64' | 'BOOLEAN'): SchemaElement[] => [
  { name, type, repetition_type: 'OPTIONAL' },
]
const struct = (name: string, ...children: SchemaElement[][]): SchemaElement[] => [
  { name, num_children: children.length, repetition_type: 'OPTIONAL' },
  ...children.flat(),
]
const map = (name: string): SchemaElement[] => [
  { name, num_children: 1, repetition_type: 'OPTIONAL', converted_type: 'MAP', logical_type: { type: 'MAP' } },
  { name: 'key_value', num_children: 2, repetition_type: 'REPEATED' },
  ...text('key', 'REQUIRED'),
  ...text('value'),
]
const texts = (name: string): SchemaElement[] => [
  { name, num_children: 1, repetition_type: 'OPTIONAL', converted_type: 'LIST', logical_type: { type: 'LIST' } },
  { name: 'list', num_children: 1, repetition_type: 'REPEATED' },
  ...text('element'),
]

const schema: SchemaElement[] = [
  { name: 'spark_schema', num_children: kinds.length },
  ...struct('txn', text('appId'), leaf('version', 'INT64'), leaf('lastUpdated', 'INT64')),
  ...struct(
    'add',
    text('path'),
    map('partitionValues'),
    leaf('size', 'INT64'),
    leaf('modificationTime', 'INT64'),
    leaf('dataChange', 'BOOLEAN'),
    text('stats'),
    map('tags')
  ),
  ...struct(
    'remove',
    text('path'),
    leaf('deletionTimestamp', 'INT64'),
    leaf('dataChange', 'BOOLEAN'),
    leaf('extendedFileMetadata', 'BOOLEAN'),
    map('partitionValues'),
    leaf('size', 'INT64')
  ),
  ...struct(
    'metaData',
    text('id'),
    text('name'),
    text('description'),
    struct('format', text('provider'), map('options')),
    text('schemaString'),
    texts('partitionColumns'),
    map('configuration'),
    leaf('createdTime', 'INT64')
  ),
  ...struct(
    'protocol',
    leaf('minReaderVersion', 'INT32'),
    leaf('minWriterVersion', 'INT32'),
    texts('readerFeatures'),
    texts('writerFeatures')
  ),
]
