/**
 * The logs of one query in one generation, on a DynamoDB table. An entry is one item, created by a conditional put and
 * never overwritten; no attribute makes it expire (P8). Every read is consistent.
 *
 * A put carries a token of its own. After a failed condition the stored item is read: with our token it is our own
 * write, whose answer was lost and which the client repeated (B36); else the stored entry is what counts (P11).
 */
import {
  DeleteItemCommand,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  type DynamoDBClient,
  type QueryCommandInput,
} from '@aws-sdk/client-dynamodb'
import { randomUUID } from 'node:crypto'
import { SluiceError } from '../errors.ts'
import type { AddOutcome, Clock, EntryKey, MetadataLog } from '../ports.ts'
import { decodeBody, encodeBody, partsOf, type EntryBody, type Item } from './entry-body.ts'
import { entryParts } from './entry-parts.ts'
import { idOf, isNumericKey, itemKey, nameInTable, partitionKey, sortKey, type LogScope } from './keys.ts'
import { callTable, isConditionFailed, isOutcomeUnknown } from './table-call.ts'

export interface DynamoLogOptions extends LogScope {
  readonly client: DynamoDBClient
  readonly table: string
  /** Written into the items for people who read the table; decides nothing (P11). */
  readonly runId?: string
  /** For the entries' times; the system's by default. */
  readonly clock?: Clock
}

/**
 * @throws from every call: ABORTED, LOG_TABLE_MISSING, LOG_STORE_DENIED, LOG_TABLE_UNUSABLE, LOG_STORE_UNREACHABLE;
 * from reading: LOG_ENTRY_UNREADABLE.
 */
export function dynamoMetadataLog(options: DynamoLogOptions): MetadataLog {
  const items = entryItems(options)
  return {
    add: (key, entry, signal) => addEntry(items, key, entry, signal),
    async get(key, signal) {
      const head = await items.head(key, signal)
      return head === null ? null : await items.text(key, head, signal)
    },
    async newest(log, signal) {
      for await (const item of items.query(log, newestFirst, signal)) {
        const sk = item['sk']?.S ?? ''
        if (isNumericKey(sk)) return Number(sk)
      }
      return null
    },
    async list(log, signal) {
      const entries: { id: number | string; entry: string }[] = []
      for await (const item of items.query(log, {}, signal)) {
        const id = idOf(item['sk']?.S ?? '')
        const entry = await items.text({ log, id }, item, signal)
        if (entry !== null) entries.push({ id, entry })
      }
      return entries
    },
    async idsUpTo(log, upTo, minAgeMs, signal) {
      const ids: number[] = []
      if (upTo < 0) return ids
      const newestMs = items.now() - minAgeMs
      for await (const item of items.query(log, numbersUpTo(upTo), signal)) {
        const sk = item['sk']?.S ?? ''
        if (isNumericKey(sk) && Number(item['createdAt']?.N) <= newestMs) ids.push(Number(sk))
      }
      return ids
    },
    remove: (key, signal) => items.remove(key, signal),
  }
}

type EntryItems = ReturnType<typeof entryItems>

async function addEntry(items: EntryItems, key: EntryKey, entry: string, signal: AbortSignal): Promise<AddOutcome> {
  const token = randomUUID()
  const body = await encodeBody(entry)
  if (body.name) await items.parts.put(body.name, body.parts, signal)
  const failure = await failureOf(items.putHead(key, body, token, signal))
  if (failure === null) return { kind: 'added' }
  if (!isConditionFailed(failure) && !isOutcomeUnknown(failure)) throw failure
  const stored = await items.head(key, signal)
  if (stored?.['token']?.S === token) return { kind: 'added' }
  // A put that got no answer may still arrive: its parts stay where it would find them.
  if (stored === null && !isConditionFailed(failure)) throw failure
  const text = stored === null ? null : await items.text(key, stored, signal)
  if (stored === null || text === null)
    throw new SluiceError(
      'CONCURRENT_STREAM_LOG_UPDATE',
      { entry: items.nameOf(key), holder: stored?.['runId']?.S ?? 'unknown, and then removed' },
      failure
    )
  // Left behind, they are harmless; what the put came to is decided.
  if (body.name) await items.parts.remove(body.name, signal).catch(() => {})
  return { kind: 'exists', entry: text }
}

const failureOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => null,
    (e: unknown) => e
  )

const newestFirst = { ScanIndexForward: false, Limit: 1, ProjectionExpression: '#sk' } as const

const numbersUpTo = (upTo: number) => ({
  KeyConditionExpression: '#pk = :pk AND #sk BETWEEN :first AND :last',
  ExpressionAttributeValues: {
    ':first': { S: sortKey(0) },
    ':last': { S: sortKey(Math.min(Math.floor(upTo), Number.MAX_SAFE_INTEGER)) },
  },
  ProjectionExpression: '#sk, createdAt',
})

/** The items behind the entries: heads and their parts. */
function entryItems({ client, table, query, generation, runId, clock }: DynamoLogOptions) {
  const scope = { query, generation }
  const parts = entryParts(client, table, scope)
  const now = (): number => (clock ?? Date).now()
  const nameOf = (key: EntryKey): string => nameInTable(scope, key)
  const keyOf = ({ log, id }: EntryKey): Item => {
    const { pk, sk } = itemKey(scope, { log, id })
    return { pk: { S: pk }, sk: { S: sk } }
  }

  async function head(key: EntryKey, signal: AbortSignal): Promise<Item | null> {
    const command = new GetItemCommand({ TableName: table, Key: keyOf(key), ConsistentRead: true })
    const { Item } = await callTable(table, `Reading ${nameOf(key)}`, signal, (o) => client.send(command, o))
    return Item ?? null
  }

  /** Null: the entry was removed while its parts were being read. */
  async function text(key: EntryKey, item: Item, signal: AbortSignal): Promise<string | null> {
    const name = partsOf(item)
    const bodies = name === null ? [] : await parts.get(name, signal)
    if (bodies !== null) return decodeBody(nameOf(key), item, bodies)
    const again = await head(key, signal)
    if (again === null) return null
    if (partsOf(again)?.uuid !== name?.uuid) return text(key, again, signal)
    throw new SluiceError('LOG_ENTRY_UNREADABLE', { entry: nameOf(key), reason: 'parts of it are missing' })
  }

  async function putHead(key: EntryKey, body: EntryBody, token: string, signal: AbortSignal): Promise<void> {
    const createdAt = now()
    const facts: Item = {
      token: { S: token },
      createdAt: { N: String(createdAt) },
      created: { S: new Date(createdAt).toISOString() },
      ...(runId === undefined ? {} : { runId: { S: runId } }),
    }
    const command = new PutItemCommand({
      TableName: table,
      Item: { ...keyOf(key), ...body.attributes, ...facts },
      ConditionExpression: 'attribute_not_exists(pk)',
    })
    await callTable(table, `Writing ${nameOf(key)}`, signal, (o) => client.send(command, o))
  }

  async function* items(log: string, how: Partial<QueryCommandInput>, signal: AbortSignal): AsyncGenerator<Item> {
    const pk = partitionKey(scope, log)
    let from: Item | undefined
    do {
      const command = new QueryCommand(logQuery(table, pk, how, from))
      const page = await callTable(table, `Reading ${pk}`, signal, (o) => client.send(command, o))
      yield* page.Items ?? []
      from = page.LastEvaluatedKey
    } while (from)
  }

  /** The head goes first: a reader never meets a head without its parts, save one who already holds that head. */
  async function remove(key: EntryKey, signal: AbortSignal): Promise<void> {
    const command = new DeleteItemCommand({ TableName: table, Key: keyOf(key), ReturnValues: 'ALL_OLD' })
    const { Attributes } = await callTable(table, `Removing ${nameOf(key)}`, signal, (o) => client.send(command, o))
    const name = Attributes ? partsOf(Attributes) : null
    if (name) await parts.remove(name, signal)
  }

  return { parts, now, nameOf, head, text, putHead, query: items, remove }
}

const logQuery = (table: string, pk: string, how: Partial<QueryCommandInput>, from: Item | undefined) =>
  ({
    TableName: table,
    ConsistentRead: true,
    KeyConditionExpression: '#pk = :pk',
    ExclusiveStartKey: from,
    ...how,
    ExpressionAttributeNames: { '#pk': 'pk', ...(usesSortKey(how) ? { '#sk': 'sk' } : {}) },
    ExpressionAttributeValues: { ':pk': { S: pk }, ...how.ExpressionAttributeValues },
  }) satisfies QueryCommandInput

const usesSortKey = (how: Partial<QueryCommandInput>): boolean => how.ProjectionExpression !== undefined
