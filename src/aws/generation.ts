/**
 * The item that names a query's current generation. A generation is one set of logs; `reset` closes the old one and
 * opens the next (P21), and from then on no key of the old one is written.
 */
import { GetItemCommand, PutItemCommand, UpdateItemCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { SluiceError } from '../errors.ts'
import { queryKey } from './keys.ts'
import { callTable, isConditionFailed, isOutcomeUnknown } from './table-call.ts'

export interface GenerationOptions {
  readonly client: DynamoDBClient
  readonly table: string
  readonly query: string
}

const SORT = 'generation'
const keyOf = (query: string) => ({ pk: { S: queryKey(query) }, sk: { S: SORT } })

/** The current generation, from 1; null for a query that has never run. Writes nothing. */
export async function readGeneration(options: GenerationOptions, signal: AbortSignal): Promise<number | null> {
  const { client, table, query } = options
  const command = new GetItemCommand({ TableName: table, Key: keyOf(query), ConsistentRead: true })
  const step = `Reading the generation of query ${query}`
  const { Item } = await callTable(table, step, signal, (o) => client.send(command, o))
  if (!Item) return null
  const generation = Number(Item['generation']?.N)
  if (Number.isSafeInteger(generation) && generation > 0) return generation
  throw new SluiceError('LOG_ENTRY_UNREADABLE', { entry: `${query}/${SORT}`, reason: 'it names no generation' })
}

/** The current generation; a query that has never run gets its first. */
export async function currentGeneration(options: GenerationOptions, signal: AbortSignal): Promise<number> {
  const current = await readGeneration(options, signal)
  if (current !== null) return current
  const { client, table, query } = options
  const command = new PutItemCommand({
    TableName: table,
    Item: { ...keyOf(query), generation: { N: '1' } },
    ConditionExpression: 'attribute_not_exists(pk)',
  })
  try {
    await callTable(table, `Opening generation 1 of query ${query}`, signal, (o) => client.send(command, o))
    return 1
  } catch (e) {
    return await readAfter(e, options, signal)
  }
}

/**
 * Opens the generation after `from` and answers the one that is current then: `from + 1`, or a later one where others
 * went on. Repeating it is harmless. The caller has closed the log of `from` before (P21).
 * @throws LOG_ENTRY_MISSING where `from` is not open yet
 */
export async function openNextGeneration(
  options: GenerationOptions,
  from: number,
  signal: AbortSignal
): Promise<number> {
  const { client, table, query } = options
  const command = new UpdateItemCommand({
    TableName: table,
    Key: keyOf(query),
    UpdateExpression: 'SET generation = :next',
    ConditionExpression: 'generation = :from',
    ExpressionAttributeValues: { ':from': { N: String(from) }, ':next': { N: String(from + 1) } },
  })
  try {
    await callTable(table, `Opening generation ${from + 1} of query ${query}`, signal, (o) => client.send(command, o))
    return from + 1
  } catch (e) {
    const current = await readAfter(e, options, signal)
    if (current > from) return current
    throw isConditionFailed(e) ? notThere(query, `it names ${current}, not ${from}`) : e
  }
}

/** What is stored after a write that failed its condition or got no answer: it may be our own. */
async function readAfter(failure: unknown, options: GenerationOptions, signal: AbortSignal): Promise<number> {
  if (!isConditionFailed(failure) && !isOutcomeUnknown(failure)) throw failure
  const stored = await readGeneration(options, signal)
  if (stored !== null) return stored
  throw isConditionFailed(failure) ? notThere(options.query, 'the query has no generation') : failure
}

const notThere = (query: string, because: string) =>
  new SluiceError('LOG_ENTRY_MISSING', { entry: `${query}/${SORT}`, because })
