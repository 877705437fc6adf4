/**
 * A process of its own that works in a directory, for tests that kill it. `node directory-child.ts MODE DIR`, where
 * MODE is
 * - `write`: opens the embedded DynamoDB, adds entries 0, 1, 2, ... and prints each id once it is acknowledged;
 * - `hold`: opens it and prints `open`;
 * - `lock`: prints `ready`, waits for a line on stdin, then prints `held`, or the error's name and message.
 *
 * It ends with its stdin, so never outlives the test.
 */
import { once } from 'node:events'
import { dynamoMetadataLog } from '../../src/aws/metadata-log.ts'
import { ensureTable } from '../../src/aws/table.ts'
import { isSluiceError } from '../../src/errors.ts'
import { lockDirectory } from '../../src/local/directory-lock.ts'
import { openEmbeddedDynamoDb } from '../../src/local/dynamodb.ts'
import { dynamoDbClient } from './dynamodb.ts'

const [mode, directory = ''] = process.argv.slice(2)
const going = new AbortController().signal
const started = once(process.stdin, 'data')
process.stdin.on('end', () => process.exit(0))

if (mode === 'lock') {
  console.log('ready')
  await started
  try {
    await lockDirectory(directory)
    console.log('held')
  } catch (e) {
    console.log(isSluiceError(e) ? `${e.name}: ${e.message}` : String(e))
  }
} else {
  const { endpoint } = await openEmbeddedDynamoDb(directory)
  console.log('open')
  if (mode === 'write') {
    const client = dynamoDbClient(endpoint)
    await ensureTable(client, 'state', going)
    const log = dynamoMetadataLog({ client, table: 'state', query: 'orders', generation: 1 })
    for (let id = 0; ; id++) {
      await log.add({ log: 'offsets', id }, `batch ${id}`, going)
      console.log(id)
    }
  }
}
