/**
 * Appends a batch to a Delta table as one version, once. Delta decides between writers by the name of the next version's
 * file, which only one of them creates; whether a batch is in the table is decided by its transaction record alone.
 */
import { randomUUID } from 'node:crypto'
import { SluiceError, isSluiceError } from '../../errors.ts'
import { isObject } from '../../offsets.ts'
import type { BatchId, Clock, ObjectStore } from '../../ports.ts'
import type { Schema } from '../../schema.ts'
import { encodeActions } from './actions.ts'
import type { Action } from './actions.ts'
import { pathOfKey } from './data-file.ts'
import type { DataFile } from './data-file.ts'
import { commitKey, listLog } from './log-segment.ts'
import { findTransaction, readTable } from './log.ts'
import type { TableState } from './log.ts'
import { schemaStringOf } from './schema.ts'
import { verifyTable } from './table-rules.ts'

/** The table of one sink. */
export interface DeltaTarget {
  readonly store: ObjectStore
  readonly schema: Schema
  readonly clock: Clock
  /** As in the sink's description. */
  readonly sink: string
}

/** Versions that rivals may take before us, and puts without an answer, before the failure goes to the caller. */
const limits = { rivals: 200, unanswered: 3 }

/** What one call of `commitBatch` carries from try to try. */
interface Attempt {
  readonly batch: BatchId
  readonly files: readonly DataFile[]
  /** Marks the commit as this call's, in the field that Delta has for it. */
  readonly token: string
}

/**
 * P5: each try reads every version up to the one before the version it puts, for our own transaction and for changes of
 * schema, protocol and table; what it has put counts once the log is seen to lead up to it.
 * @throws SINK_AHEAD_OF_LOG, TABLE_SCHEMA_MISMATCH, UNSUPPORTED_DELTA_TABLE, DELTA_TABLE_CHANGED, OBJECT_STORE_FAILED
 */
export async function commitBatch(
  target: DeltaTarget,
  batch: BatchId,
  files: readonly DataFile[],
  signal: AbortSignal
): Promise<'committed' | 'alreadyCommitted'> {
  const attempt: Attempt = { batch, files, token: randomUUID() }
  let tableId: string | null = null
  let unanswered = 0
  for (let tries = 0; tries < limits.rivals; tries++) {
    const table = await readTable(target.store, false, signal)
    const recorded = await judge(target, table, attempt, signal)
    if (recorded !== null) return recorded
    if (unanswered === limits.unanswered)
      throw new SluiceError('OBJECT_STORE_FAILED', { object: target.store.root, reason: 'commits stay unanswered' })
    if (table !== null) verifyTable(target.store.root, table, target.schema)
    tableId = sameTable(target, tableId, table)
    const outcome = await putVersion(target, table, attempt, signal)
    if (outcome === 'unanswered') unanswered++
    if (outcome === 'created' && (await leadsUpTo(target.store, versionAfter(table), signal))) return 'committed'
  }
  const reason = `other writers took ${limits.rivals} versions in a row`
  throw new SluiceError('DELTA_TABLE_CHANGED', { table: target.store.root, reason })
}

const versionAfter = (table: TableState | null): number => (table === null ? 0 : table.version + 1)

/** A table that was dropped and made again in the meantime holds none of the files that the batch staged. */
function sameTable(target: DeltaTarget, before: string | null, table: TableState | null): string | null {
  const now = table?.metaData.id ?? null
  if (before !== null && before !== now)
    throw new SluiceError('DELTA_TABLE_CHANGED', {
      table: target.store.root,
      reason: now === null ? 'it was removed' : `its id was ${before} and is ${now}`,
    })
  return now
}

/**
 * Puts the next version if it is free. Of a refusal or an unknown outcome nothing is concluded here: the log is read
 * again, and the token in the batch's record tells whether the version that was there is this call's own (B43).
 */
async function putVersion(
  { store, schema, clock }: DeltaTarget,
  table: TableState | null,
  attempt: Attempt,
  signal: AbortSignal
): Promise<'created' | 'exists' | 'unanswered'> {
  const now = clock.now()
  const actions = [
    commitInfo(attempt, table, now),
    ...(table === null ? creation(schema, now) : []),
    ...batchActions(attempt, now),
  ]
  try {
    return await store.putIfAbsent(commitKey(versionAfter(table)), Buffer.from(encodeActions(actions)), signal)
  } catch (e) {
    if (isSluiceError(e, 'OBJECT_STORE_FAILED')) return 'unanswered'
    throw e
  }
}

/**
 * After a won put: the version lies above the newest checkpoint and no version before it is missing. If not, this writer
 * slept so long that the log was cleaned past its version, and what it put is no part of the table.
 */
async function leadsUpTo(store: ObjectStore, version: number, signal: AbortSignal): Promise<boolean> {
  const segment = await listLog(store, signal)
  return segment !== null && (segment.checkpoint?.version ?? -1) < version && version <= segment.version
}

// -- the record of a batch

/** What a commit says about its batch; `planDigest` is null for a commit that another program made. */
interface BatchRecord {
  readonly planDigest: string | null
  readonly endOffsets: string | null
  readonly token: unknown
}

/** Whether the batch is in the table: null if not. @throws SINK_AHEAD_OF_LOG for a record that the log did not plan (P2) */
async function judge(
  target: DeltaTarget,
  table: TableState | null,
  { batch, token }: Attempt,
  signal: AbortSignal
): Promise<'committed' | 'alreadyCommitted' | null> {
  const txn = table?.transactions.get(batch.queryId)
  if (table === null || txn === undefined || txn.version < batch.batchId) return null
  const record = await recordOf(target.store, table, batch.queryId, signal)
  if (txn.version > batch.batchId) throw ahead(target, txn.version, batch.batchId, record)
  // Without a digest the number counts: the commit was cleaned away with the log's old versions, or another program made
  // it under this query's id (a query that moved here from Spark). Both are older than the plan they would contradict.
  if (record?.planDigest != null && record.planDigest !== batch.planDigest)
    throw ahead(target, txn.version, batch.batchId, record)
  return record?.token === token ? 'committed' : 'alreadyCommitted'
}

/**
 * The planner's look: the table's record of the query must not be above the newest logged batch (null: none is logged).
 * Of an equal one only the commit can tell whether it is the same batch.
 * @throws SINK_AHEAD_OF_LOG (P2)
 */
export async function refuseIfAhead(
  target: DeltaTarget,
  table: TableState,
  queryId: string,
  newestBatch: number | null,
  signal: AbortSignal
): Promise<void> {
  const txn = table.transactions.get(queryId)
  if (txn === undefined || (newestBatch !== null && txn.version <= newestBatch)) return
  throw ahead(target, txn.version, newestBatch, await recordOf(target.store, table, queryId, signal))
}

/**
 * A table without the record of a committed batch is not the one that holds it: another path, or a table that was made anew
 * or restored. Going on there would leave the earlier batches behind unseen.
 * @throws SINK_BEHIND_LOG
 */
export function refuseIfBehind(
  target: DeltaTarget,
  table: TableState | null,
  queryId: string,
  committed: number | null
): void {
  const recorded = table?.transactions.get(queryId)?.version
  if (committed === null || (recorded !== undefined && recorded >= committed)) return
  throw new SluiceError('SINK_BEHIND_LOG', { sink: target.sink, recorded: String(recorded ?? 'none'), committed })
}

const ahead = (
  target: DeltaTarget,
  recorded: bigint,
  batchId: number | null,
  record: BatchRecord | null
): SluiceError =>
  new SluiceError('SINK_AHEAD_OF_LOG', {
    sink: target.sink,
    recorded: String(recorded),
    batchId,
    endOffsets: record?.endOffsets ?? "not known (the commit was cleaned from the table's log)",
  })

async function recordOf(
  store: ObjectStore,
  table: TableState,
  queryId: string,
  signal: AbortSignal
): Promise<BatchRecord | null> {
  const txn = table.transactions.get(queryId)
  const commit = txn === undefined ? null : await findTransaction(store, table, txn, signal)
  if (commit === null) return null
  const info = infoOf(commit)
  const parameters = isObject(info['operationParameters']) ? info['operationParameters'] : {}
  const textOf = (value: unknown) => (typeof value === 'string' ? value : null)
  return {
    planDigest: textOf(parameters['planDigest']),
    endOffsets: textOf(parameters['endOffsets']),
    token: info['txnId'],
  }
}

const infoOf = (actions: readonly Action[]): Readonly<Record<string, unknown>> =>
  actions.find((a) => a.kind === 'commitInfo')?.body ?? {}

// -- the version's actions

/** First line of the version. Spark's names where it has them; its parameters and metrics are texts. */
function commitInfo({ batch, files, token }: Attempt, table: TableState | null, now: number): Action {
  const sum = (of: (file: DataFile) => number) => String(files.reduce((total, file) => total + of(file), 0))
  return {
    kind: 'commitInfo',
    body: {
      timestamp: now,
      operation: 'STREAMING UPDATE',
      operationParameters: {
        outputMode: 'Append',
        queryId: batch.queryId,
        epochId: String(batch.batchId),
        planDigest: batch.planDigest,
        endOffsets: batch.endOffsets,
      },
      ...(table !== null && { readVersion: table.version }),
      isBlindAppend: true,
      operationMetrics: {
        numAddedFiles: String(files.length),
        numOutputRows: sum((file) => file.rows),
        numOutputBytes: sum((file) => file.size),
      },
      engineInfo: 'sluice',
      txnId: token,
    },
  }
}

const creation = (schema: Schema, now: number): Action[] => [
  { kind: 'protocol', body: { minReaderVersion: 1, minWriterVersion: 2 } },
  {
    kind: 'metaData',
    body: {
      id: randomUUID(),
      format: { provider: 'parquet', options: {} },
      schemaString: schemaStringOf(schema),
      partitionColumns: [],
      configuration: {},
      createdTime: BigInt(now),
    },
  },
]

const batchActions = ({ batch, files }: Attempt, now: number): Action[] => [
  { kind: 'txn', body: { appId: batch.queryId, version: BigInt(batch.batchId), lastUpdated: BigInt(now) } },
  ...files.map(({ key, size, modificationTime, stats }): Action => ({
    kind: 'add',
    body: {
      path: pathOfKey(key),
      partitionValues: {},
      size: BigInt(size),
      modificationTime: BigInt(modificationTime),
      dataChange: true,
      stats,
    },
  })),
]
