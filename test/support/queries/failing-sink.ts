/** A query whose sink has a defect. */
import { defineQuery, kafka } from '../../../src/query.ts'

export default defineQuery({
  name: 'query',
  source: kafka({ 'kafka.bootstrap.servers': 'localhost:9092', subscribe: 't' }),
  sink: {
    description: 'defect',
    open: () => {
      throw new TypeError('cannot read the account of undefined')
    },
  },
})
