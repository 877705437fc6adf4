/** The logs of a query as they stand in a state table: for tests, which read them past the project's own code. */
import { QueryCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb'
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb'

export interface QueryLog {
  /** Sort keys of a log, as `offsets` or `reports/3`. */
  entries(log: string): Promise<readonly string[]>
  /** The newest batch in `offsets` or `commits`; null for none. */
  newest(log: 'offsets' | 'commits'): Promise<number | null>
  /** Who holds the lease; null for nobody. */
  holder(): Promise<string | null>
  /** How often the lease changed hands. */
  token(): Promise<number>
  /** As if its time had passed. */
  expireLease(): Promise<void>
}

export function queryLog(client: DynamoDBClient, table: string, query: string): QueryLog {
  const items = async (log: string) => {
    const { Items } = await client.send(
      new QueryCommand({
        TableName: table,
        ConsistentRead: true,
        KeyConditionExpression: 'pk = :pk',
        ExpressionAttributeValues: { ':pk': { S: `${query}@1/${log}` } },
      })
    )
    return Items ?? []
  }
  const lease = async () => (await items('run')).find(({ sk }) => sk?.S === 'lease')
  const entries = async (log: string) => (await items(log)).map(({ sk }) => sk?.S ?? '')
  return {
    entries,
    newest: async (log) => (await entries(log)).map(Number).at(-1) ?? null,
    holder: async () => (await lease())?.['holder']?.S ?? null,
    token: async () => Number((await lease())?.['token']?.N),
    async expireLease() {
      await client.send(
        new UpdateItemCommand({
          TableName: table,
          Key: { pk: { S: `${query}@1/run` }, sk: { S: 'lease' } },
          UpdateExpression: 'SET expiresAt = :past',
          ConditionExpression: 'attribute_exists(holder)',
          ExpressionAttributeValues: { ':past': { N: '1' } },
        })
      )
    },
  }
}
