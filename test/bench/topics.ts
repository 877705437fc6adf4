/** The topics of the benchmark: made and filled where the broker does not have them yet, the same bytes each time. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import kafkajs from 'kafkajs'
import { kafkaJars } from '../support/broker.ts'

const run = promisify(execFile)

export interface BenchTopic {
  readonly name: string
  readonly partitions: number
  readonly records: number
  readonly compression: 'none' | 'zstd'
  /** Bytes of each value, random words in JSON; or orders. */
  readonly content: number | 'orders'
}

const words = (bytes: number, compression: 'none' | 'zstd', records: number): BenchTopic => ({
  name: `words-${bytes}-${compression}-${records}`,
  partitions: 4,
  records,
  compression,
  content: bytes,
})

/** Ten records a partition in each of so many batches. */
const small = (partitions: number, batches: number): BenchTopic => ({
  name: `small-${partitions}`,
  partitions,
  records: 10 * partitions * batches,
  compression: 'none',
  content: 100,
})

export const benchTopics = (records: number) => ({
  plain100: words(100, 'none', records),
  zstd100: words(100, 'zstd', records),
  plain1k: words(1024, 'none', records),
  zstd1k: words(1024, 'zstd', records),
  orders: {
    name: `orders-json-${records}`,
    partitions: 4,
    records,
    compression: 'none',
    content: 'orders',
  } as BenchTopic,
  small1: small(1, 50),
  small24: small(24, 10),
  small200: small(200, 5),
})

/** @param say is told of each topic that is filled. */
export async function fillTopics(
  bootstrap: string,
  topics: readonly BenchTopic[],
  say: (text: string) => void
): Promise<void> {
  const client = new kafkajs.Kafka({ brokers: bootstrap.split(','), logLevel: kafkajs.logLevel.NOTHING })
  const admin = client.admin()
  await admin.connect()
  try {
    const existing = new Set(await admin.listTopics())
    for (const topic of topics) {
      const { name, partitions, records } = topic
      if (!existing.has(name)) await admin.createTopics({ topics: [{ topic: name, numPartitions: partitions }] })
      const held = await countIn(admin, name)
      if (held === records) continue
      if (held > 0) throw new Error(`${name} holds ${held} records, not ${records}: delete it`)
      say(`filling ${name}`)
      await fill(bootstrap, topic)
    }
  } finally {
    await admin.disconnect()
  }
}

/** Leaders of a new topic come up one by one. */
async function countIn(admin: kafkajs.Admin, topic: string): Promise<number> {
  for (;;) {
    try {
      return (await admin.fetchTopicOffsets(topic)).reduce((sum, { high }) => sum + Number(high), 0)
    } catch (error) {
      if (!(error instanceof kafkajs.KafkaJSProtocolError)) throw error
    }
  }
}

async function fill(bootstrap: string, { name, partitions, records, compression, content }: BenchTopic): Promise<void> {
  const kind = content === 'orders' ? ['orders'] : ['words', String(content)]
  const args = [bootstrap, name, String(partitions), String(records), compression, ...kind]
  const jvm = ['-Xmx512m', '-Dorg.slf4j.simpleLogger.defaultLogLevel=error', '-cp', `${kafkaJars}/*`]
  await run('java', [...jvm, join(import.meta.dirname, 'BenchRecords.java'), ...args])
}
