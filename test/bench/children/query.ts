/**
 * node query.ts BOOTSTRAP TOPIC DYNAMODB TARGET (bronze | typed) TASKS [OPTION=VALUE ...]: a query from the beginning of the topic
 * to its end of now: planner, workers, so many at a time, and committer, in one process. TARGET is a folder, or
 * http://HOST:PORT/BUCKET for a bucket of an emulator. Prints what it read and what planner and committer took of each batch.
 */
import { randomUUID } from 'node:crypto'
import { resolve } from 'node:path'
import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { S3Client } from '@aws-sdk/client-s3'
import { s3ObjectStore } from '../../../src/aws/object-store.ts'
import { ensureTable } from '../../../src/aws/table.ts'
import { defineQuery, deltaTable, kafka, t, Trigger } from '../../../src/index.ts'
import { directoryObjectStore } from '../../../src/local/object-store.ts'
import { runQuery } from '../../../src/local/runner.ts'
import type { RunEvent } from '../../../src/local/runner.ts'
import type { ObjectStore } from '../../../src/ports.ts'
import { openRuntime, optionsOf } from '../../../src/runtime.ts'

const [bootstrap = '', topic = '', endpoint = '', target = '', shape = '', tasks = '', ...pairs] = process.argv.slice(2)
const source = kafka({
  'kafka.bootstrap.servers': bootstrap,
  subscribe: topic,
  startingOffsets: 'earliest',
  ...Object.fromEntries(pairs.map((pair) => pair.split('='))),
})
const common = { name: `bench-${randomUUID()}`, source, sink: deltaTable('table') }
const text = new TextDecoder()
const query =
  shape === 'bronze'
    ? defineQuery(common)
    : defineQuery({
        ...common,
        schema: { order_id: t.string, amount: t.double, ts: t.timestamp, customer: t.int },
        map: ({ value }) => {
          const order = JSON.parse(text.decode(value ?? new Uint8Array()))
          return { ...order, ts: BigInt(Date.parse(order.ts)) * 1000n }
        },
      })

function objectStore(path: string): ObjectStore {
  if (!target.startsWith('http:')) return directoryObjectStore(resolve(target, path))
  const { origin, pathname } = new URL(target)
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' }
  const client = new S3Client({ endpoint: origin, region: 'us-east-1', credentials, forcePathStyle: true })
  return s3ObjectStore({ client, bucket: pathname.slice(1), prefix: `${query.name}/${path}` })
}

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

const rows: number[] = []
const plans: number[] = []
const commits: number[] = []
let mark = cpuMs()
const onEvent = (event: RunEvent): void => {
  if (event.kind === 'planned') plans.push(cpuMs() - mark)
  if (event.kind === 'progress') {
    commits.push(cpuMs() - mark)
    rows.push(event.progress.numInputRows)
  }
  mark = cpuMs()
}

const { signal } = new AbortController()
const credentials = { accessKeyId: 'local', secretAccessKey: 'local' }
const client = new DynamoDBClient({ region: 'local', endpoint, credentials })
await ensureTable(client, 'bench', signal)
const environment = { client, table: 'bench', leaseMs: 60_000, objectStore }
const runtime = await openRuntime(query, optionsOf(query), environment, signal)
const request = { runId: randomUUID(), trigger: Trigger.availableNow(), parallelism: Number(tasks), onEvent }
await runQuery(runtime.context, request, signal)
await runtime.close()
process.stdout.write(
  `${JSON.stringify({ rows: rows.reduce((sum, n) => sum + n, 0), batches: rows.length, plans, commits })}\n`
)
