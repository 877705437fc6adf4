/** The composition root of queries: a query and an environment become the context that the protocol's steps work in. */
import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { S3Client } from '@aws-sdk/client-s3'
import { currentGeneration, readGeneration } from './aws/generation.ts'
import { dynamoMetadataLog } from './aws/metadata-log.ts'
import { dynamoRunLease } from './aws/run-lease.ts'
import { s3ObjectStore } from './aws/object-store.ts'
import { ensureTable } from './aws/table.ts'
import { parseBackfillOptions } from './batch-options.ts'
import type { BatchContext } from './context.ts'
import { SluiceError } from './errors.ts'
import { connectionSettings } from './kafka/connection-settings.ts'
import { createOffsetReader } from './kafka/offset-reader.ts'
import { createRangeReader } from './kafka/range-reader.ts'
import { openEmbeddedDynamoDb } from './local/dynamodb.ts'
import { directoryObjectStore } from './local/object-store.ts'
import { bronzeRows, bronzeSchemaFor, mappedRows, mappingDigest } from './mapping.ts'
import { parseOptions } from './options.ts'
import type { SourceOptions } from './options.ts'
import type { Clock, ObjectStore, OffsetReader, RangeReader, RunLease } from './ports.ts'
import type { Query } from './query.ts'
import { bucketLocation } from './warehouse.ts'

export interface Runtime {
  readonly context: BatchContext
  /** Ends every connection; afterwards the process can end by itself. */
  close(): Promise<void>
}

/** Where a query's logs and objects are. */
export interface Environment {
  readonly client: DynamoDBClient
  readonly table: string
  /** The longest time a step can take and a minute, ms (P19). */
  readonly leaseMs: number
  /** Of the worker function, ms. */
  readonly workerTimeoutMs?: number | undefined
  /** Against the warehouse root where the path is relative (decision 14). */
  objectStore(path: string): ObjectStore
}

export const systemClock: Clock = { now: () => Date.now() }

/**
 * The options of a query, `{{env:NAME}}` resolved from this process. Those of the client are checked too, before anything is
 * opened, and what they have to say comes with the other warnings.
 */
export function optionsOf(query: Query): SourceOptions {
  const parse = query.source.isBounded === true ? parseBackfillOptions : parseOptions
  const options = parse({ ...query.source.options }, (name) => process.env[name])
  const { notices } = connectionSettings(options.kafka, options.clientId)
  return { ...options, warnings: [...options.warnings, ...notices] }
}

/** Opens a query over a table that exists; a query that the table does not know begins there. */
export async function openRuntime(
  query: Query,
  options: SourceOptions,
  environment: Environment,
  signal: AbortSignal
): Promise<Runtime> {
  const { client, table } = environment
  const generation = await currentGeneration({ client, table, query: query.name }, signal)
  const readers = bothReaders(query)(options)
  return {
    context: contextOf(query, { options, readers }, environment, generation),
    close: async () => closeReaders(readers).finally(() => client.destroy()),
  }
}

interface Readers {
  readonly offsets: OffsetReader
  readonly ranges: RangeReader
}

const bothReaders =
  ({ sink }: Query) =>
  (options: SourceOptions): Readers => ({
    offsets: createOffsetReader(options),
    ranges: createRangeReader({ ...options, reusesBuffers: sink.copiesBytes === true }),
  })

const closeReaders = async ({ offsets, ranges }: Readers): Promise<void> => {
  await Promise.allSettled([offsets.close(), ranges.close()])
}

function contextOf(
  query: Query,
  { options, readers }: { options: SourceOptions; readers: Readers },
  environment: Environment,
  generation: number
): BatchContext {
  const { client, table } = environment
  const scope = { client, table, query: query.name, generation, clock: systemClock }
  const schema = query.mapping?.schema ?? bronzeSchemaFor(options.includeHeaders)
  const { offsets, ranges } = readers
  return {
    queryName: query.name,
    options,
    toRows:
      query.mapping === null
        ? bronzeRows(options.includeHeaders)
        : mappedRows(schema, query.mapping.map, options.includeHeaders),
    mappingDigest: mappingDigest(query.mapping?.map ?? null),
    log: dynamoMetadataLog(scope),
    lease: dynamoRunLease({ ...scope, ttlMs: environment.leaseMs }),
    offsets,
    ranges,
    sink: query.sink.open({
      queryName: query.name,
      schema,
      clock: systemClock,
      objectStore: (path) => environment.objectStore(path),
    }),
    clock: systemClock,
    workerTimeoutMs: environment.workerTimeoutMs,
    newId: randomUUID,
  }
}

const variable = (name: string): string => {
  const value = process.env[name]
  if (value === undefined || value === '') throw new SluiceError('FUNCTION_MISCONFIGURED', { variable: name })
  return value
}

function millisecondsIn(name: string): number {
  const ms = Number(variable(name))
  if (!Number.isSafeInteger(ms)) throw new SluiceError('FUNCTION_MISCONFIGURED', { variable: name })
  return ms
}

/**
 * What a function keeps from one invocation to the next: clients, connections, who leads which partition. Nothing that a batch
 * depends on: all that is asked for each time.
 */
export interface FunctionParts {
  /** Of one invocation, in the generation that is current. @throws QUERY_NOT_IN_LOG */
  context(signal: AbortSignal): Promise<BatchContext>
  /** Ends every connection; afterwards the process can end by itself. */
  close(): Promise<void>
}

/** How one of the three functions opens its query. Nothing is asked before the first context. @throws FUNCTION_MISCONFIGURED */
export type OpenFunction = (query: Query) => FunctionParts

// One for each function, so that its bundle holds no more than it needs. Only the planner begins a query.

export const openPlanner: OpenFunction = (query) =>
  openFunction(query, currentGeneration, (options) => ({ offsets: createOffsetReader(options), ranges: noRanges }))

export const openWorker: OpenFunction = (query) => openFunction(query, readGeneration, bothReaders(query))

/** Without Kafka (decision 12). */
export const openCommitter: OpenFunction = (query) =>
  openFunction(query, readGeneration, () => ({ offsets: noOffsets, ranges: noRanges }))

const unused = (): never => {
  throw new TypeError('this function does not read Kafka')
}
const noRanges: RangeReader = { read: unused, close: async () => {} }
const noOffsets: OffsetReader = {
  assigned: unused,
  topicIds: unused,
  earliest: unused,
  latest: unused,
  highWatermarks: unused,
  forTimestamps: unused,
  close: async () => {},
}

/**
 * Opens a query in a function, as the construct's environment says: SLUICE_TABLE, SLUICE_BUCKET (the warehouse root),
 * SLUICE_LEASE_MS, SLUICE_TIMEOUT_MS where a worker's time is limited. Region, credentials and endpoint are the platform's.
 */
function openFunction(
  query: Query,
  generationOf: typeof readGeneration,
  readersFor: (options: SourceOptions) => Readers
): FunctionParts {
  const [table, bucket] = [variable('SLUICE_TABLE'), variable('SLUICE_BUCKET')]
  const leaseMs = millisecondsIn('SLUICE_LEASE_MS')
  const workerTimeoutMs =
    process.env['SLUICE_TIMEOUT_MS'] === undefined ? undefined : millisecondsIn('SLUICE_TIMEOUT_MS')
  const options = optionsOf(query)
  const limits = { requestHandler: { connectionTimeout: 3000, requestTimeout: 30_000 } } // the SDK has none
  const client = new DynamoDBClient(limits)
  const s3 = new S3Client(limits)
  const environment: Environment = {
    client,
    table,
    leaseMs,
    workerTimeoutMs,
    objectStore: (path) => s3ObjectStore({ client: s3, ...bucketLocation(path, bucket) }),
  }
  const readers = readersFor(options)
  return {
    async context(signal) {
      const generation = await generationOf({ client, table, query: query.name }, signal)
      if (generation === null) throw new SluiceError('QUERY_NOT_IN_LOG', { query: query.name, table })
      return contextOf(query, { options, readers }, environment, generation)
    },
    async close() {
      await closeReaders(readers)
      client.destroy()
      s3.destroy()
    },
  }
}

const LOCAL_TABLE = 'sluice'
const LOCAL_LEASE_MS = 16 * 60_000

/**
 * Opens a query in a directory: `state/` holds its logs in an embedded DynamoDB, `warehouse/` its tables. Creates both.
 * @throws DIRECTORY_IN_USE where another process works there
 */
export async function openLocalRuntime(query: Query, directory: string, signal: AbortSignal): Promise<Runtime> {
  const options = optionsOf(query) // before anything is created
  const dynamodb = await openEmbeddedDynamoDb(resolve(directory, 'state'))
  const client = new DynamoDBClient({
    region: 'local',
    endpoint: dynamodb.endpoint,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    requestHandler: { connectionTimeout: 3000, requestTimeout: 10_000 }, // the SDK has none
  })
  const shutDown = async (): Promise<void> => {
    client.destroy()
    await dynamodb.close()
  }
  try {
    await ensureTable(client, LOCAL_TABLE, signal)
    const warehouse = resolve(directory, 'warehouse')
    const environment: Environment = {
      client,
      table: LOCAL_TABLE,
      leaseMs: LOCAL_LEASE_MS,
      objectStore: (path) => directoryObjectStore(resolve(warehouse, path)),
    }
    const runtime = await openRuntime(query, options, environment, signal)
    await freeDeadLease(runtime.context.lease, signal)
    return { context: runtime.context, close: async () => runtime.close().then(shutDown) }
  } catch (error) {
    await shutDown()
    throw error
  }
}

/** We hold the directory's lock, so whoever still holds its lease is dead: the lease is given back in its name. */
async function freeDeadLease(lease: RunLease, signal: AbortSignal): Promise<void> {
  const ours = await lease.acquire(randomUUID(), signal)
  const held = ours.kind === 'busy' ? await lease.acquire(ours.holder, signal) : ours
  if (held.kind === 'held') await lease.release(held.token, signal)
}
