/** The state table: one table of string keys for the logs of any number of queries, without expiry (P8). */
import {
  CreateTableCommand,
  DescribeTableCommand,
  type CreateTableCommandInput,
  type DynamoDBClient,
} from '@aws-sdk/client-dynamodb'
import { setTimeout as delay } from 'node:timers/promises'
import { SluiceError } from '../errors.ts'
import { PARTITION_KEY, SORT_KEY } from './keys.ts'
import { callTable } from './table-call.ts'

const POLL_MS = 50
const POLLS = 1200

/** What a table must be to hold the logs. */
export const stateTableDefinition = (table: string) =>
  ({
    TableName: table,
    BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: [
      { AttributeName: PARTITION_KEY, AttributeType: 'S' },
      { AttributeName: SORT_KEY, AttributeType: 'S' },
    ],
    KeySchema: [
      { AttributeName: PARTITION_KEY, KeyType: 'HASH' },
      { AttributeName: SORT_KEY, KeyType: 'RANGE' },
    ],
  }) satisfies CreateTableCommandInput

/**
 * Creates the table if it does not exist and waits until it takes requests: for the embedded store and tests. In an
 * account the stack creates it.
 * @throws LOG_TABLE_UNUSABLE for a table with other keys, or one that is still not active after a minute.
 */
export async function ensureTable(client: DynamoDBClient, table: string, signal: AbortSignal): Promise<void> {
  await createIfAbsent(client, table, signal)
  const step = `Waiting for table ${table}`
  let status = 'unknown'
  for (let poll = 0; poll < POLLS; poll++) {
    const { Table } = await callTable(table, step, signal, (o) =>
      client.send(new DescribeTableCommand({ TableName: table }), o)
    )
    status = Table?.TableStatus ?? status
    if (status === 'ACTIVE') return assertKeys(table, step, Table?.KeySchema)
    await delay(POLL_MS)
  }
  throw new SluiceError('LOG_TABLE_UNUSABLE', { table, step, reason: `its status stays ${status}` })
}

async function createIfAbsent(client: DynamoDBClient, table: string, signal: AbortSignal): Promise<void> {
  try {
    await callTable(table, `Creating table ${table}`, signal, (o) =>
      client.send(new CreateTableCommand(stateTableDefinition(table)), o)
    )
  } catch (e) {
    if (!isInUse(e)) throw e
  }
}

/** A racing or earlier creation: the table is there. */
const isInUse = (e: unknown): boolean =>
  e instanceof Error && e.cause instanceof Error && e.cause.name === 'ResourceInUseException'

function assertKeys(
  table: string,
  step: string,
  schema: readonly { AttributeName?: string | undefined; KeyType?: string | undefined }[] | undefined
): void {
  const keys = (schema ?? []).map((key) => `${key.AttributeName} ${key.KeyType}`).join(', ')
  const wanted = `${PARTITION_KEY} HASH, ${SORT_KEY} RANGE`
  if (keys !== wanted) throw new SluiceError('LOG_TABLE_UNUSABLE', { table, step, reason: `its keys are ${keys}` })
}
