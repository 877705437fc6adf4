/** `sluice run` as a child process on a directory of its own, and a look into what it left there. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { dynamoMetadataLog } from '../../src/aws/metadata-log.ts'
import type { KafkaOptions } from '../../src/index.ts'
import { openEmbeddedDynamoDb } from '../../src/local/dynamodb.ts'
import type { MetadataLog } from '../../src/ports.ts'

const path = (file: string): string => new URL(`../../${file}`, import.meta.url).pathname

export interface LocalRun {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface LocalQuery {
  readonly directory: string
  readonly name?: string
  readonly table?: string
  readonly options: KafkaOptions
  readonly flags?: readonly string[]
  /** Beside the environment of this process. */
  readonly env?: Readonly<Record<string, string>>
}

export const temporaryDirectory = (): Promise<string> => mkdtemp(join(tmpdir(), 'sluice-'))
export const removeDirectory = (directory: string): Promise<void> => rm(directory, { recursive: true, force: true })

/** Runs the query to the end of its process. */
export async function runLocally({
  directory,
  name = 'query',
  table = 'table',
  options,
  flags = [],
  env = {},
}: LocalQuery): Promise<LocalRun> {
  const args = [path('src/cli.mjs'), 'run', path('test/support/queries/from-env.ts'), '--local', directory, ...flags]
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env, SLUICE_TEST_QUERY: JSON.stringify({ name, options, table }) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

/** Opens the log of a directory in which nothing runs. */
export async function withLog<T>(directory: string, query: string, look: (log: MetadataLog) => Promise<T>): Promise<T> {
  const dynamodb = await openEmbeddedDynamoDb(join(directory, 'state'))
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' }
  const client = new DynamoDBClient({ region: 'local', endpoint: dynamodb.endpoint, credentials })
  try {
    return await look(dynamoMetadataLog({ client, table: 'sluice', query, generation: 1 }))
  } finally {
    client.destroy()
    await dynamodb.close()
  }
}
