/** The Delta sink: each batch is one version of one table, with the batch's record in it (protocol rules P2, P3, P5, P15). */
import { createHash } from 'node:crypto'
import { SluiceError, reasonOf } from '../../errors.ts'
import type { CommitMessage, LoggedBatches, ObjectStore, Sink, SinkContext, SinkDefinition } from '../../ports.ts'
import { schemaToJson } from '../../schema.ts'
import type { Schema } from '../../schema.ts'
import { encodeCheckpoint } from './checkpoint.ts'
import { commitBatch, refuseIfAhead, refuseIfBehind } from './commit.ts'
import type { DeltaTarget } from './commit.ts'
import { dataFileKey, decodeDataFiles, isDataFileKey } from './data-file.ts'
import type { DataFile } from './data-file.ts'
import { checkpointKey, lastCheckpointKey, listLog } from './log-segment.ts'
import { readTable } from './log.ts'
import { parquetWriter } from './parquet.ts'
import { schemaProblem } from './schema.ts'
import { verifyTable } from './table-rules.ts'

/** Versions after which a checkpoint is due. */
const checkpointInterval = 10
/** Objects looked up at once. */
const width = 32

/**
 * A Delta table at `path`, absolute or against the warehouse root; it is made with the first batch. Rows are appended, each
 * batch once. A row's columns are those of the query's schema, which must be the table's.
 */
export function deltaTable(path: string): SinkDefinition {
  return { description: `DeltaSink[${path}]`, copiesBytes: true, open: (context) => openTable(path, context) }
}

function openTable(path: string, context: SinkContext): Sink {
  const { schema, clock } = context
  const store = context.objectStore(path)
  const target: DeltaTarget = { store, schema, clock, sink: `DeltaSink[${store.root}]` }
  return {
    description: target.sink,
    guarantee: 'exactlyOnce',
    effect: 'staged',
    check: (queryId, logged, signal) => check(target, queryId, logged, signal),
    createWriter: async (task, signal) => parquetWriter({ store, key: dataFileKey(task), schema, clock }, signal),
    missing: (messages, signal) => missing(store, messages, signal),
    commit: async (batch, messages, signal) => commitBatch(target, batch, filesOf(store, messages), signal),
    maintain: (signal) => writeCheckpoint(target, signal),
  }
}

/** Creates nothing. */
async function check(
  target: DeltaTarget,
  queryId: string,
  { newest, committed }: LoggedBatches,
  signal: AbortSignal
): Promise<string> {
  const { store, schema } = target
  const problem = schemaProblem(schema)
  if (problem !== null) throw new SluiceError('UNSUPPORTED_DELTA_TABLE', { table: store.root, reason: problem })
  const table = await readTable(store, false, signal)
  if (table === null) await refuseForeignFolder(store, signal)
  else {
    verifyTable(store.root, table, schema)
    await refuseIfAhead(target, table, queryId, newest, signal)
  }
  refuseIfBehind(target, table, queryId, committed)
  return fingerprint(store, schema)
}

/**
 * Where the rows go and in which shape. The table's id is not part of it: the tasks of batch 0 run before the table exists,
 * and a planner that hands them out again may look after a rival made it; all reports of one batch must agree (P10).
 */
const fingerprint = (store: ObjectStore, schema: Schema): string =>
  createHash('sha256')
    .update(`${store.root}\n${schemaToJson(schema)}`)
    .digest('hex')

/** Files of tasks may lie there before version 0 does, of this query or of another one; anything else is not ours to mix with. */
async function refuseForeignFolder(store: ObjectStore, signal: AbortSignal): Promise<void> {
  const keys = await store.list('', null, signal)
  const foreign = keys.find((key) => !isDataFileKey(key) && !/^[._]/.test(key))
  if (foreign !== undefined)
    throw new SluiceError('NOT_A_DELTA_TABLE', {
      table: store.root,
      reason: `it holds ${foreign} and no _delta_log`,
    })
}

function filesOf(store: ObjectStore, messages: readonly CommitMessage[]): DataFile[] {
  return messages.flatMap(({ detail, objects }) => {
    try {
      return decodeDataFiles(detail)
    } catch (e) {
      const entry = `the report of ${objects.join(', ') || 'a task'} for ${store.root}`
      throw new SluiceError('LOG_ENTRY_UNREADABLE', { entry, reason: reasonOf(e) }, e)
    }
  })
}

async function missing(
  store: ObjectStore,
  messages: readonly CommitMessage[],
  signal: AbortSignal
): Promise<readonly string[]> {
  const keys = messages.flatMap((message) => message.objects)
  const gone: string[] = []
  for (let i = 0; i < keys.length; i += width) {
    const some = keys.slice(i, i + width)
    const sizes = await Promise.all(some.map((key) => store.size(key, signal)))
    gone.push(...some.filter((_, k) => sizes[k] === null))
  }
  return gone
}

/**
 * A checkpoint when ten versions lie after the newest one. The file is put whole and only if no other writer made it; the
 * hint comes after it, so a crash between them costs readers a longer listing and nothing else (P15).
 */
async function writeCheckpoint({ store, schema, clock }: DeltaTarget, signal: AbortSignal): Promise<void> {
  const segment = await listLog(store, signal)
  if (segment === null || segment.commits.length < checkpointInterval) return
  const table = await readTable(store, true, signal)
  if (table === null) return
  verifyTable(store.root, table, schema)
  const { body, hint } = encodeCheckpoint(table, clock.now())
  const outcome = await store.putIfAbsent(checkpointKey(table.version), body, signal)
  if (outcome === 'created') await store.put(lastCheckpointKey, Buffer.from(hint), signal)
}
