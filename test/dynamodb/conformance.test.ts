import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEmbeddedDynamoDb } from '../../src/local/dynamodb.ts'
import { metadataLogConformance } from '../conformance/metadata-log.ts'
import { runLeaseConformance } from '../conformance/run-lease.ts'
import { dynamoStore } from '../support/dynamo-store.ts'
import { openTestTable, startTestTable, type TestTable } from '../support/dynamodb.ts'
import { memoryLease, memoryLeaseStore, type MemoryLeaseStore } from '../support/memory-lease.ts'
import { memoryLog, memoryLogStore } from '../support/memory-log.ts'

metadataLogConformance('memory', async () => {
  const store = memoryLogStore()
  return { open: (options) => memoryLog({ store, ...options }), close: async () => {} }
})

runLeaseConformance('memory', async () => {
  const stores = new Map<string, MemoryLeaseStore>()
  return {
    open({ query, ...options }) {
      const store = stores.get(query) ?? memoryLeaseStore()
      stores.set(query, store)
      return memoryLease({ store, ...options })
    },
    close: async () => {},
  }
})

async function onDisk(): Promise<TestTable> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-dynamodb-'))
  const db = await openEmbeddedDynamoDb(directory)
  const opened = await openTestTable(db.endpoint)
  return {
    ...opened,
    async close() {
      await opened.close()
      await db.close()
      await rm(directory, { recursive: true })
    },
  }
}

for (const [name, open] of [
  ['DynamoDB in memory', startTestTable],
  ['DynamoDB in a directory', onDisk],
] as const) {
  metadataLogConformance(name, async () => dynamoStore(await open()).logs)
  runLeaseConformance(name, async () => dynamoStore(await open()).leases)
}
