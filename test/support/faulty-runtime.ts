/** A query over real parts whose durable effects a test can see, stop, or lose the answer of. */
import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { resolve } from 'node:path'
import { ensureTable } from '../../src/aws/table.ts'
import type { BatchContext } from '../../src/context.ts'
import { openEmbeddedDynamoDb } from '../../src/local/dynamodb.ts'
import { directoryObjectStore } from '../../src/local/object-store.ts'
import type { MetadataLog, ObjectStore, RunLease } from '../../src/ports.ts'
import type { Query } from '../../src/query.ts'
import { openRuntime, optionsOf } from '../../src/runtime.ts'

/** Called before and after each durable effect: `before log.add offsets/0`, `after object.close part-...`. */
export type EffectHook = (point: string) => void | Promise<void>

export interface FaultyRuntime {
  readonly context: BatchContext
  /** What the system does when a process has died: the directory's lock and connections are gone. */
  close(): Promise<void>
}

export interface RuntimeFaults {
  /** A test's moment to make the client of the logs fail. */
  readonly onClient?: (client: DynamoDBClient) => void
  /** By default a dead run's lease has run out by the time of the next. */
  readonly leaseMs?: number
}

export async function openFaultyRuntime(
  query: Query,
  directory: string,
  hook: EffectHook = () => {},
  { onClient = () => {}, leaseMs = 1 }: RuntimeFaults = {}
): Promise<FaultyRuntime> {
  const signal = new AbortController().signal
  const dynamodb = await openEmbeddedDynamoDb(resolve(directory, 'state'))
  const client = new DynamoDBClient({
    region: 'local',
    endpoint: dynamodb.endpoint,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  })
  await ensureTable(client, 'sluice', signal)
  onClient(client)
  const environment = {
    client,
    table: 'sluice',
    leaseMs,
    objectStore: (path: string) => faultyStore(directoryObjectStore(resolve(directory, 'warehouse', path)), hook),
  }
  const runtime = await openRuntime(query, optionsOf(query), environment, signal)
  const { log, lease } = runtime.context
  return {
    context: { ...runtime.context, log: faultyLog(log, hook), lease: faultyLease(lease, hook) },
    async close() {
      await runtime.close()
      await dynamodb.close()
    },
  }
}

async function around<T>(name: string, hook: EffectHook, effect: () => Promise<T>): Promise<T> {
  await hook(`before ${name}`)
  const answer = await effect()
  await hook(`after ${name}`)
  return answer
}

const faultyLog = (log: MetadataLog, hook: EffectHook): MetadataLog => ({
  ...log,
  add: (key, entry, signal) => around(`log.add ${key.log}/${key.id}`, hook, () => log.add(key, entry, signal)),
  remove: (key, signal) => around(`log.remove ${key.log}/${key.id}`, hook, () => log.remove(key, signal)),
})

const faultyLease = (lease: RunLease, hook: EffectHook): RunLease => ({
  acquire: (runId, signal) => around('lease.acquire', hook, () => lease.acquire(runId, signal)),
  renew: (token, signal) => around('lease.renew', hook, () => lease.renew(token, signal)),
  passed: (token, atMs, signal) => around('lease.passed', hook, () => lease.passed(token, atMs, signal)),
  release: (token, signal) => around('lease.release', hook, () => lease.release(token, signal)),
})

const faultyStore = (store: ObjectStore, hook: EffectHook): ObjectStore => ({
  ...store,
  putIfAbsent: (key, body, signal) => around(`object.put ${key}`, hook, () => store.putIfAbsent(key, body, signal)),
  put: (key, body, signal) => around(`object.put ${key}`, hook, () => store.put(key, body, signal)),
  async create(key, signal) {
    const writer = await around(`object.create ${key}`, hook, () => store.create(key, signal))
    return {
      ...writer,
      close: () => around(`object.close ${key}`, hook, () => writer.close()),
    }
  },
})
