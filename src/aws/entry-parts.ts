/**
 * The parts of entries too large for one item (P6), under `<query>@<generation>/parts`, keyed `<uuid>/<k>`. The uuid is
 * new for every attempt, so two writers never touch each other's parts and need no condition.
 *
 * Parts without a head are left by a writer or a remover that died between the two. They are harmless: nothing names
 * them.
 */
import { DeleteItemCommand, PutItemCommand, QueryCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb'
import type { Item, PartsName } from './entry-body.ts'
import { PARTS_LOG, partitionKey, type LogScope } from './keys.ts'
import { callTable } from './table-call.ts'

const PART_DIGITS = 6

export interface EntryParts {
  put(name: PartsName, parts: readonly Uint8Array[], signal: AbortSignal): Promise<void>
  /** All parts in order; null where one is missing. */
  get(name: PartsName, signal: AbortSignal): Promise<readonly Uint8Array[] | null>
  remove(name: PartsName, signal: AbortSignal): Promise<void>
}

export function entryParts(client: DynamoDBClient, table: string, scope: LogScope): EntryParts {
  const pk = partitionKey(scope, PARTS_LOG)
  const step = (verb: string, name: PartsName): string => `${verb} the parts of ${pk}/${name.uuid}`
  const key = (name: PartsName, k: number): Item => ({ pk: { S: pk }, sk: { S: partKey(name, k) } })
  return {
    async put(name, parts, signal) {
      for (const [k, body] of parts.entries()) {
        const Item = { ...key(name, k), body: { B: body } }
        await callTable(table, step('Writing', name), signal, (o) =>
          client.send(new PutItemCommand({ TableName: table, Item }), o)
        )
      }
    },
    async get(name, signal) {
      const parts = new Map<string, Uint8Array>()
      let from: Item | undefined
      do {
        const page = await callTable(table, step('Reading', name), signal, (o) =>
          client.send(new QueryCommand(partsQuery(table, pk, name, from)), o)
        )
        for (const item of page.Items ?? [])
          if (item['sk']?.S && item['body']?.B) parts.set(item['sk'].S, item['body'].B)
        from = page.LastEvaluatedKey
      } while (from)
      const ordered = Array.from({ length: name.count }, (_, k) => parts.get(partKey(name, k)))
      return ordered.every((part) => part !== undefined) ? ordered : null
    },
    async remove(name, signal) {
      for (let k = 0; k < name.count; k++)
        await callTable(table, step('Removing', name), signal, (o) =>
          client.send(new DeleteItemCommand({ TableName: table, Key: key(name, k) }), o)
        )
    },
  }
}

const partKey = (name: PartsName, k: number): string => `${name.uuid}/${String(k).padStart(PART_DIGITS, '0')}`

const partsQuery = (table: string, pk: string, name: PartsName, from: Item | undefined) => ({
  TableName: table,
  ConsistentRead: true,
  KeyConditionExpression: '#pk = :pk AND begins_with(#sk, :uuid)',
  ExpressionAttributeNames: { '#pk': 'pk', '#sk': 'sk' },
  ExpressionAttributeValues: { ':pk': { S: pk }, ':uuid': { S: `${name.uuid}/` } },
  ExclusiveStartKey: from,
})
