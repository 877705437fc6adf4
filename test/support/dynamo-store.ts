/** A table as the conformance suites want it: every log and lease has a client of its own. */
import { dynamoMetadataLog } from '../../src/aws/metadata-log.ts'
import { dynamoRunLease } from '../../src/aws/run-lease.ts'
import type { LogStoreUnderTest } from '../conformance/metadata-log.ts'
import type { LeaseStoreUnderTest } from '../conformance/run-lease.ts'
import type { TestTable } from './dynamodb.ts'

export function dynamoStore(opened: TestTable): { logs: LogStoreUnderTest; leases: LeaseStoreUnderTest } {
  const { table } = opened
  const close = (): Promise<void> => opened.close()
  return {
    logs: {
      open: ({ generation = 1, ...options }) =>
        dynamoMetadataLog({ client: opened.newClient(), table, generation, ...options }),
      close,
    },
    leases: {
      open: (options) => dynamoRunLease({ client: opened.newClient(), table, generation: 1, ...options }),
      close,
    },
  }
}
