/** Runs the decoder over record bytes and copies everything out of its views. */
import { decodeRecords } from '../../src/kafka/record-batch.ts'
import type { DecodeContext, RecordsEnd } from '../../src/kafka/record-batch.ts'
import { MAX_INT64 } from '../../src/offsets.ts'
import type { RecordBatch } from '../../src/ports.ts'

export interface DecodedRow {
  readonly offset: bigint
  readonly timestamp: bigint
  /** Bytes as hexadecimal. */
  readonly key: string | null
  readonly value: string | null
  readonly headers: readonly (readonly [string, string | null])[] | null
}

export interface Decoded {
  readonly rows: readonly DecodedRow[]
  /** Rows of each yielded batch. */
  readonly lengths: readonly number[]
  readonly end: RecordsEnd
}

export const plainContext: DecodeContext = {
  topic: 'orders',
  partition: 3,
  isolationLevel: 'read_committed',
  abortedTransactions: [],
}

export function decodeAll(
  bytes: Buffer,
  { from = 0n, until = MAX_INT64 }: { from?: bigint; until?: bigint } = {},
  context: DecodeContext = plainContext
): Decoded {
  const rows: DecodedRow[] = []
  const lengths: number[] = []
  const walk = decodeRecords(bytes, { from, until }, context)
  for (;;) {
    const step = walk.next()
    if (step.done === true) return { rows, lengths, end: step.value }
    lengths.push(step.value.length)
    for (let i = 0; i < step.value.length; i++) rows.push(rowOf(step.value, i))
  }
}

export const rowOf = (batch: RecordBatch, i: number): DecodedRow => ({
  offset: batch.offset(i),
  timestamp: batch.timestamp(i),
  key: hex(batch.key(i)),
  value: hex(batch.value(i)),
  headers: batch.headers(i)?.map((h) => [h.key, hex(h.value)] as const) ?? null,
})

export const hex = (bytes: Uint8Array | null): string | null =>
  bytes === null ? null : Buffer.from(bytes).toString('hex')

/** The text of each row's value, for values that are text. */
export const textsOf = (decoded: Decoded): string[] =>
  decoded.rows.map((row) => Buffer.from(row.value ?? '', 'hex').toString())

export const offsetsOfRows = (decoded: Decoded): bigint[] => decoded.rows.map((row) => row.offset)
