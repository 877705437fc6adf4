/** Replays a Delta log: what the newest version of a table is, and what an earlier commit said. */
import { SluiceError, isSluiceError, reasonOf } from '../../errors.ts'
import type { ObjectStore } from '../../ports.ts'
import { actionOf, decodeActions } from './actions.ts'
import type { Action, AddFile, MetaData, Protocol, RemoveFile, Txn } from './actions.ts'
import { readCheckpoint } from './checkpoint.ts'
import { commitKey, listLog } from './log-segment.ts'
import type { LogSegment } from './log-segment.ts'

/** A table at one version. */
export interface TableState {
  readonly version: number
  readonly protocol: Protocol
  readonly metaData: MetaData
  /** Newest transaction of each application. */
  readonly transactions: ReadonlyMap<string, Txn>
  /** Active files and tombstones by path; empty when they were not asked for. */
  readonly files: ReadonlyMap<string, AddFile>
  readonly tombstones: ReadonlyMap<string, RemoveFile>
  /** The commits that were replayed, by version: those after the checkpoint. */
  readonly commits: ReadonlyMap<number, readonly Action[]>
}

/** How often a log is read anew that others clean up meanwhile. */
const readings = 3
/** Commits read at once. */
const width = 16

/**
 * The newest version; null if there is no table. `withFiles` also collects the active files, which only a checkpoint needs.
 * @throws DELTA_LOG_CORRUPT, UNSUPPORTED_DELTA_TABLE
 */
export async function readTable(
  store: ObjectStore,
  withFiles: boolean,
  signal: AbortSignal
): Promise<TableState | null> {
  for (let reading = 1; ; reading++) {
    const segment = await listLog(store, signal)
    if (segment === null) return null
    const replay = new Replay(store.root, withFiles)
    const vanished = await replaySegment(store, segment, replay, signal)
    if (vanished === null) return replay.state(segment.version)
    if (reading === readings) throw corrupt(store, vanished, 'its file vanished while it was read')
  }
}

/** Answers the first version whose file was gone, or null. */
async function replaySegment(
  store: ObjectStore,
  segment: LogSegment,
  replay: Replay,
  signal: AbortSignal
): Promise<number | null> {
  if (segment.checkpoint !== null) {
    const { version, keys } = segment.checkpoint
    for (const key of keys) {
      const body = await store.get(key, signal)
      if (body === null) return version
      const rows = await named(store, version, () => readCheckpoint(body, replay.withFiles))
      await named(store, version, async () => {
        for (const [name, value] of rows) replay.apply(actionOf(name, value))
      })
    }
  }
  for (let i = 0; i < segment.commits.length; i += width) {
    const versions = segment.commits.slice(i, i + width)
    const commits = await Promise.all(versions.map((version) => readCommit(store, version, signal)))
    for (const [k, actions] of commits.entries()) {
      const version = versions[k] ?? 0
      if (actions === null) return version
      replay.commit(version, actions)
    }
  }
  return null
}

/** One commit's actions; null where its file is not there (any more). @throws DELTA_LOG_CORRUPT */
export async function readCommit(store: ObjectStore, version: number, signal: AbortSignal): Promise<Action[] | null> {
  const body = await store.get(commitKey(version), signal)
  return body === null ? null : named(store, version, async () => decodeActions(Buffer.from(body).toString()))
}

/**
 * The commit in which an application recorded a version, looked for from the newest commit down; null if it was cleaned
 * away. The first missing version ends the search: what lies below it may have been put by a writer that slept through
 * the clean-up, and is no part of the table.
 */
export async function findTransaction(
  store: ObjectStore,
  table: TableState,
  txn: Txn,
  signal: AbortSignal
): Promise<readonly Action[] | null> {
  const records = (actions: readonly Action[]) =>
    actions.some((a) => a.kind === 'txn' && a.body.appId === txn.appId && a.body.version === txn.version)
  for (let newest = table.version; newest >= 0; newest -= width) {
    const versions = Array.from({ length: Math.min(width, newest + 1) }, (_, i) => newest - i)
    const commits = await Promise.all(
      versions.map(async (version) => table.commits.get(version) ?? (await readCommit(store, version, signal)))
    )
    const end = commits.find((actions) => actions === null || records(actions))
    if (end !== undefined) return end
  }
  return null
}

/** Gathers actions in the order of their versions; later ones win. */
class Replay {
  readonly withFiles: boolean
  readonly #table: string
  readonly #transactions = new Map<string, Txn>()
  readonly #files = new Map<string, AddFile>()
  readonly #tombstones = new Map<string, RemoveFile>()
  readonly #commits = new Map<number, readonly Action[]>()
  #protocol: Protocol | null = null
  #metaData: MetaData | null = null

  constructor(table: string, withFiles: boolean) {
    this.#table = table
    this.withFiles = withFiles
  }

  commit(version: number, actions: readonly Action[]): void {
    this.#commits.set(version, actions)
    for (const action of actions) this.apply(action)
  }

  apply(action: Action | null): void {
    switch (action?.kind) {
      case 'protocol':
        this.#protocol = action.body
        break
      case 'metaData':
        this.#metaData = action.body
        break
      case 'txn':
        this.#transactions.set(action.body.appId, action.body)
        break
      case 'add':
        if (this.withFiles) this.#files.set(action.body.path, action.body)
        this.#tombstones.delete(action.body.path)
        break
      case 'remove':
        if (this.withFiles) this.#tombstones.set(action.body.path, action.body)
        this.#files.delete(action.body.path)
        break
      default:
    }
  }

  state(version: number): TableState {
    const missing = this.#protocol === null ? 'protocol' : 'metaData'
    if (this.#protocol === null || this.#metaData === null)
      throw new SluiceError('DELTA_LOG_CORRUPT', { table: this.#table, version, reason: `it has no ${missing}` })
    return {
      version,
      protocol: this.#protocol,
      metaData: this.#metaData,
      transactions: this.#transactions,
      files: this.#files,
      tombstones: this.#tombstones,
      commits: this.#commits,
    }
  }
}

const corrupt = (store: ObjectStore, version: number, reason: string): SluiceError =>
  new SluiceError('DELTA_LOG_CORRUPT', { table: store.root, version, reason })

async function named<T>(store: ObjectStore, version: number, decode: () => Promise<T>): Promise<T> {
  try {
    return await decode()
  } catch (e) {
    throw isSluiceError(e) ? e : corrupt(store, version, reasonOf(e))
  }
}
