/**
 * One process of the race in object-store.ts. Its arguments say which store; each line `<key>` on its input is one round:
 * several puts of the key at once, with a reader beside them. It answers each with one line of JSON (RaceResult).
 */
import { createInterface } from 'node:readline'
import { S3Client } from '@aws-sdk/client-s3'
import { s3ObjectStore } from '../../src/aws/object-store.ts'
import { directoryObjectStore } from '../../src/local/object-store.ts'
import type { ObjectStore } from '../../src/ports.ts'
import { ministackClient } from '../support/ministack.ts'

export type RacedStore =
  | { readonly kind: 'directory'; readonly root: string }
  | { readonly kind: 's3'; readonly endpoint: string; readonly bucket: string; readonly prefix: string }

export interface RaceResult {
  /** Marks of the puts that answered 'created'. */
  readonly winners: readonly string[]
  /** Marks of the contents that were read; 'torn' for one that is not whole. */
  readonly seen: readonly string[]
}

const putsPerRound = 4
const repeats = 4000

export const raceBody = (mark: string): Uint8Array => Buffer.from(`${mark}\n`.repeat(repeats))

/** The mark of a whole body. */
export function markOf(body: Uint8Array): string {
  const text = Buffer.from(body).toString()
  const mark = text.slice(0, text.indexOf('\n'))
  return text === `${mark}\n`.repeat(repeats) ? mark : 'torn'
}

export function openRacedStore(spec: RacedStore): ObjectStore {
  if (spec.kind === 'directory') return directoryObjectStore(spec.root)
  const client = new S3Client({ ...ministackClient, endpoint: spec.endpoint, forcePathStyle: true })
  return s3ObjectStore({ client, bucket: spec.bucket, prefix: spec.prefix })
}

async function race(store: ObjectStore, key: string, process_: string): Promise<RaceResult> {
  const { signal } = new AbortController()
  const marks = Array.from({ length: putsPerRound }, (_, i) => `${process_}.${i}`)
  const seen = new Set<string>()
  const read = async () => {
    const body = await store.get(key, signal)
    if (body !== null) seen.add(markOf(body))
  }
  const puts = marks.map(async (mark) => {
    const outcome = await store.putIfAbsent(key, raceBody(mark), signal)
    await read()
    return outcome === 'created' ? [mark] : []
  })
  const reads = marks.map(read)
  const winners = (await Promise.all(puts)).flat()
  await Promise.all(reads)
  return { winners, seen: [...seen] }
}

if (import.meta.main) {
  const store = openRacedStore(JSON.parse(process.argv[2] ?? '') as RacedStore)
  for await (const key of createInterface({ input: process.stdin }))
    process.stdout.write(`${JSON.stringify(await race(store, key, String(process.pid)))}\n`)
}
