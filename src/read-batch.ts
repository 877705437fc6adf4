/**
 * The composition root of bounded reads: Kafka, and for the command line a file. A read needs no logs, so this imports
 * neither AWS's clients nor the embedded DynamoDB.
 */
import { basename, dirname, resolve } from 'node:path'
import { parseBatchOptions } from './batch-options.ts'
import type { BatchKafkaOptions, BatchOptions } from './batch-options.ts'
import { planBoundedRead, readPieces } from './bounded-read.ts'
import type { BoundedPlan, ReadRequest } from './bounded-read.ts'
import { describeFindings } from './data-loss.ts'
import { SluiceError } from './errors.ts'
import { connectionSettings } from './kafka/connection-settings.ts'
import { createOffsetReader } from './kafka/offset-reader.ts'
import { createRangeReader } from './kafka/range-reader.ts'
import { directoryObjectStore } from './local/object-store.ts'
import { bronzeRows, bronzeSchemaFor } from './mapping.ts'
import type { DataWriter, ObjectStore, ObjectWriter, RecordBatch } from './ports.ts'
import type { RowBatch } from './schema.ts'
import { parquetWriter } from './sinks/delta/parquet.ts'

export type { ReadRequest } from './bounded-read.ts'

export interface BoundedRead {
  plan(signal: AbortSignal): Promise<BoundedPlan>
  /** May be called again with one plan: what is `earliest` and `latest` is then asked for again. */
  records(plan: BoundedPlan, request: ReadRequest, signal: AbortSignal): AsyncGenerator<RecordBatch, void>
  /** Ends every connection. */
  close(): Promise<void>
}

/** Connects to nothing. @throws for options that are refused, those of the client too */
export function batchOptionsOf(raw: Readonly<Record<string, unknown>>): BatchOptions {
  const options = parseBatchOptions(raw, (name) => process.env[name])
  const { notices } = connectionSettings(options.kafka, options.clientId)
  return { ...options, warnings: [...options.warnings, ...notices] }
}

/** Connects when it is asked for something. */
export function openBoundedRead(options: BatchOptions): BoundedRead {
  const context = { options, offsets: createOffsetReader(options), ranges: createRangeReader(options) }
  return {
    plan: (signal) => planBoundedRead(context, signal),
    records: (plan, request, signal) => readPieces(context, plan.pieces, request, signal),
    async close() {
      await Promise.allSettled([context.offsets.close(), context.ranges.close()])
    },
  }
}

export interface ReadBatchSettings {
  /** Ends the reading with ABORTED. */
  readonly signal?: AbortSignal
  /** Ranges that are read at a time. Default: 4. */
  readonly parallelism?: number
  /** Told of options without effect, and with failOnDataLoss=false of each loss. Default: process.emitWarning. */
  readonly onWarning?: (text: string) => void
}

/**
 * Reads what lies between the starting and the ending options, as Spark's `read.format("kafka")` does: batches of rows with
 * the bronze columns, those of one range in order. Each iteration asks Kafka anew. No checkpoint is read or written.
 * @throws at once for options that are refused; while iterating, what planning and reading throw
 */
export function readBatch(options: BatchKafkaOptions, settings: ReadBatchSettings = {}): AsyncIterable<RowBatch> {
  const { signal = new AbortController().signal, parallelism = 4 } = settings
  const warn = settings.onWarning ?? ((text: string) => process.emitWarning(text, 'SluiceWarning'))
  const parsed = batchOptionsOf({ ...options })
  for (const text of parsed.warnings) warn(text)
  const toRows = bronzeRows(parsed.includeHeaders)
  const onPiece: ReadRequest['onPiece'] = (_piece, dataLoss) => {
    if (dataLoss.length > 0) warn(`data loss: ${describeFindings(dataLoss)}`)
  }
  return {
    async *[Symbol.asyncIterator]() {
      const read = openBoundedRead(parsed)
      try {
        const plan = await read.plan(signal)
        for await (const batch of read.records(plan, { parallelism, onPiece }, signal)) yield toRows(batch)
      } finally {
        await read.close()
      }
    },
  }
}

/** A new file, which appears whole when it is closed. @throws OPTION_INVALID where the path is taken */
export async function openOutputFile(path: string, signal: AbortSignal): Promise<ObjectWriter> {
  const { store, key } = await newFile(path, signal)
  return store.create(key, signal)
}

/** The bronze columns in a new Parquet file, which is there even without a row. @throws OPTION_INVALID where the path is taken */
export async function openParquetFile(path: string, includeHeaders: boolean, signal: AbortSignal): Promise<DataWriter> {
  const place = await newFile(path, signal)
  const clock = { now: () => Date.now() }
  return parquetWriter({ ...place, schema: bronzeSchemaFor(includeHeaders), clock, keepsEmpty: true }, signal)
}

async function newFile(path: string, signal: AbortSignal): Promise<{ store: ObjectStore; key: string }> {
  const [store, key] = [directoryObjectStore(dirname(resolve(path))), basename(resolve(path))]
  if ((await store.size(key, signal)) !== null)
    throw new SluiceError('OPTION_INVALID', {
      option: '--file',
      reason: `${resolve(path)} exists. Remove it, or name another`,
    })
  return { store, key }
}
