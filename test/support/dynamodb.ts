/** DynamoDB in process, for unit tests, and clients whose answers a test can lose. */
import { DynamoDBClient, paginateScan, type AttributeValue, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { ensureTable } from '../../src/aws/table.ts'

const dynalite = createRequire(import.meta.url)('dynalite') as (options: { createTableMs: number }) => Server

const going = new AbortController().signal

/** A client for an emulator at `endpoint`; waits no time between the client's own attempts. */
export const dynamoDbClient = (endpoint: string, config: DynamoDBClientConfig = {}): DynamoDBClient =>
  new DynamoDBClient({
    endpoint,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    ...config,
  })

export interface TestTable {
  readonly endpoint: string
  readonly table: string
  /** Closed with the table. */
  readonly client: DynamoDBClient
  /** Another client, as another process has one. Closed with the table. */
  newClient(config?: DynamoDBClientConfig): DynamoDBClient
  /** Every item whose partition key starts with `prefix`, in order of keys. */
  items(prefix: string): Promise<readonly Record<string, AttributeValue>[]>
  /** The keys of these items, as `<pk> <sk>`. */
  keys(prefix: string): Promise<readonly string[]>
  close(): Promise<void>
}

/** A fresh table at an emulator that somebody else runs. */
export async function openTestTable(endpoint: string): Promise<TestTable> {
  const table = `logs-${randomUUID()}`
  const clients: DynamoDBClient[] = []
  const newClient = (config?: DynamoDBClientConfig): DynamoDBClient => {
    const client = dynamoDbClient(endpoint, config)
    clients.push(client)
    return client
  }
  const client = newClient()
  await ensureTable(client, table, going)
  const items = async (prefix: string) => {
    const found: Record<string, AttributeValue>[] = []
    for await (const page of paginateScan({ client }, { TableName: table })) found.push(...(page.Items ?? []))
    return found
      .filter((item) => item['pk']?.S?.startsWith(prefix))
      .toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))
  }
  return {
    endpoint,
    table,
    client,
    newClient,
    items,
    keys: async (prefix) => (await items(prefix)).map(nameOf),
    async close() {
      for (const each of clients) each.destroy()
    },
  }
}

const nameOf = (item: Record<string, AttributeValue>): string => `${item['pk']?.S} ${item['sk']?.S}`

/** A fresh table in a DynamoDB of its own, in memory. */
export async function startTestTable(): Promise<TestTable> {
  const server = dynalite({ createTableMs: 0 })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // listening on TCP
  const opened = await openTestTable(`http://127.0.0.1:${port}`)
  return {
    ...opened,
    async close() {
      await opened.close()
      await new Promise<void>((resolve, reject) => server.close((e) => (e ? reject(e) : resolve())))
    },
  }
}

export interface Fault {
  /** As `PutItemCommand`. */
  readonly command: string
  /** `before`: the request is never sent. `after`: it takes place and its answer, good or bad, is lost. */
  readonly when: 'before' | 'after'
  /** Which of these commands, counting each attempt from 1; all by default. */
  readonly nth?: number
  /** A reset connection by default, which the client answers by another attempt. */
  readonly error?: Error
}

/** Makes attempts of a client fail. It stands below the client's own repetition of failed attempts. */
export function injectFault(client: DynamoDBClient, fault: Fault): void {
  let count = 0
  const error = fault.error ?? Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', name: 'Error' })
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const isMeant = context['commandName'] === fault.command && (++count === fault.nth || fault.nth === undefined)
      if (!isMeant) return next(args)
      if (fault.when === 'after') await next(args).catch(() => {})
      throw error
    },
    { step: 'deserialize', priority: 'high' }
  )
}

/** Calls `interfere` before the nth attempt of such a command is sent. */
export function interfereBefore(
  client: DynamoDBClient,
  command: string,
  interfere: () => Promise<unknown>,
  nth = 1
): void {
  let count = 0
  client.middlewareStack.add(
    (next, context) => async (args) => {
      if (context['commandName'] === command && ++count === nth) await interfere()
      return next(args)
    },
    { step: 'deserialize', priority: 'high' }
  )
}
