/**
 * The lease of a query's runs: one item, its holder's run id, an expiry, and a token that rises with every new holder
 * (P19). It keeps two runs from doing the same work; correctness never depends on it, so clocks that differ do no harm.
 *
 * Releasing removes the holder and keeps the token, so that no later holder meets an old one's number, and the last check of
 * minOffsetsPerTrigger that passed.
 */
import {
  GetItemCommand,
  UpdateItemCommand,
  type DynamoDBClient,
  type UpdateItemCommandInput,
} from '@aws-sdk/client-dynamodb'
import { SluiceError } from '../errors.ts'
import type { Clock, LastPass, LeaseOutcome, RunLease } from '../ports.ts'
import type { Item } from './entry-body.ts'
import { itemKey, nameInTable, type LogScope } from './keys.ts'
import { callTable, isConditionFailed, isOutcomeUnknown } from './table-call.ts'

export interface DynamoLeaseOptions extends LogScope {
  readonly client: DynamoDBClient
  readonly table: string
  readonly clock: Clock
  /** How long the lease lasts without renewal: the longest function time-out and a minute. */
  readonly ttlMs: number
}

const leaseKey = { log: 'run', id: 'lease' } as const

/** @throws ABORTED, LOG_TABLE_MISSING, LOG_STORE_DENIED, LOG_TABLE_UNUSABLE, LOG_STORE_UNREACHABLE */
export function dynamoRunLease(options: DynamoLeaseOptions): RunLease {
  const item = leaseItem(options)
  return {
    acquire: (runId, signal) => acquire(item, runId, signal),
    async renew(token, signal) {
      const outcome = await item.update('Renewing', renewal(token, item.expiry()), signal)
      if (outcome.kind === 'unknown') throw outcome.failure
      return outcome.kind === 'updated'
    },
    async passed(token, atMs, signal) {
      const outcome = await item.update('Noting a check in', passing(token, atMs), signal)
      if (outcome.kind === 'unknown') throw outcome.failure
    },
    async release(token, signal) {
      const outcome = await item.update('Releasing', releaseOf(token), signal)
      if (outcome.kind === 'unknown') throw outcome.failure
    },
  }
}

type LeaseItem = ReturnType<typeof leaseItem>

/**
 * Takes the lease from nobody or from a run that let it expire; failing that, goes on with it where this run holds it,
 * which is also how a run finds a first write whose answer was lost (B36).
 */
async function acquire(item: LeaseItem, runId: string, signal: AbortSignal): Promise<LeaseOutcome> {
  const taken = await item.update('Taking', taking(runId, item.now(), item.expiry()), signal)
  if (taken.kind === 'updated') return heldBy(taken.item)
  const kept = await item.update('Keeping', keeping(runId, item.expiry()), signal)
  if (kept.kind === 'updated') return heldBy(kept.item)
  if (kept.kind === 'unknown') throw kept.failure
  const stored = await item.read(signal)
  const holder = stored?.['holder']?.S
  if (holder === undefined && taken.kind === 'unknown') throw taken.failure
  // Released since the attempt: whoever had it was working until now.
  return {
    kind: 'busy',
    holder: holder ?? stored?.['lastHolder']?.S ?? 'unknown',
    expiresAt: Number(stored?.['expiresAt']?.N ?? item.now()),
  }
}

type Change = Pick<UpdateItemCommandInput, 'UpdateExpression' | 'ConditionExpression'> & {
  readonly values: Item
}

const taking = (runId: string, now: number, expiresAt: number): Change => ({
  UpdateExpression: 'SET #holder = :run, #expiresAt = :expiresAt ADD #token :one',
  ConditionExpression: 'attribute_not_exists(#holder) OR (#expiresAt <= :now AND #holder <> :run)',
  values: { ':run': { S: runId }, ':now': number(now), ':expiresAt': number(expiresAt), ':one': number(1) },
})

const keeping = (runId: string, expiresAt: number): Change => ({
  UpdateExpression: 'SET #expiresAt = :expiresAt',
  ConditionExpression: '#holder = :run',
  values: { ':run': { S: runId }, ':expiresAt': number(expiresAt) },
})

const renewal = (token: number, expiresAt: number): Change => ({
  UpdateExpression: 'SET #expiresAt = :expiresAt',
  ConditionExpression: '#token = :token AND attribute_exists(#holder)',
  values: { ':token': number(token), ':expiresAt': number(expiresAt) },
})

const passing = (token: number, atMs: number): Change => ({
  UpdateExpression: 'SET #lastPassAt = :at, #lastPassBy = #holder',
  ConditionExpression: '#token = :token AND attribute_exists(#holder)',
  values: { ':token': number(token), ':at': number(atMs) },
})

const releaseOf = (token: number): Change => ({
  UpdateExpression: 'SET #lastHolder = #holder REMOVE #holder, #expiresAt',
  ConditionExpression: '#token = :token AND attribute_exists(#holder)',
  values: { ':token': number(token) },
})

const number = (n: number) => ({ N: String(n) })

const heldBy = (item: Item): LeaseOutcome => ({ kind: 'held', token: tokenOf(item), lastPass: lastPassOf(item) })

function lastPassOf(item: Item): LastPass | null {
  const [at, runId] = [item['lastPassAt']?.N, item['lastPassBy']?.S]
  return at === undefined || runId === undefined ? null : { atMs: Number(at), runId }
}

function tokenOf(item: Item): number {
  const token = Number(item['token']?.N)
  if (Number.isSafeInteger(token)) return token
  throw new SluiceError('LOG_ENTRY_UNREADABLE', { entry: `${item['pk']?.S}/lease`, reason: 'its token is no number' })
}

type Updated =
  | { readonly kind: 'updated'; readonly item: Item }
  | { readonly kind: 'refused' }
  /** No answer came: the change may have taken place. */
  | { readonly kind: 'unknown'; readonly failure: unknown }

function leaseItem({ client, table, query, generation, clock, ttlMs }: DynamoLeaseOptions) {
  const scope = { query, generation }
  const { pk, sk } = itemKey(scope, leaseKey)
  const Key = { pk: { S: pk }, sk: { S: sk } }
  const name = nameInTable(scope, leaseKey)

  async function update(verb: string, { values, ...change }: Change, signal: AbortSignal): Promise<Updated> {
    const command = new UpdateItemCommand({
      TableName: table,
      Key,
      ...change,
      ExpressionAttributeNames: namesIn(change),
      ExpressionAttributeValues: values,
      ReturnValues: 'ALL_NEW',
    })
    try {
      const { Attributes } = await callTable(table, `${verb} ${name}`, signal, (o) => client.send(command, o))
      return { kind: 'updated', item: Attributes ?? {} }
    } catch (e) {
      if (isConditionFailed(e)) return { kind: 'refused' }
      if (isOutcomeUnknown(e)) return { kind: 'unknown', failure: e }
      throw e
    }
  }

  async function read(signal: AbortSignal): Promise<Item | undefined> {
    const command = new GetItemCommand({ TableName: table, Key, ConsistentRead: true })
    return (await callTable(table, `Reading ${name}`, signal, (o) => client.send(command, o))).Item
  }

  return { update, read, now: () => clock.now(), expiry: () => clock.now() + ttlMs }
}

/** `#name` for each attribute that the expressions use: some, as `token`, are reserved words. */
const namesIn = (change: Omit<Change, 'values'>): Record<string, string> =>
  Object.fromEntries(
    [...`${change.UpdateExpression} ${change.ConditionExpression}`.matchAll(/#(\w+)/g)].map(([placeholder, name]) => [
      placeholder,
      name ?? '',
    ])
  )
