import { randomUUID } from 'node:crypto'
import kafkajs, { type Admin, type Message, type Producer } from 'kafkajs'
import { setTimeout as delay } from 'node:timers/promises'

// CommonJS whose names Node does not all find: plain Node runs this file for npm start.
const { Kafka, KafkaJSProtocolError, logLevel } = kafkajs

export interface TopicOptions {
  /** Leads the name, to tell topics apart in output. Default 'topic'. */
  readonly prefix?: string
  /** Default 1. */
  readonly partitions?: number
  /** Default 1. */
  readonly replicationFactor?: number
  /** Topic configuration, as { 'cleanup.policy': 'compact' }. */
  readonly config?: Readonly<Record<string, string>>
}

/** For a topic whose closed segments are compacted within about a second: send, `waitUntil` 200 ms passed, send again, read. */
export const compactedQuickly: Readonly<Record<string, string>> = {
  'cleanup.policy': 'compact',
  'min.cleanable.dirty.ratio': '0.001',
  'segment.ms': '100',
  'delete.retention.ms': '0',
}

/** Topics of one test or test file on a broker; they are deleted at `close`. */
export interface Topics extends AsyncDisposable {
  readonly admin: Admin
  /** Creates a topic with a name of its own and answers the name. */
  create(options?: TopicOptions): Promise<string>
  /** Creates, or creates again after `delete`, a topic of this very name. */
  createNamed(topic: string, options?: Omit<TopicOptions, 'prefix'>): Promise<void>
  /** Deletes a topic and waits until the broker no longer knows it. */
  delete(topic: string): Promise<void>
  /** Adds partitions until there are so many, and waits until records can be sent to them. */
  grow(topic: string, partitions: number): Promise<void>
  /**
   * Sends records by kafkajs, each once, acknowledged by all replicas when the call settles. `partition` is taken from each
   * message.
   */
  produce(topic: string, messages: readonly Message[]): Promise<void>
  /** Deletes what was created here and closes the connections. */
  close(): Promise<void>
}

/** A topic name that no other test has. */
export const uniqueTopic = (prefix = 'topic'): string => `${prefix}-${randomUUID().slice(0, 13)}`

export async function openTopics(bootstrap: string): Promise<Topics> {
  const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  // A new topic's partitions come up one by one. Without numbers kafkajs, refused for one, repeats the records of all.
  const newProducer = (): Producer => kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  let producer = newProducer()
  let sending: Promise<unknown> = Promise.resolve()
  await Promise.all([admin.connect(), producer.connect()])
  const renewProducer = async (): Promise<void> => {
    await sending
    await producer.disconnect()
    producer = newProducer()
    await producer.connect()
  }
  const created = new Set<string>()
  const createNamed: Topics['createNamed'] = async (
    topic,
    { partitions = 1, replicationFactor = 1, config = {} } = {}
  ) => {
    const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }))
    const wanted = { topic, numPartitions: partitions, replicationFactor, configEntries }
    created.add(topic)
    await whileUnknown(async () => void (await admin.createTopics({ topics: [wanted], waitForLeaders: true })))
  }
  const remove = async (topic: string): Promise<void> => {
    created.delete(topic)
    await whileUnknown(() => admin.deleteTopics({ topics: [topic] }))
    while ((await admin.listTopics()).includes(topic)) await delay(20)
    await renewProducer() // it would go on asking for the topic
  }
  const close = async (): Promise<void> => {
    if (created.size > 0) await admin.deleteTopics({ topics: [...created] }).catch(() => {})
    await Promise.all([admin.disconnect(), producer.disconnect()])
  }
  return {
    admin,
    createNamed,
    async create(options = {}) {
      const topic = uniqueTopic(options.prefix)
      await createNamed(topic, options)
      return topic
    },
    delete: remove,
    async grow(topic, partitions) {
      await admin.createPartitions({ topicPartitions: [{ topic, count: partitions }] })
      await waitUntil(`${topic} has ${partitions} partitions`, async () => {
        const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
        return topics[0]?.partitions.length === partitions
      })
      await renewProducer() // it drops records of partitions that it does not know yet
    },
    async produce(topic, messages) {
      // One after the other: kafkajs does not number requests that run side by side.
      const sent = sending.then(() => producer.send({ topic, messages: [...messages] }))
      sending = sent.catch(() => {})
      await sent
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The broker answers code 3 (unknown topic or partition) while the metadata of a new topic is on its way. */
async function whileUnknown(call: () => Promise<void>): Promise<void> {
  const deadline = Date.now() + 15_000
  for (;;) {
    try {
      return await call()
    } catch (error) {
      const unknown = error instanceof KafkaJSProtocolError && error.code === 3
      if (!unknown || Date.now() > deadline) throw error
      await delay(50)
    }
  }
}

/** Asks again and again until the condition holds; fails after `timeoutMs`, naming `what`. */
export async function waitUntil(
  what: string,
  condition: () => Promise<boolean> | boolean,
  timeoutMs = 20_000
): Promise<void> {
  const deadline = Date.now() + timeoutMs
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`after ${timeoutMs} ms still not so: ${what}`)
    await delay(50)
  }
}
