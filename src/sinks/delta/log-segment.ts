/** Which files of a Delta log make up its newest version: a checkpoint, if there is one, and the commits after it. */
import { SluiceError } from '../../errors.ts'
import { isObject } from '../../offsets.ts'
import type { ObjectStore } from '../../ports.ts'

export interface LogSegment {
  /** One file, or all parts of it. */
  readonly checkpoint: { readonly version: number; readonly keys: readonly string[] } | null
  /** Versions after the checkpoint, without a gap. */
  readonly commits: readonly number[]
  /** The newest version. */
  readonly version: number
}

export const logFolder = '_delta_log/'
export const lastCheckpointKey = `${logFolder}_last_checkpoint`

const padded = (version: number): string => String(version).padStart(20, '0')
export const commitKey = (version: number): string => `${logFolder}${padded(version)}.json`
export const checkpointKey = (version: number): string => `${logFolder}${padded(version)}.checkpoint.parquet`

/** A listing is no snapshot: it can show a commit and miss the one before it. A gap is looked at again this often. */
const looks = 3

/**
 * Lists the log; null if there is no table.
 * @throws DELTA_LOG_CORRUPT where a version is missing, UNSUPPORTED_DELTA_TABLE where only a v2 checkpoint fills the gap
 */
export async function listLog(store: ObjectStore, signal: AbortSignal): Promise<LogSegment | null> {
  for (let look = 1; ; look++) {
    const names = await listNames(store, signal)
    const segment = segmentOf(names)
    if (segment === null) return null
    const gap = firstGap(segment)
    if (gap === null) return segment
    if (look < looks) continue
    if (names.some((name) => (v2Checkpoint(name) ?? -1) >= gap))
      throw new SluiceError('UNSUPPORTED_DELTA_TABLE', {
        table: store.root,
        reason: 'its newest checkpoint is of version 2',
      })
    throw new SluiceError('DELTA_LOG_CORRUPT', { table: store.root, version: gap, reason: 'its file is missing' })
  }
}

/** The hint spares the listing of old commits; it may be wrong, so what it points to must be there, else all is listed. */
async function listNames(store: ObjectStore, signal: AbortSignal): Promise<string[]> {
  const from = await lastCheckpointVersion(store, signal)
  const list = async (startAfter: string | null) =>
    (await store.list(logFolder, startAfter, signal)).map((key) => key.slice(logFolder.length))
  if (from !== null) {
    const names = await list(logFolder + padded(from))
    if (segmentOf(names)?.checkpoint) return names
  }
  return list(null)
}

async function lastCheckpointVersion(store: ObjectStore, signal: AbortSignal): Promise<number | null> {
  const body = await store.get(lastCheckpointKey, signal)
  if (body === null) return null
  try {
    const hint: unknown = JSON.parse(Buffer.from(body).toString())
    return isObject(hint) && Number.isSafeInteger(hint['version']) ? Number(hint['version']) : null
  } catch {
    return null // a hint that cannot be read is no hint
  }
}

function segmentOf(names: readonly string[]): LogSegment | null {
  const checkpoint = newestCheckpoint(names)
  const after = checkpoint?.version ?? -1
  const commits = names
    .flatMap((name) => /^(\d{20})\.json$/.exec(name)?.[1] ?? [])
    .map(Number)
    .filter((version) => version > after)
    .toSorted((a, b) => a - b)
  const version = commits.at(-1) ?? checkpoint?.version
  return version === undefined ? null : { checkpoint, commits, version }
}

/** The newest one that is whole: a single file, or every part of one that was written in parts. */
function newestCheckpoint(names: readonly string[]): LogSegment['checkpoint'] {
  const found = new Map<string, { version: number; parts: number; keys: string[] }>()
  for (const name of names) {
    const match = /^(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet$/.exec(name)
    if (match === null) continue
    const version = Number(match[1])
    const parts = match[3] === undefined ? 1 : Number(match[3])
    const kind = `${version}/${match[3] === undefined ? 'single' : parts}`
    const entry = found.get(kind) ?? { version, parts, keys: [] }
    found.set(kind, entry)
    entry.keys.push(logFolder + name)
  }
  const whole = [...found.values()].filter(({ parts, keys }) => keys.length === parts)
  return whole.toSorted((a, b) => b.version - a.version)[0] ?? null
}

const v2Checkpoint = (name: string): number | null => {
  const match = /^(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)$/.exec(name)
  return match === null ? null : Number(match[1])
}

/** The first version after the checkpoint (or from 0 on) that has no commit. */
function firstGap({ checkpoint, commits }: LogSegment): number | null {
  const first = (checkpoint?.version ?? -1) + 1
  const at = commits.findIndex((version, i) => version !== first + i)
  return at === -1 ? null : first + at
}
