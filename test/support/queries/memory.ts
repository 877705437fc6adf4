/** A query into memory, whose parts a test puts into SLUICE_TEST_QUERY as JSON: `{ name, options }`. */
import { defineQuery, kafka, Trigger } from '../../../src/index.ts'
import { memorySink, memoryTable } from '../memory-sink.ts'
import type { TestQuery } from './from-env.ts'

const { name, options } = JSON.parse(process.env['SLUICE_TEST_QUERY'] ?? '{}') as Omit<TestQuery, 'table'>

export default defineQuery({
  name,
  source: kafka(options),
  sink: { description: 'memory', open: () => memorySink(memoryTable()) },
  trigger: Trigger.availableNow(),
})
