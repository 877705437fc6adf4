import { CreateTableCommand, DescribeTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { currentGeneration } from '../../src/aws/generation.ts'
import { dynamoMetadataLog } from '../../src/aws/metadata-log.ts'
import { dynamoRunLease } from '../../src/aws/run-lease.ts'
import { ensureTable, stateTableDefinition } from '../../src/aws/table.ts'
import { dynamoDbClient, startTestTable, type TestTable } from '../support/dynamodb.ts'

const going = new AbortController().signal
const scope = { query: 'orders', generation: 1 }

let db: TestTable
beforeAll(async () => {
  db = await startTestTable()
})
afterAll(() => db.close())

describe('ensureTable', () => {
  it('P8 creates a table of string keys on demand, without time to live', async () => {
    const table = `t-${randomUUID()}`
    await ensureTable(db.client, table, going)
    const { Table } = await db.client.send(new DescribeTableCommand({ TableName: table }))
    expect(Table?.TableStatus).toBe('ACTIVE')
    expect(Table?.BillingModeSummary?.BillingMode).toBe('PAY_PER_REQUEST')
    expect(Table?.KeySchema).toEqual(stateTableDefinition(table).KeySchema)
    expect(JSON.stringify(stateTableDefinition(table))).not.toContain('TimeToLive')
  })

  it('leaves a table that exists, also when several create it at once', async () => {
    const table = `t-${randomUUID()}`
    await Promise.all([1, 2, 3].map(() => ensureTable(db.client, table, going)))
    await dynamoMetadataLog({ client: db.client, table, ...scope }).add({ log: 'offsets', id: 0 }, 'kept', going)
    await ensureTable(db.client, table, going)
    const log = dynamoMetadataLog({ client: db.client, table, ...scope })
    expect(await log.get({ log: 'offsets', id: 0 }, going)).toBe('kept')
  })

  it('refuses a table with other keys', async () => {
    const table = `t-${randomUUID()}`
    await db.client.send(
      new CreateTableCommand({
        TableName: table,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
        KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      })
    )
    await expect(ensureTable(db.client, table, going)).rejects.toMatchObject({
      name: 'LOG_TABLE_UNUSABLE',
      message: expect.stringContaining('its keys are id HASH'),
    })
    const log = dynamoMetadataLog({ client: db.client, table, ...scope })
    await expect(log.get({ log: 'offsets', id: 0 }, going)).rejects.toMatchObject({ name: 'LOG_TABLE_UNUSABLE' })
  })

  it('refuses a name that DynamoDB does not take', async () => {
    await expect(ensureTable(db.client, 'a b', going)).rejects.toMatchObject({ name: 'LOG_TABLE_UNUSABLE' })
  })
})

describe('a failing table has one clear error each', () => {
  let server: Server | null = null
  const clients: DynamoDBClient[] = []
  afterEach(async () => {
    for (const client of clients.splice(0)) client.destroy()
    server?.closeAllConnections()
    await new Promise((resolve) => (server ? server.close(resolve) : resolve(null)))
    server = null
  })

  const clientOf = (endpoint: string): DynamoDBClient => {
    const client = dynamoDbClient(endpoint, { maxAttempts: 1 })
    clients.push(client)
    return client
  }
  /** A service that answers every request with one error. */
  async function answering(status: number, type: string, message: string): Promise<DynamoDBClient> {
    server = createServer((request, response) => {
      request.resume()
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' })
      response.end(JSON.stringify({ __type: `com.amazon.coral.service#${type}`, message }))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`) // listening on TCP
  }
  const calls = (client: DynamoDBClient) => {
    const log = dynamoMetadataLog({ client, table: 'state', ...scope })
    const lease = dynamoRunLease({ client, table: 'state', ...scope, clock: Date, ttlMs: 1000 })
    return [
      () => log.add({ log: 'offsets', id: 0 }, 'text', going),
      () => log.get({ log: 'offsets', id: 0 }, going),
      () => log.newest('offsets', going),
      () => log.list('offsets', going),
      () => log.idsUpTo('offsets', 9, 0, going),
      () => log.remove({ log: 'offsets', id: 0 }, going),
      () => lease.acquire('run-a', going),
      () => lease.renew(1, going),
      () => lease.passed(1, 0, going),
      () => lease.release(1, going),
      () => currentGeneration({ client, table: 'state', query: 'orders' }, going),
    ]
  }

  it('a missing table', async () => {
    for (const call of calls(db.client)) {
      await expect(call()).rejects.toMatchObject({ name: 'LOG_TABLE_MISSING', retryable: false })
      await expect(call()).rejects.toThrow('Table state does not exist')
    }
  })

  it('a denied permission', async () => {
    const message = 'User: role/worker is not authorized to perform: dynamodb:PutItem'
    for (const call of calls(await answering(400, 'AccessDeniedException', message)))
      await expect(call()).rejects.toMatchObject({
        name: 'LOG_STORE_DENIED',
        retryable: false,
        message: expect.stringContaining(message),
      })
  })

  it('a refused signature, without a word of what was signed', async () => {
    const message = 'The Canonical String should have been x-amz-security-token:SECRET'
    for (const call of calls(await answering(400, 'InvalidSignatureException', message))) {
      const error = await call().then(
        () => null,
        (e: unknown) => e
      )
      expect(error).toMatchObject({ name: 'LOG_STORE_DENIED', parameters: { table: 'state' } })
      expect(error).not.toHaveProperty('cause')
      expect(String(error)).not.toContain('SECRET')
    }
  })

  it.each([
    [500, 'InternalServerError', 'boom'],
    [400, 'ProvisionedThroughputExceededException', 'throttled'],
    [400, 'ThrottlingException', 'throttled'],
  ])('a service that answers %i %s is tried again', async (status, type, reason) => {
    for (const call of calls(await answering(status, type, 'boom')))
      await expect(call()).rejects.toMatchObject({
        name: 'LOG_STORE_UNREACHABLE',
        retryable: true,
        message: expect.stringContaining(reason),
      })
  })

  it('an answer that is no answer', async () => {
    server = createServer((request, response) => {
      request.resume()
      response.end('<html>')
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    for (const call of calls(clientOf(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)))
      await expect(call()).rejects.toMatchObject({ name: 'LOG_STORE_UNREACHABLE' })
  })

  it('an endpoint where nobody listens', async () => {
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port } = closed.address() as AddressInfo // listening on TCP
    await new Promise((resolve) => closed.close(resolve))
    for (const call of calls(clientOf(`http://127.0.0.1:${port}`)))
      await expect(call()).rejects.toMatchObject({
        name: 'LOG_STORE_UNREACHABLE',
        retryable: true,
        message: expect.stringContaining('ECONNREFUSED'),
      })
  })

  it('a client without credentials', async () => {
    const client = new DynamoDBClient({
      region: 'us-east-1',
      endpoint: db.endpoint,
      credentials: async () => {
        throw Object.assign(new Error('Could not load credentials from any providers'), {
          name: 'CredentialsProviderError',
        })
      },
    })
    clients.push(client)
    for (const call of calls(client)) await expect(call()).rejects.toMatchObject({ name: 'LOG_STORE_DENIED' })
  })
})
