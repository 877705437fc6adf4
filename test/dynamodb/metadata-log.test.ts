import { DescribeTimeToLiveCommand, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb'
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { randomBytes, randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { dynamoMetadataLog } from '../../src/aws/metadata-log.ts'
import type { MetadataLog } from '../../src/ports.ts'
import { injectFault, interfereBefore, startTestTable, type TestTable } from '../support/dynamodb.ts'

const going = new AbortController().signal
const key = { log: 'offsets', id: 7 }
/** Takes about three parts. */
const largeText = (): string => randomBytes(1_150_000).toString('base64')

let db: TestTable
beforeEach(async () => {
  db = await startTestTable()
})
afterEach(() => db.close())

const newQuery = (): string => `q-${randomUUID()}`
const logOf = (query: string, client: DynamoDBClient = db.client, runId?: string): MetadataLog =>
  dynamoMetadataLog({ client, table: db.table, query, generation: 1, ...(runId === undefined ? {} : { runId }) })
const partsOf = async (query: string) => (await db.keys(query)).filter((each) => each.includes('/parts '))

describe('lost answers', () => {
  it.each(['offsets', 'commits'])(
    "B36 a first write to %s whose answer was lost is known by the client's second attempt",
    async (log) => {
      const query = newQuery()
      const client = db.newClient()
      injectFault(client, { command: 'PutItemCommand', when: 'after', nth: 1 })
      expect(await logOf(query, client).add({ log, id: 0 }, 'ours', going)).toEqual({ kind: 'added' })
      expect(await logOf(query).list(log, going)).toEqual([{ id: 0, entry: 'ours' }])
    }
  )

  it('B36 a write of another run stays the stored one, also after a lost answer', async () => {
    const query = newQuery()
    const client = db.newClient()
    injectFault(client, { command: 'PutItemCommand', when: 'after', nth: 1 })
    await logOf(query, db.client, 'run-a').add(key, 'theirs', going)
    expect(await logOf(query, client, 'run-b').add(key, 'ours', going)).toEqual({ kind: 'exists', entry: 'theirs' })
  })

  it('B36 an equal text is not ours because it is equal', async () => {
    const query = newQuery()
    await logOf(query, db.client, 'run-a').add(key, 'same', going)
    const again = await logOf(query, db.client, 'run-a').add(key, 'same', going)
    expect(again).toEqual({ kind: 'exists', entry: 'same' })
  })

  it('B36 reads back a write that no attempt got an answer to', async () => {
    const query = newQuery()
    const client = db.newClient({ maxAttempts: 2 })
    injectFault(client, { command: 'PutItemCommand', when: 'after' })
    expect(await logOf(query, client).add(key, 'ours', going)).toEqual({ kind: 'added' })
    expect(await logOf(query, client).add(key, 'other', going)).toEqual({ kind: 'exists', entry: 'ours' })
  })

  it('raises a write that got no answer and is not there', async () => {
    const query = newQuery()
    const client = db.newClient({ maxAttempts: 1 })
    injectFault(client, { command: 'PutItemCommand', when: 'before' })
    await expect(logOf(query, client).add(key, 'ours', going)).rejects.toMatchObject({
      name: 'LOG_STORE_UNREACHABLE',
      retryable: true,
      message: expect.stringContaining(`Writing ${query}@1/offsets/7`),
    })
    expect(await logOf(query).get(key, going)).toBeNull()
  })

  it('reads back after a failure it has no name for', async () => {
    const query = newQuery()
    const client = db.newClient()
    injectFault(client, { command: 'PutItemCommand', when: 'after', error: new TypeError('odd') })
    expect(await logOf(query, client).add(key, 'ours', going)).toEqual({ kind: 'added' })
    const unsent = db.newClient()
    injectFault(unsent, { command: 'PutItemCommand', when: 'before', error: new TypeError('odd') })
    await expect(logOf(query, unsent).add({ ...key, id: 8 }, 'x', going)).rejects.toThrow(TypeError)
  })

  it('P11 an entry removed between the lost race and the look is a concurrent update', async () => {
    const query = newQuery()
    const client = db.newClient()
    await logOf(query).add(key, 'theirs', going)
    interfereBefore(client, 'GetItemCommand', () => logOf(query).remove(key, going))
    await expect(logOf(query, client).add(key, 'ours', going)).rejects.toMatchObject({
      name: 'CONCURRENT_STREAM_LOG_UPDATE',
    })
  })
})

describe('large entries', () => {
  it('P6 compresses above the limit and cuts what is still too large into parts', async () => {
    const query = newQuery()
    await logOf(query).add({ log: 'offsets', id: 0 }, 'x'.repeat(389_120), going)
    await logOf(query).add({ log: 'offsets', id: 1 }, 'x'.repeat(389_121), going)
    expect(await partsOf(query)).toEqual([])
    await logOf(query).add({ log: 'offsets', id: 2 }, largeText(), going)
    expect((await partsOf(query)).length).toBeGreaterThanOrEqual(3)
    const attributes = async (id: number) => {
      const Key = { pk: { S: `${query}@1/offsets` }, sk: { S: String(id).padStart(20, '0') } }
      const { Item } = await db.client.send(new GetItemCommand({ TableName: db.table, Key }))
      return Object.keys(Item ?? {}).filter((name) => ['entry', 'gzip', 'parts'].includes(name))
    }
    expect([await attributes(0), await attributes(1), await attributes(2)]).toEqual([['entry'], ['gzip'], ['parts']])
  })

  it('P6 two planners racing with large entries never mix their parts, and losers leave none', async () => {
    for (let round = 0; round < 5; round++) {
      const query = newQuery()
      const texts = [largeText(), largeText()]
      const outcomes = await Promise.all(
        texts.map((text) => logOf(query, db.newClient()).add({ log: 'offsets', id: 1 }, text, going))
      )
      const winner = texts[outcomes.findIndex((o) => o.kind === 'added')]
      const seen = outcomes.flatMap((o) => (o.kind === 'exists' ? [o.entry === winner] : []))
      expect(seen).toEqual([true])
      expect((await logOf(query).get({ log: 'offsets', id: 1 }, going)) === winner).toBe(true)
      const uuids = new Set((await partsOf(query)).map((each) => each.split(' ')[1]?.split('/')[0]))
      expect(uuids.size).toBe(1)
    }
  })

  it('P6 knows its own large entry after a lost answer and keeps its parts', async () => {
    const query = newQuery()
    const client = db.newClient()
    const text = largeText()
    await logOf(query, client).add({ log: 'offsets', id: 0 }, text, going)
    const count = (await partsOf(query)).length
    injectFault(client, { command: 'PutItemCommand', when: 'after', nth: count + 1 }) // the head comes last
    expect(await logOf(query, client).add({ log: 'offsets', id: 1 }, text, going)).toEqual({ kind: 'added' })
    expect((await logOf(query).get({ log: 'offsets', id: 1 }, going)) === text).toBe(true)
    expect((await partsOf(query)).length).toBe(2 * count)
  })

  it('P6 parts of a writer that died before its head are no entry and disturb none', async () => {
    const query = newQuery()
    const dying = db.newClient({ maxAttempts: 1 })
    injectFault(dying, { command: 'PutItemCommand', when: 'before', nth: 4, error: new Error('killed') })
    await expect(logOf(query, dying).add(key, largeText(), going)).rejects.toThrow('killed')
    expect((await partsOf(query)).length).toBe(3)
    expect(await logOf(query).get(key, going)).toBeNull()
    expect(await logOf(query).newest('offsets', going)).toBeNull()
    const text = largeText()
    expect(await logOf(query).add(key, text, going)).toEqual({ kind: 'added' })
    expect((await logOf(query).get(key, going)) === text).toBe(true)
  })

  it('P6 removes the head first: a removal that died in between leaves no entry, and the key is free', async () => {
    const query = newQuery()
    await logOf(query).add(key, largeText(), going)
    const dying = db.newClient({ maxAttempts: 1 })
    injectFault(dying, { command: 'DeleteItemCommand', when: 'before', nth: 2, error: new Error('killed') })
    await expect(logOf(query, dying).remove(key, going)).rejects.toThrow('killed')
    expect((await db.keys(query)).filter((each) => each.includes('/offsets '))).toEqual([])
    expect(await logOf(query).get(key, going)).toBeNull()
    expect(await logOf(query).list('offsets', going)).toEqual([])
    expect(await logOf(query).add(key, 'next', going)).toEqual({ kind: 'added' })
  })

  it('P6 removes the parts with the entry', async () => {
    const query = newQuery()
    await logOf(query).add(key, largeText(), going)
    await logOf(query).remove(key, going)
    expect(await db.keys(query)).toEqual([])
  })

  it('P6 a reader whose entry is removed under it finds none', async () => {
    const query = newQuery()
    const readers = { get: db.newClient(), list: db.newClient(), add: db.newClient() }
    const removeIt = () => logOf(query).remove(key, going)
    interfereBefore(readers.get, 'QueryCommand', removeIt)
    interfereBefore(readers.list, 'QueryCommand', removeIt, 2) // the first reads the heads
    interfereBefore(readers.add, 'QueryCommand', removeIt)
    await logOf(query).add(key, largeText(), going)
    expect(await logOf(query, readers.get).get(key, going)).toBeNull()
    await logOf(query).add(key, largeText(), going)
    await logOf(query).add({ ...key, id: 9 }, 'stays', going)
    expect(await logOf(query, readers.list).list('offsets', going)).toEqual([{ id: 9, entry: 'stays' }])
    await logOf(query).add(key, largeText(), going)
    await expect(logOf(query, readers.add).add(key, 'x', going)).rejects.toMatchObject({
      name: 'CONCURRENT_STREAM_LOG_UPDATE',
    })
  })

  it('P6 a reader whose entry is replaced under it reads the new one', async () => {
    const query = newQuery()
    const next = largeText()
    const client = db.newClient()
    await logOf(query).add(key, largeText(), going)
    interfereBefore(client, 'QueryCommand', async () => {
      await logOf(query).remove(key, going)
      await logOf(query).add(key, next, going)
    })
    expect((await logOf(query, client).get(key, going)) === next).toBe(true)
  })

  it.each([
    ['missing', 'parts of it are missing', {}],
    ['other bytes', 'compressed text is damaged', { body: { B: Buffer.from('nonsense') } }],
  ])('P6 refuses an entry with a part that is %s, by name', async (_what, reason, attributes) => {
    const query = newQuery()
    await logOf(query).add(key, largeText(), going)
    const [pk = '', sk = ''] = (await partsOf(query))[0]?.split(' ') ?? []
    const Item = { pk: { S: pk }, sk: { S: sk }, ...attributes }
    await db.client.send(new PutItemCommand({ TableName: db.table, Item }))
    for (const read of [() => logOf(query).get(key, going), () => logOf(query).list('offsets', going)])
      await expect(read()).rejects.toMatchObject({
        name: 'LOG_ENTRY_UNREADABLE',
        parameters: { entry: `${query}@1/offsets/7`, reason: expect.stringContaining(reason) },
      })
  })

  it('P6 refuses parts that decompress to another text than the head names', async () => {
    const query = newQuery()
    await logOf(query).add({ log: 'offsets', id: 0 }, largeText(), going)
    await logOf(query).add({ log: 'offsets', id: 1 }, largeText(), going)
    const headOf = async (id: number) => {
      const Key = { pk: { S: `${query}@1/offsets` }, sk: { S: String(id).padStart(20, '0') } }
      return (await db.client.send(new GetItemCommand({ TableName: db.table, Key }))).Item ?? {}
    }
    const [mine, other] = [await headOf(0), await headOf(1)]
    const Item = { ...mine, parts: other['parts'] ?? { S: '' }, partCount: other['partCount'] ?? { N: '0' } }
    await db.client.send(new PutItemCommand({ TableName: db.table, Item }))
    await expect(logOf(query).get({ log: 'offsets', id: 0 }, going)).rejects.toMatchObject({
      name: 'LOG_ENTRY_UNREADABLE',
      message: expect.stringContaining('does not match its digest'),
    })
  })
})

describe('what stands in the table', () => {
  it('P8 no entry of any log expires: the table has no time to live, the items no attribute for one', async () => {
    const query = newQuery()
    const log = logOf(query, db.client, 'run-a')
    for (const name of ['meta', 'offsets', 'commits', 'reports/0']) await log.add({ log: name, id: 0 }, 'text', going)
    const ttl = await db.client.send(new DescribeTimeToLiveCommand({ TableName: db.table }))
    expect(ttl.TimeToLiveDescription?.TimeToLiveStatus).toBe('DISABLED')
    const items = await db.items(query)
    expect(items).toHaveLength(4)
    for (const item of items)
      expect(Object.keys(item).toSorted()).toEqual(['created', 'createdAt', 'entry', 'pk', 'runId', 'sk', 'token'])
  })

  it('keys stand as protocol.md has them', async () => {
    const query = newQuery()
    await logOf(query).add({ log: 'reports/7', id: 12 }, 'text', going)
    await logOf(query).add({ log: 'runs', id: 'run-a/end' }, 'text', going)
    expect(await db.keys(query)).toEqual([`${query}@1/reports/7 00000000000000000012`, `${query}@1/runs run-a/end`])
  })

  it('refuses an item that holds no text', async () => {
    const query = newQuery()
    const Item = { pk: { S: `${query}@1/offsets` }, sk: { S: '00000000000000000007' } }
    await db.client.send(new PutItemCommand({ TableName: db.table, Item }))
    await expect(logOf(query).get(key, going)).rejects.toMatchObject({ name: 'LOG_ENTRY_UNREADABLE' })
    expect(await logOf(query).idsUpTo('offsets', 9, 0, going)).toEqual([])
  })

  it.each(['', 'a@1', 'a/b'])("refuses the query name '%s', whose keys could be another query's", async (query) => {
    await expect(async () => logOf(query).get(key, going)).rejects.toMatchObject({ name: 'QUERY_INVALID' })
  })

  it.each([-1, 0.5, Number.MAX_SAFE_INTEGER + 1, '', '00000000000000000007'])('refuses the id %j', async (id) => {
    await expect(logOf(newQuery()).add({ log: 'offsets', id }, 'text', going)).rejects.toThrow(RangeError)
  })
})

describe('the abort signal', () => {
  it('P20 ends a call under way, and nothing is put afterwards', async () => {
    const query = newQuery()
    const client = db.newClient()
    const abort = new AbortController()
    interfereBefore(client, 'PutItemCommand', async () => abort.abort())
    await expect(logOf(query, client).add(key, largeText(), abort.signal)).rejects.toMatchObject({
      name: 'ABORTED',
      message: expect.stringContaining(query),
    })
    expect(await db.keys(query)).toEqual([])
  })

  it('does not start a put between parts and head', async () => {
    const query = newQuery()
    const client = db.newClient()
    const abort = new AbortController()
    let puts = 0
    client.middlewareStack.add(
      (next) => async (args) => {
        const answer = await next(args)
        if (++puts === 3) abort.abort()
        return answer
      },
      { step: 'deserialize', priority: 'high' }
    )
    const adding = logOf(query, client).add(key, largeText(), abort.signal)
    await expect(adding).rejects.toMatchObject({ name: 'ABORTED' })
    expect(await logOf(query).get(key, going)).toBeNull()
  })
})
