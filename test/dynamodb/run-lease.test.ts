import { GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb'
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dynamoRunLease } from '../../src/aws/run-lease.ts'
import type { RunLease } from '../../src/ports.ts'
import { injectFault, interfereBefore, startTestTable, type TestTable } from '../support/dynamodb.ts'

const going = new AbortController().signal
const ttlMs = 1000

let db: TestTable
beforeAll(async () => {
  db = await startTestTable()
})
afterAll(() => db.close())

const newQuery = (): string => `q-${randomUUID()}`
const leaseOf = (query: string, client: DynamoDBClient = db.client): RunLease =>
  dynamoRunLease({ client, table: db.table, query, generation: 1, clock: { now: () => 5000 }, ttlMs })
const leaseKey = (query: string) => ({ pk: { S: `${query}@1/run` }, sk: { S: 'lease' } })
const itemOf = async (query: string) =>
  (await db.client.send(new GetItemCommand({ TableName: db.table, Key: leaseKey(query) }))).Item

describe('lost answers', () => {
  it("B36 a first lease write whose answer was lost is known by the client's second attempt", async () => {
    const query = newQuery()
    const client = db.newClient()
    injectFault(client, { command: 'UpdateItemCommand', when: 'after', nth: 1 })
    expect(await leaseOf(query, client).acquire('run-a', going)).toEqual({ kind: 'held', token: 1, lastPass: null })
    expect(await leaseOf(query).acquire('run-b', going)).toMatchObject({ kind: 'busy', holder: 'run-a' })
  })

  it('B36 goes on with a lease that no attempt got an answer about', async () => {
    const query = newQuery()
    const client = db.newClient({ maxAttempts: 1 })
    injectFault(client, { command: 'UpdateItemCommand', when: 'after', nth: 1 })
    expect(await leaseOf(query, client).acquire('run-a', going)).toEqual({ kind: 'held', token: 1, lastPass: null })
  })

  it('B36 is busy where the other run has it, also after a lost answer', async () => {
    const query = newQuery()
    const client = db.newClient({ maxAttempts: 1 })
    injectFault(client, { command: 'UpdateItemCommand', when: 'after', nth: 1 })
    await leaseOf(query).acquire('run-a', going)
    expect(await leaseOf(query, client).acquire('run-b', going)).toMatchObject({ kind: 'busy', holder: 'run-a' })
  })

  it('raises a lease write that got no answer and did not take place', async () => {
    const client = db.newClient({ maxAttempts: 1 })
    injectFault(client, { command: 'UpdateItemCommand', when: 'before', nth: 1 })
    await expect(leaseOf(newQuery(), client).acquire('run-a', going)).rejects.toMatchObject({
      name: 'LOG_STORE_UNREACHABLE',
    })
  })

  it('repeats a renewal and a release harmlessly', async () => {
    const query = newQuery()
    await leaseOf(query).acquire('run-a', going)
    const client = db.newClient()
    injectFault(client, { command: 'UpdateItemCommand', when: 'after', nth: 1 })
    expect(await leaseOf(query, client).renew(1, going)).toBe(true)
    const another = db.newClient()
    injectFault(another, { command: 'UpdateItemCommand', when: 'after', nth: 1 })
    await leaseOf(query, another).release(1, going)
    expect(await leaseOf(query).acquire('run-b', going)).toEqual({ kind: 'held', token: 2, lastPass: null })
  })

  it('says so when a renewal or release got no answer at all', async () => {
    const query = newQuery()
    await leaseOf(query).acquire('run-a', going)
    const client = db.newClient({ maxAttempts: 1 })
    injectFault(client, { command: 'UpdateItemCommand', when: 'before' })
    await expect(leaseOf(query, client).renew(1, going)).rejects.toMatchObject({ name: 'LOG_STORE_UNREACHABLE' })
    await expect(leaseOf(query, client).passed(1, 4000, going)).rejects.toMatchObject({ name: 'LOG_STORE_UNREACHABLE' })
    await expect(leaseOf(query, client).release(1, going)).rejects.toMatchObject({ name: 'LOG_STORE_UNREACHABLE' })
  })
})

describe('the item', () => {
  it('P19 loses its holder at release and keeps its token', async () => {
    const query = newQuery()
    await leaseOf(query).acquire('run-a', going)
    expect(await itemOf(query)).toEqual({
      ...leaseKey(query),
      holder: { S: 'run-a' },
      token: { N: '1' },
      expiresAt: { N: '6000' },
    })
    await leaseOf(query).release(1, going)
    expect(await itemOf(query)).toEqual({ ...leaseKey(query), lastHolder: { S: 'run-a' }, token: { N: '1' } })
    expect(await leaseOf(query).acquire('run-b', going)).toEqual({ kind: 'held', token: 2, lastPass: null })
  })

  it('holds the last check that passed, whoever takes the lease next', async () => {
    const query = newQuery()
    await leaseOf(query).acquire('run-a', going)
    await leaseOf(query).passed(1, 4000, going)
    await leaseOf(query).release(1, going)
    const lastPass = { lastPassAt: { N: '4000' }, lastPassBy: { S: 'run-a' } }
    expect(await itemOf(query)).toEqual({
      ...leaseKey(query),
      lastHolder: { S: 'run-a' },
      token: { N: '1' },
      ...lastPass,
    })
    await leaseOf(query).acquire('run-b', going)
    expect(await itemOf(query)).toMatchObject({ holder: { S: 'run-b' }, ...lastPass })
  })

  it('names the last holder where it was released between the attempt and the look', async () => {
    const query = newQuery()
    await leaseOf(query).acquire('run-a', going)
    const client = db.newClient()
    interfereBefore(client, 'GetItemCommand', () => leaseOf(query).release(1, going))
    expect(await leaseOf(query, client).acquire('run-b', going)).toEqual({
      kind: 'busy',
      holder: 'run-a',
      expiresAt: 5000,
    })
  })

  it('refuses an item whose token is no number', async () => {
    const query = newQuery()
    const Item = { ...leaseKey(query), holder: { S: 'run-a' }, token: { S: 'x' }, expiresAt: { N: '9000' } }
    await db.client.send(new PutItemCommand({ TableName: db.table, Item }))
    await expect(leaseOf(query).acquire('run-a', going)).rejects.toMatchObject({ name: 'LOG_ENTRY_UNREADABLE' })
  })
})
