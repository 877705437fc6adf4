import { execFile, type ExecFileOptionsWithBufferEncoding } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { kafkaJars } from './broker.ts'

const run = promisify(execFile)
const binary: ExecFileOptionsWithBufferEncoding = { encoding: 'buffer', maxBuffer: 1 << 30 }

/** The compiled Java tools, see setup.mjs. */
export const kafkaTools = join(import.meta.dirname, '../../.tools/kafka-tools')

export type Isolation = 'read_committed' | 'read_uncommitted'

/** A record as a client other than the project's own saw it. */
export interface KafkaRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  /** Milliseconds. */
  readonly timestamp: bigint
  readonly key: Buffer | null
  readonly value: Buffer | null
}

/** What only the Java consumer tells. */
export interface KafkaRecordWithHeaders extends KafkaRecord {
  /** 0 = CreateTime, 1 = LogAppendTime. */
  readonly timestampType: number
  /** In order, repeats included. */
  readonly headers: readonly (readonly [string, Buffer | null])[]
}

/**
 * Every record of a topic by an independent client, in order of partition and offset: kcat where it is installed, the Java
 * consumer otherwise. The end is the end at the time of the call: the last stable offset for read_committed (the default).
 */
export async function readTopic(
  bootstrap: string,
  topic: string,
  isolation?: Isolation
): Promise<readonly KafkaRecord[]> {
  return (await hasKcat()) ? readTopicByKcat(bootstrap, topic, isolation) : readTopicByJava(bootstrap, topic, isolation)
}

/** `partition:offset` of records: what to compare sets of delivered records by. */
export const positionsOf = (records: Iterable<{ partition: number; offset: bigint | number | string }>): Set<string> =>
  new Set(Array.from(records, ({ partition, offset }) => `${partition}:${offset}`))

let kcatFound: Promise<boolean> | undefined

/** Whether kcat is installed. */
export function hasKcat(): Promise<boolean> {
  kcatFound ??= run('kcat', ['-V']).then(
    () => true,
    () => false
  )
  return kcatFound
}

/** As `readTopic`, by kcat (librdkafka) in any case. */
export async function readTopicByKcat(
  bootstrap: string,
  topic: string,
  isolation: Isolation = 'read_committed'
): Promise<readonly KafkaRecord[]> {
  // A line of numbers, then the bytes whose lengths the line has: keys and values may hold anything.
  const format = String.raw`%p %o %T %K %S\n%k%s\n`
  const settings = ['-X', `isolation.level=${isolation}`, '-X', 'check.crcs=true', '-X', 'fetch.wait.max.ms=20']
  const { stdout } = await run(
    'kcat',
    ['-C', '-b', bootstrap, '-t', topic, '-o', 'beginning', '-e', '-q', ...settings, '-f', format],
    binary
  )
  const records: KafkaRecord[] = []
  for (let at = 0; at < stdout.length;) {
    const bytesAt = stdout.indexOf(10, at) + 1
    const [partition, offset, timestamp, keyLength, valueLength] = stdout
      .toString('latin1', at, bytesAt - 1)
      .split(' ')
      .map(Number)
    if (partition === undefined || offset === undefined || timestamp === undefined)
      throw new Error(`kcat printed no record at ${at}`)
    if (keyLength === undefined || valueLength === undefined) throw new Error(`kcat printed no lengths at ${at}`)
    const valueAt = bytesAt + Math.max(keyLength, 0)
    const end = valueAt + Math.max(valueLength, 0)
    records.push({
      topic,
      partition,
      offset: BigInt(offset),
      timestamp: BigInt(timestamp),
      key: keyLength < 0 ? null : stdout.subarray(bytesAt, valueAt),
      value: valueLength < 0 ? null : stdout.subarray(valueAt, end),
    })
    at = end + 1
  }
  return records.toSorted((a, b) => a.partition - b.partition || Number(a.offset - b.offset))
}

/** As `readTopic`, by the Java consumer in any case, with headers and the timestamp's type. */
export async function readTopicByJava(
  bootstrap: string,
  topic: string,
  isolation: Isolation = 'read_committed'
): Promise<readonly KafkaRecordWithHeaders[]> {
  const jvm = ['-Xmx512m', '-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=error']
  const { stdout } = await run(
    'java',
    [...jvm, '-cp', `${kafkaTools}:${kafkaJars}/*`, 'ReadTopic', bootstrap, topic, isolation],
    binary
  )
  return stdout
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const record: JavaRecord = JSON.parse(line)
      return {
        topic,
        partition: record.partition,
        offset: BigInt(record.offset),
        timestamp: BigInt(record.timestamp),
        timestampType: record.timestampType,
        key: bytes(record.key),
        value: bytes(record.value),
        headers: record.headers.map(([name, value]) => [name, bytes(value)] as const),
      }
    })
}

/** A line of ReadTopic.java. */
interface JavaRecord {
  partition: number
  offset: string
  timestamp: string
  timestampType: number
  key: string | null
  value: string | null
  headers: [string, string | null][]
}

const bytes = (base64: string | null): Buffer | null => (base64 === null ? null : Buffer.from(base64, 'base64'))
