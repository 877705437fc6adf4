/** A query that reads its topic in many ranges, so that one execution cannot hold them all. */
import { defineQuery, deltaTable, kafka, t, Trigger } from '../../../src/index.ts'

export default defineQuery({
  name: 'wide',
  trigger: Trigger.processingTime('365 days'),
  source: kafka({
    'kafka.bootstrap.servers': '{{env:BROKERS}}',
    subscribe: '{{env:TOPIC}}',
    startingOffsets: 'earliest',
    minPartitions: '{{env:RANGES}}',
  }),
  schema: { partition: t.int.notNull(), offset: t.long.notNull() },
  map: ({ partition, offset }) => ({ partition, offset }),
  sink: deltaTable('wide'),
})
