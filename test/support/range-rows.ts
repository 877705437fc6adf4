/** Reads ranges with the project's own reader and copies everything out, in the form of the independent readers. */
import type { IsolationLevel, RangeEnd, RangeReader } from '../../src/ports.ts'
import { createRangeReader, type RangeReaderOptions } from '../../src/kafka/range-reader.ts'
import type { KafkaRecordWithHeaders } from './kafka-reader.ts'

export interface RangeToRead {
  readonly topic: string
  /** Default 0. */
  readonly partition?: number
  readonly from: bigint | number
  readonly until: bigint | number
}

export interface RangeRows {
  readonly rows: readonly KafkaRecordWithHeaders[]
  readonly end: RangeEnd
}

export interface ReadSettings {
  /** Default read_uncommitted, as in Kafka. */
  readonly isolation?: IsolationLevel
  readonly signal?: AbortSignal
  /** Called with each row as it comes. */
  readonly onRow?: (row: KafkaRecordWithHeaders) => void | Promise<void>
}

/** A reader with the options' defaults; `kafka` are further client settings. */
export const rangeReaderFor = (
  bootstrap: string,
  options: Partial<Omit<RangeReaderOptions, 'kafka'>> = {},
  kafka: Readonly<Record<string, string>> = {}
): RangeReader =>
  createRangeReader({
    clientId: 'sluice-test',
    failOnDataLoss: true,
    pollTimeoutMs: 120_000,
    ...options,
    kafka: { 'bootstrap.servers': bootstrap, ...kafka },
  })

export async function readRows(
  reader: RangeReader,
  { topic, partition = 0, from, until }: RangeToRead,
  { isolation = 'read_uncommitted', signal = new AbortController().signal, onRow }: ReadSettings = {}
): Promise<RangeRows> {
  const rows: KafkaRecordWithHeaders[] = []
  const range = { topic, partition, from: BigInt(from), until: BigInt(until) }
  const reading = reader.read(range, isolation, signal)
  for (;;) {
    const next = await reading.next()
    if (next.done === true) return { rows, end: next.value }
    const batch = next.value
    for (let i = 0; i < batch.length; i++) {
      const row = {
        topic: batch.topic,
        partition: batch.partition,
        offset: batch.offset(i),
        timestamp: batch.timestamp(i),
        timestampType: batch.timestampType,
        key: copied(batch.key(i)),
        value: copied(batch.value(i)),
        headers: (batch.headers(i) ?? []).map((header) => [header.key, copied(header.value)] as const),
      }
      rows.push(row)
      await onRow?.(row)
    }
  }
}

export const textsOf = (rows: readonly { readonly value: Buffer | null }[]): string[] =>
  rows.map(({ value }) => String(value))

export const offsetsOf = (rows: readonly { readonly offset: bigint }[]): number[] =>
  rows.map(({ offset }) => Number(offset))

const copied = (bytes: Uint8Array | null): Buffer | null => (bytes === null ? null : Buffer.from(bytes))
