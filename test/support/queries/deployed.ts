/** A query whose broker, topic and caps come from its functions' environment. A record `poison` cannot be mapped. */
import { defineQuery, deltaTable, kafka, t, Trigger } from '../../../src/index.ts'

const utf8 = new TextDecoder()

export default defineQuery({
  name: 'deployed',
  trigger: Trigger.processingTime('365 days'), // a tick is one batch: no boundary passes meanwhile
  source: kafka({
    'kafka.bootstrap.servers': '{{env:BROKERS}}',
    subscribe: '{{env:TOPIC}}',
    startingOffsets: 'earliest',
    maxOffsetsPerTrigger: '{{env:CAP}}',
    'kafka.max.partition.fetch.bytes': 20_000, // a range takes several fetches
  }),
  schema: { partition: t.int.notNull(), offset: t.long.notNull(), text: t.string },
  map: ({ partition, offset, value }) => {
    const text = value === null ? null : utf8.decode(value)
    if (text === 'poison') throw new Error('cannot be mapped')
    return { partition, offset, text }
  },
  sink: deltaTable('deployed'),
})
