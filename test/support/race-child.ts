/**
 * One of two processes that run the same query over one table at the same moment: `node race-child.ts ENDPOINT TABLE WAREHOUSE`.
 * For each line `{ query, options, lease }` on standard input it runs the query to its end and answers a line with the result.
 * With `lease: false` every process believes that it holds the lease: then only the log's conditional puts stand between them.
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { isSluiceError } from '../../src/errors.ts'
import { defineQuery, deltaTable, kafka, Trigger } from '../../src/index.ts'
import type { KafkaOptions } from '../../src/index.ts'
import { directoryObjectStore } from '../../src/local/object-store.ts'
import { runQuery } from '../../src/local/runner.ts'
import { openRuntime, optionsOf } from '../../src/runtime.ts'
import { memoryLease } from './memory-lease.ts'

interface Race {
  readonly query: string
  readonly options: KafkaOptions
  readonly lease: boolean
}

const [, , endpoint = '', table = '', warehouse = ''] = process.argv
const signal = new AbortController().signal

async function race({ query: name, options, lease }: Race): Promise<string> {
  const query = defineQuery({ name, source: kafka(options), sink: deltaTable(name) })
  const client = new DynamoDBClient({
    region: 'local',
    endpoint,
    credentials: { accessKeyId: 'x', secretAccessKey: 'y' },
  })
  const environment = {
    client,
    table,
    leaseMs: 60_000,
    objectStore: (path: string) => directoryObjectStore(join(warehouse, path)),
  }
  const runtime = await openRuntime(query, optionsOf(query), environment, signal)
  const context = lease ? runtime.context : { ...runtime.context, lease: memoryLease() }
  const request = { runId: randomUUID(), trigger: Trigger.availableNow(), parallelism: 2, onEvent: () => {} }
  try {
    return (await runQuery(context, request, signal)).kind
  } catch (error) {
    return isSluiceError(error) ? error.name : String(error)
  } finally {
    await runtime.close()
  }
}

for await (const line of createInterface(process.stdin))
  process.stdout.write(`${JSON.stringify(await race(JSON.parse(line) as Race))}\n`)
