/** node kafkajs.ts BOOTSTRAP TOPIC RECORDS: kafkajs's consumer, batch by batch, until it has seen so many records. */
import { randomUUID } from 'node:crypto'
import kafkajs from 'kafkajs'

const [bootstrap = '', topic = '', records = ''] = process.argv.slice(2)
const kafka = new kafkajs.Kafka({ brokers: bootstrap.split(','), logLevel: kafkajs.logLevel.NOTHING })
const consumer = kafka.consumer({ groupId: `bench-${randomUUID()}`, maxBytesPerPartition: 512 * 1024 })
await consumer.connect()
await consumer.subscribe({ topics: [topic], fromBeginning: true })
let seen = 0
const done = Promise.withResolvers<void>()
await consumer.run({
  autoCommit: false,
  eachBatch: async ({ batch }) => {
    seen += batch.messages.length
    if (seen >= Number(records)) done.resolve()
  },
})
await done.promise
await consumer.disconnect()
process.stdout.write(`${seen}\n`)
