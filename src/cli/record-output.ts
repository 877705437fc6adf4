/** Where `sluice read` puts records: counts, text on standard output or in a file, or a Parquet file. */
import { bronzeRows } from '../mapping.ts'
import { nameOf } from '../offsets.ts'
import type { TopicPartition } from '../offsets.ts'
import type { RecordBatch } from '../ports.ts'
import { openOutputFile, openParquetFile } from '../read-batch.ts'
import { csvHeader, csvLines, jsonLines } from './record-text.ts'
import type { RecordLines } from './record-text.ts'

export const outputKinds = ['json', 'csv', 'parquet', 'count'] as const
export type OutputKind = (typeof outputKinds)[number]

/** `abort` may follow any call, `end` comes once at the end. A file appears whole at `end`, or never. */
export interface RecordOutput {
  write(batch: RecordBatch): Promise<void>
  end(): Promise<void>
  abort(): Promise<void>
}

export interface OutputRequest {
  readonly kind: OutputKind
  /** null: standard output. */
  readonly file: string | null
  readonly includeHeaders: boolean
  /** Those that are counted, also without a record. */
  readonly partitions: readonly TopicPartition[]
}

/** A destination of bytes. */
interface Target {
  write(text: string): Promise<void>
  end(): Promise<void>
  abort(): Promise<void>
}

/** @throws OPTION_INVALID where the file exists; OBJECT_STORE_REFUSED where it cannot be made */
export async function openOutput(request: OutputRequest, signal: AbortSignal): Promise<RecordOutput> {
  const { kind, file, includeHeaders, partitions } = request
  if (kind === 'count') return countOutput(partitions)
  if (kind === 'parquet') return parquetOutput(file ?? '', includeHeaders, signal)
  const target = file === null ? standardOutput : await fileTarget(file, signal)
  return kind === 'json'
    ? textOutput(target, '', jsonLines(includeHeaders))
    : textOutput(target, csvHeader(includeHeaders), csvLines(includeHeaders))
}

/** Settles when the text is out, so that a slow reader slows us down. */
const standardOutput: Target = {
  write: (text) => new Promise((resolve) => process.stdout.write(text, () => resolve())),
  end: async () => {},
  abort: async () => {},
}

async function fileTarget(path: string, signal: AbortSignal): Promise<Target> {
  const writer = await openOutputFile(path, signal)
  return {
    write: (text) => writer.write(Buffer.from(text)),
    end: () => writer.close(),
    abort: () => writer.abort(),
  }
}

/** Characters that are collected before they are written. */
const PIECE = 64 * 1024

function textOutput(target: Target, header: string, linesOf: RecordLines): RecordOutput {
  let text = header
  const flush = async (): Promise<void> => {
    const piece = text
    text = ''
    if (piece !== '') await target.write(piece)
  }
  return {
    async write(batch) {
      text += linesOf(batch)
      if (text.length >= PIECE) await flush()
    },
    async end() {
      await flush()
      await target.end()
    },
    abort: () => target.abort(),
  }
}

/** `topic-partition`, a tab and the number of its records; the last line is the total. */
function countOutput(partitions: readonly TopicPartition[]): RecordOutput {
  const counts = new Map(partitions.map((tp) => [nameOf(tp), 0]))
  return {
    async write(batch) {
      counts.set(nameOf(batch), (counts.get(nameOf(batch)) ?? 0) + batch.length)
    },
    async end() {
      const total = [...counts.values()].reduce((sum, n) => sum + n, 0)
      await standardOutput.write([...counts, ['total', total]].map(([name, n]) => `${name}\t${n}\n`).join(''))
    },
    abort: async () => {},
  }
}

async function parquetOutput(path: string, includeHeaders: boolean, signal: AbortSignal): Promise<RecordOutput> {
  const writer = await openParquetFile(path, includeHeaders, signal)
  const toRows = bronzeRows(includeHeaders)
  return {
    write: (batch) => writer.write(toRows(batch)),
    end: async () => void (await writer.commit()),
    abort: () => writer.abort(),
  }
}
