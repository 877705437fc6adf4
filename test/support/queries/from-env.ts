/** A query whose parts a test puts into SLUICE_TEST_QUERY as JSON: `{ name, options, table }`. */
import { defineQuery, deltaTable, kafka, Trigger } from '../../../src/index.ts'
import type { KafkaOptions } from '../../../src/index.ts'

export interface TestQuery {
  readonly name: string
  readonly options: KafkaOptions
  readonly table: string
}

const { name, options, table } = JSON.parse(process.env['SLUICE_TEST_QUERY'] ?? '{}') as TestQuery

export default defineQuery({ name, source: kafka(options), sink: deltaTable(table), trigger: Trigger.availableNow() })
