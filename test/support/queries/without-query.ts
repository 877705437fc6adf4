/** A module whose default export only looks like a query: `defineQuery` is missing. */
import { kafka } from '../../../src/query.ts'
import { Trigger } from '../../../src/trigger.ts'

export default {
  name: 'query',
  source: kafka({ 'kafka.bootstrap.servers': 'localhost:9092', subscribe: 't' }),
  sink: { description: 'nowhere', open: () => undefined },
  trigger: Trigger.availableNow(),
}
