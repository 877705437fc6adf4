import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { kafkaJars } from './broker.ts'
import { kafkaTools } from './kafka-reader.ts'

export interface RecordToSend {
  /** Default: by the producer's partitioner. */
  readonly partition?: number
  /** Milliseconds; default now. */
  readonly timestamp?: number | bigint
  /** A string stands for its UTF-8 bytes; default null. */
  readonly key?: Buffer | string | null
  readonly value?: Buffer | string | null
  /** In order, repeats allowed. */
  readonly headers?: readonly (readonly [string, Buffer | string | null])[]
}

export interface SentRecord {
  readonly partition: number
  readonly offset: bigint
}

/** A producer of the Java client. A call settles when the broker has acknowledged everything that it sent. */
export interface JavaProducer {
  send(topic: string, records: readonly RecordToSend[]): Promise<readonly SentRecord[]>
  /**
   * Sends `count` records with an 8-byte key (the record's number, big-endian) and a value of `valueSize` bytes that begins
   * with the key and goes on with words; answers the first and last offset.
   */
  fill(
    topic: string,
    options: { partition?: number; count: number; valueSize: number }
  ): Promise<{ first: bigint; last: bigint }>
  begin(): Promise<void>
  commit(): Promise<void>
  abort(): Promise<void>
  /** Without it a transaction that is open stays open when the tool stops. */
  close(): Promise<void>
}

/** One JVM with any number of producers: keep it for a test file. */
export interface ProducerTool extends AsyncDisposable {
  /**
   * Opens a producer; `config` has the Java client's own names: 'compression.type' (none, gzip, snappy, lz4, zstd),
   * 'batch.size', 'linger.ms', 'max.request.size', 'transactional.id' (then begin, commit and abort work), 'acks' ...
   */
  open(config?: Readonly<Record<string, string | number | boolean>>): Promise<JavaProducer>
  /** Moves the log start: deletes the records before the offset of each partition. */
  deleteRecords(topic: string, before: Readonly<Record<number, bigint | number>>): Promise<void>
  stop(): Promise<void>
}

/** Starts the Java producer tool (ProduceRecords.java), for what kafkajs cannot do. */
export function startProducerTool(bootstrap: string): ProducerTool {
  const call = startTool(bootstrap)
  let opened = 0
  return {
    async open(config = {}) {
      const producer = `producer-${++opened}`
      await call.send({ op: 'open', producer, config })
      return javaProducer((command) => call.send({ ...command, producer }))
    },
    async deleteRecords(topic, before) {
      const offsets = Object.fromEntries(
        Object.entries(before).map(([partition, offset]) => [partition, String(offset)])
      )
      await call.send({ op: 'deleteRecords', topic, before: offsets })
    },
    stop: () => call.stop(),
    [Symbol.asyncDispose]: () => call.stop(),
  }
}

type Command = { op: string } & Record<string, unknown>

/** A line of ProduceRecords.java. */
interface Answer {
  id: number
  error?: string
  offsets?: [number, string][]
  first?: string
  last?: string
}

function javaProducer(send: (command: Command) => Promise<Answer>): JavaProducer {
  const plain = (op: string) => async (): Promise<void> => void (await send({ op }))
  return {
    async send(topic, records) {
      const { offsets = [] } = await send({ op: 'send', topic, records: records.map(encode) })
      return offsets.map(([partition, offset]) => ({ partition, offset: BigInt(offset) }))
    },
    async fill(topic, options) {
      const { first = '-1', last = '-1' } = await send({ op: 'fill', topic, ...options })
      return { first: BigInt(first), last: BigInt(last) }
    },
    begin: plain('begin'),
    commit: plain('commit'),
    abort: plain('abort'),
    close: plain('close'),
  }
}

const encode = (record: RecordToSend): Record<string, unknown> => ({
  partition: record.partition,
  timestamp: record.timestamp === undefined ? undefined : String(record.timestamp),
  key: base64(record.key),
  value: base64(record.value),
  headers: record.headers?.map(([name, value]) => [name, base64(value)]),
})

const base64 = (bytes: Buffer | string | null | undefined): string | null =>
  bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64')

function startTool(bootstrap: string): { send(command: Command): Promise<Answer>; stop(): Promise<void> } {
  const jvm = ['-Xmx512m', '-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=off']
  const child = spawn('java', [...jvm, '-cp', `${kafkaTools}:${kafkaJars}/*`, 'ProduceRecords', bootstrap], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const waiting = new Map<number, { resolve(answer: Answer): void; reject(error: Error): void }>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    const answer: Answer = JSON.parse(line)
    const caller = waiting.get(answer.id)
    waiting.delete(answer.id)
    if (answer.error === undefined) caller?.resolve(answer)
    else caller?.reject(new Error(answer.error))
  })
  const exited = new Promise<void>((resolve) => {
    child.once('exit', (code) => {
      for (const caller of waiting.values()) caller.reject(new Error(`the producer tool ended with code ${code}`))
      waiting.clear()
      resolve()
    })
  })
  child.stdin.on('error', () => {})
  let calls = 0
  return {
    send: (command) =>
      new Promise((resolve, reject) => {
        const id = ++calls
        waiting.set(id, { resolve, reject })
        child.stdin.write(`${JSON.stringify({ id, ...command })}\n`)
      }),
    async stop() {
      child.stdin.end()
      await exited
    },
  }
}
