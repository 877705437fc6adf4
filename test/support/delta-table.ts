/** A Delta sink on a folder of its own, with faults where a test wants them. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'
import { parquetReadObjects } from 'hyparquet'
import { onTestFinished } from 'vitest'
import { directoryObjectStore } from '../../src/local/object-store.ts'
import type { BatchId, CommitMessage, ObjectStore, Sink } from '../../src/ports.ts'
import { t } from '../../src/schema.ts'
import type { Schema } from '../../src/schema.ts'
import { readTable } from '../../src/sinks/delta/log.ts'
import type { TableState } from '../../src/sinks/delta/log.ts'
import { deltaTable } from '../../src/sinks/delta/table.ts'

export const never = new AbortController().signal

export const idSchema = { id: t.long.notNull(), name: t.string } as const satisfies Schema

/** A store on a new folder that goes with the test. */
export async function freshStore(): Promise<ObjectStore> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-delta-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return directoryObjectStore(join(folder, 'table'))
}

export function openSink(store: ObjectStore, schema: Schema = idSchema, now = 1_700_000_000_000): Sink {
  let time = now
  const clock = { now: () => time++ }
  return deltaTable('table').open({ queryName: 'q', schema, clock, objectStore: () => store })
}

export const batchOf = (queryId: string, batchId: number, planDigest = `digest-${batchId}`): BatchId => ({
  queryId,
  batchId,
  planDigest,
  endOffsets: `{"t":{"0":${(batchId + 1) * 10}}}`,
})

/** Stages one task's rows as columns. */
export async function stage(
  sink: Sink,
  batch: BatchId,
  columns: readonly ArrayLike<unknown>[],
  task = 0
): Promise<CommitMessage> {
  const writer = await sink.createWriter({ ...batch, task, attempt: randomUUID(), ranges: [] }, never)
  await writer.write({ length: columns[0]?.length ?? 0, columns })
  return writer.commit()
}

/** Ten rows of `idSchema` whose ids say query and batch. */
export const tenRows = (from: number): readonly ArrayLike<unknown>[] => [
  Array.from({ length: 10 }, (_, i) => BigInt(from + i)),
  Array.from({ length: 10 }, (_, i) => `row ${from + i}`),
]

/** Stages and commits ten rows. */
export async function append(sink: Sink, batch: BatchId, from = batch.batchId * 10): ReturnType<Sink['commit']> {
  return sink.commit(batch, [await stage(sink, batch, tenRows(from))], never)
}

export async function tableAt(store: ObjectStore): Promise<TableState> {
  const table = await readTable(store, true, never)
  if (table === null) throw new Error('there is no table')
  return table
}

export async function readParquet(body: Uint8Array): Promise<Record<string, unknown>[]> {
  const bytes = new Uint8Array(body).buffer
  return parquetReadObjects({
    file: { byteLength: bytes.byteLength, slice: (start, end) => bytes.slice(start, end) },
    compressors: { ZSTD: (input) => zstdDecompressSync(input) },
    utf8: false,
  })
}

/** The ids of all rows that the table's newest version holds, ascending. */
export async function idsIn(store: ObjectStore): Promise<number[]> {
  const { files } = await tableAt(store)
  const ids: number[] = []
  for (const path of files.keys()) {
    const body = await store.get(decodeURIComponent(path), never)
    if (body === null) throw new Error(`${path} is gone`)
    ids.push(...(await readParquet(body)).map((row) => Number(row['id'])))
  }
  return ids.toSorted((a, b) => a - b)
}

export const logFiles = async (store: ObjectStore): Promise<string[]> =>
  (await store.list('_delta_log/', null, never)).map((key) => key.slice('_delta_log/'.length))

type PutIfAbsent = ObjectStore['putIfAbsent']

/** The store, with another way to put commits; `key` is that of a version, as `_delta_log/...json`. */
export const withCommitPuts = (
  store: ObjectStore,
  putCommit: (put: PutIfAbsent, ...args: Parameters<PutIfAbsent>) => ReturnType<PutIfAbsent>
): ObjectStore => ({
  ...store,
  putIfAbsent: (key, body, signal) =>
    key.endsWith('.json')
      ? putCommit((...put) => store.putIfAbsent(...put), key, body, signal)
      : store.putIfAbsent(key, body, signal),
})

export const versionName = (version: number): string => `_delta_log/${String(version).padStart(20, '0')}.json`
export const range = (from: number, until: number): number[] => Array.from({ length: until - from }, (_, i) => from + i)
