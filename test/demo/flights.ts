/** A public data set as Kafka records: the first flights of `flights-3m.parquet` in the npm package vega-datasets. */
import { zstdDecompressSync } from 'node:zlib'
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet'
import type { Topics } from '../support/topics.ts'

export const FLIGHTS = 240_000
const CHUNK = 20_000
/** By path: the package exports its JSON and CSV files only. */
const DATA = new URL('../../node_modules/vega-datasets/data/flights-3m.parquet', import.meta.url).pathname

/** Sends the flights as JSON, keyed by the airport of origin, each with a header that names its source. */
export async function loadFlights(topics: Topics, topic: string): Promise<void> {
  const file = await asyncBufferFromFile(DATA)
  const compressors = { ZSTD: (bytes: Uint8Array) => zstdDecompressSync(bytes) }
  const flights = await parquetReadObjects({ file, compressors, rowStart: 0, rowEnd: FLIGHTS })
  for (let from = 0; from < FLIGHTS; from += CHUNK)
    await topics.produce(topic, flights.slice(from, from + CHUNK).map(messageOf))
}

const messageOf = (
  flight: Record<string, unknown>
): { key: string; value: string; headers: Record<string, string> } => ({
  key: String(flight['origin']),
  value: JSON.stringify(flight, (_name, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)),
  headers: { source: 'flights-3m.parquet' },
})
