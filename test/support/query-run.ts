/**
 * A query over real parts in a directory of its own: a broker, the embedded DynamoDB, a Delta table. A test runs it, runs it
 * again with other options or on a world that has changed, lets a run die, and looks at the log and at the table.
 */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BatchContext } from '../../src/context.ts'
import { isSluiceError } from '../../src/errors.ts'
import { defineQuery, deltaTable, kafka } from '../../src/index.ts'
import type { KafkaOptions, Mapper, Query, Schema } from '../../src/index.ts'
import { runQuery } from '../../src/local/runner.ts'
import type { RunEvent } from '../../src/local/runner.ts'
import { decodeCommit, decodeOffsets, logKeys } from '../../src/log.ts'
import type { CommitsEntry, OffsetsEntry } from '../../src/log.ts'
import type { MetadataLog } from '../../src/ports.ts'
import { Trigger } from '../../src/trigger.ts'
import { Crash } from './crash-matrix.ts'
import type { DeltaContents, DeltaReadOptions } from './delta-reader.ts'
import type { DeltaSession } from './delta-session.ts'
import { openFaultyRuntime } from './faulty-runtime.ts'
import type { EffectHook } from './faulty-runtime.ts'

export type Options = Readonly<Record<string, string | number | boolean>>

export interface QueryParts {
  /** Default `query`. */
  readonly name?: string
  /** Default `table`. */
  readonly table?: string
  readonly options: Options
  /** A mapping and its schema; bronze rows without. */
  readonly mapping?: { readonly schema: Schema; readonly map: Mapper<Schema> }
  /** Of another query, to share its store and tables. Default: a new one, removed at the end. */
  readonly directory?: string
  readonly tables: DeltaSession
}

export interface RunSetUp {
  /** In place of or beside the query's options, for this run. */
  readonly options?: Options
  readonly hook?: EffectHook
  readonly onClient?: (client: DynamoDBClient) => void
  readonly onEvent?: (event: RunEvent) => void
  /** What the steps are given instead. */
  readonly change?: (context: BatchContext) => BatchContext
  /** Stops the run (as Ctrl-C does) after so many batches; it is no AvailableNow run then. */
  readonly stopAfter?: number
  readonly leaseMs?: number
}

/** One batch as the log has it. */
export interface LoggedBatch {
  /** `0 [0, 98)`, partition and range, in the order of the tasks. */
  readonly ranges: readonly string[]
  /** Records delivered; null for a batch that is not committed. */
  readonly rows: number | null
  readonly plan: OffsetsEntry
  readonly commit: CommitsEntry | null
}

export interface OpenQuery extends AsyncDisposable {
  readonly directory: string
  readonly table: string
  /** One AvailableNow run in a runtime of its own, as a new process has it; answers all batches of the log. */
  run(setUp?: RunSetUp): Promise<readonly LoggedBatch[]>
  /** A run that has no effect any more from the first point on that matches. */
  dieAt(point: RegExp, setUp?: RunSetUp): Promise<readonly LoggedBatch[]>
  /** Calls steps of the protocol one by one. */
  inContext<T>(work: (context: BatchContext) => Promise<T>, setUp?: RunSetUp): Promise<T>
  /** The log after the last run, also of one that failed. */
  batches(): readonly LoggedBatch[]
  /** What the last run told. */
  events(): readonly RunEvent[]
  /** The table by delta-rs. */
  read(options?: DeltaReadOptions): Promise<DeltaContents>
  /** The values of the bronze rows as text, in order of partition and offset. */
  values(): Promise<readonly (string | null)[]>
  /** `partition:offset` of the bronze rows, in order. */
  positions(): Promise<readonly string[]>
  /** The actions of a version of the table's log, as they stand there. */
  actions(version: number): Promise<readonly Readonly<Record<string, Readonly<Record<string, unknown>>>>[]>
  /** Data files in the table's folder, whether a version names them or not. */
  dataFiles(): Promise<readonly string[]>
}

const signal = new AbortController().signal

export async function openQuery(parts: QueryParts): Promise<OpenQuery> {
  const { name = 'query', table: path = 'table', tables } = parts
  const directory = parts.directory ?? (await mkdtemp(join(tmpdir(), 'sluice-query-')))
  const table = join(directory, 'warehouse', path)
  let batches: readonly LoggedBatch[] = []
  let events: RunEvent[] = []
  const inContext: OpenQuery['inContext'] = async (work, setUp = {}) => {
    const query = queryOf(name, path, parts, setUp.options ?? {})
    const { onClient, leaseMs } = setUp
    const faults = { ...(onClient && { onClient }), ...(leaseMs !== undefined && { leaseMs }) }
    const runtime = await openFaultyRuntime(query, directory, setUp.hook, faults)
    try {
      return await work(setUp.change?.(runtime.context) ?? runtime.context)
    } finally {
      batches = await readBatches(runtime.context.log)
      await runtime.close()
    }
  }
  const run: OpenQuery['run'] = async (setUp = {}) => {
    events = []
    const onEvent = (event: RunEvent): void => {
      events.push(event)
      setUp.onEvent?.(event)
    }
    await inContext((context) => runInContext(context, setUp, onEvent), setUp)
    return batches
  }
  const bronze = async (): Promise<DeltaContents['rows']> =>
    (await tables.read(table)).rows.toSorted(
      (a, b) => Number(a['partition']) - Number(b['partition']) || Number(a['offset']) - Number(b['offset'])
    )
  return {
    directory,
    table,
    run,
    inContext,
    async dieAt(point, setUp = {}) {
      let isDead = false
      const hook: EffectHook = async (at) => {
        if ((isDead ||= point.test(at))) throw new Crash()
        await setUp.hook?.(at)
      }
      await run({ ...setUp, hook }).catch((error: unknown) => {
        if (!isDead) throw error
      })
      if (!isDead) throw new Error(`no point matched ${point}`)
      return batches
    },
    batches: () => batches,
    events: () => events,
    read: (options) => tables.read(table, options),
    values: async () =>
      (await bronze()).map(({ value }) => (typeof value === 'string' ? Buffer.from(value, 'base64').toString() : null)),
    positions: async () => (await bronze()).map((row) => `${Number(row['partition'])}:${Number(row['offset'])}`),
    actions: async (version) =>
      (await readFile(join(table, '_delta_log', `${String(version).padStart(20, '0')}.json`), 'utf8'))
        .trimEnd()
        .split('\n')
        .map((line): Record<string, Record<string, unknown>> => JSON.parse(line)),
    dataFiles: async () => (await readdir(table)).filter((file) => file.endsWith('.parquet')),
    async [Symbol.asyncDispose]() {
      if (parts.directory === undefined) await rm(directory, { recursive: true, force: true })
    },
  }
}

function queryOf(name: string, path: string, { options, mapping }: QueryParts, more: Options): Query {
  // Options that a test makes up may be wrong ones.
  const source = kafka({ startingOffsets: 'earliest', ...options, ...more } as unknown as KafkaOptions)
  const common = { name, source, sink: deltaTable(path) }
  return mapping === undefined ? defineQuery(common) : defineQuery({ ...common, ...mapping })
}

async function runInContext(
  context: BatchContext,
  { stopAfter }: RunSetUp,
  tell: (event: RunEvent) => void
): Promise<void> {
  const stop = new AbortController()
  let left = stopAfter ?? Infinity
  const onEvent = (event: RunEvent): void => {
    tell(event)
    if (event.kind === 'progress' && --left === 0) stop.abort()
  }
  const trigger = stopAfter === undefined ? Trigger.availableNow() : Trigger.processingTime(0)
  try {
    const result = await runQuery(context, { runId: randomUUID(), trigger, parallelism: 2, onEvent }, stop.signal)
    if (result.kind !== 'finished') throw new Error(`the run is ${result.kind}`)
  } catch (error) {
    if (!(stop.signal.aborted && isSluiceError(error, 'ABORTED'))) throw error
  }
}

async function readBatches(log: MetadataLog): Promise<readonly LoggedBatch[]> {
  const plans = await log.list('offsets', signal)
  const readable = plans.filter(({ entry }) => entry.includes('"batchId"')) // a test may have broken one
  return Promise.all(
    readable.map(async ({ id, entry }) => {
      const plan = decodeOffsets(Number(id), entry)
      const text = await log.get(logKeys.commits(plan.batchId), signal)
      const commit = text === null ? null : decodeCommit(plan.batchId, text)
      const ranges = plan.tasks.flat().map((r) => `${r.partition} [${r.from}, ${r.until})`)
      return { plan, commit, ranges, rows: commit?.progress.numInputRows ?? null }
    })
  )
}

/** Partition and end of each: `0:98`. */
export const endsOf = ({ plan }: LoggedBatch): string[] =>
  [...plan.end.values()].flatMap((partitions) => [...partitions].map(([p, end]) => `${p}:${end}`))

/** So many records of one partition; the values are numbers from `first` on. */
export const numbered = (
  count: number,
  { first = 0, partition = 0 }: { first?: number; partition?: number } = {}
): { partition: number; value: string }[] =>
  Array.from({ length: count }, (_, i) => ({ partition, value: String(first + i) }))

/** `0:0`, `0:1`, ... */
export const positionsIn = (partition: number, from: number, until: number): string[] =>
  Array.from({ length: until - from }, (_, i) => `${partition}:${from + i}`)
