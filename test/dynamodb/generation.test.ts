import { PutItemCommand } from '@aws-sdk/client-dynamodb'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { currentGeneration, openNextGeneration, readGeneration } from '../../src/aws/generation.ts'
import { injectFault, startTestTable, type TestTable } from '../support/dynamodb.ts'

const going = new AbortController().signal

let db: TestTable
beforeAll(async () => {
  db = await startTestTable()
})
afterAll(() => db.close())

const fresh = () => ({ client: db.client, table: db.table, query: `q-${randomUUID()}` })

describe('the generation of a query', () => {
  it('is 1 from its first run on, and is not made by looking', async () => {
    const query = fresh()
    expect(await readGeneration(query, going)).toBeNull()
    expect(await readGeneration(query, going)).toBeNull()
    expect(await currentGeneration(query, going)).toBe(1)
    expect(await currentGeneration(query, going)).toBe(1)
    expect(await readGeneration(query, going)).toBe(1)
    expect(await db.keys(query.query)).toEqual([`${query.query} generation`])
  })

  it('is one for racing first runs', async () => {
    const query = fresh()
    const seen = await Promise.all(Array.from({ length: 10 }, () => currentGeneration(query, going)))
    expect(new Set(seen)).toEqual(new Set([1]))
  })

  it('rises by one, however many open the next at once', async () => {
    const query = fresh()
    await currentGeneration(query, going)
    const seen = await Promise.all(Array.from({ length: 5 }, () => openNextGeneration(query, 1, going)))
    expect(seen).toEqual([2, 2, 2, 2, 2])
    expect(await openNextGeneration(query, 2, going)).toBe(3)
    expect(await openNextGeneration(query, 1, going)).toBe(3)
    expect(await currentGeneration(query, going)).toBe(3)
  })

  it('does not open a next one where there is none yet, or from a later one', async () => {
    const query = fresh()
    await expect(openNextGeneration(query, 1, going)).rejects.toMatchObject({ name: 'LOG_ENTRY_MISSING' })
    await currentGeneration(query, going)
    await expect(openNextGeneration(query, 4, going)).rejects.toMatchObject({ name: 'LOG_ENTRY_MISSING' })
    expect(await readGeneration(query, going)).toBe(1)
  })

  it.each(['PutItemCommand', 'UpdateItemCommand'])('is known after a lost answer to %s', async (command) => {
    const query = fresh()
    const client = db.newClient()
    injectFault(client, { command, when: 'after', nth: 1 })
    expect(await currentGeneration({ ...query, client }, going)).toBe(1)
    expect(await openNextGeneration({ ...query, client }, 1, going)).toBe(2)
  })

  it('raises a first run whose write got no answer and is not there', async () => {
    const client = db.newClient({ maxAttempts: 1 })
    injectFault(client, { command: 'PutItemCommand', when: 'before' })
    await expect(currentGeneration({ ...fresh(), client }, going)).rejects.toMatchObject({
      name: 'LOG_STORE_UNREACHABLE',
    })
  })

  it('refuses an item that names none', async () => {
    const query = fresh()
    const Item = { pk: { S: query.query }, sk: { S: 'generation' }, generation: { N: '0' } }
    await db.client.send(new PutItemCommand({ TableName: db.table, Item }))
    await expect(currentGeneration(query, going)).rejects.toMatchObject({ name: 'LOG_ENTRY_UNREADABLE' })
  })

  it('does nothing once the signal has fired', async () => {
    const query = fresh()
    const fired = AbortSignal.abort()
    await expect(currentGeneration(query, fired)).rejects.toMatchObject({ name: 'ABORTED' })
    await expect(openNextGeneration(query, 1, fired)).rejects.toMatchObject({ name: 'ABORTED' })
    expect(await db.keys(query.query)).toEqual([])
  })
})
