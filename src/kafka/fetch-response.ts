/** Parses the body of a Fetch answer, version 11 (kafka's FetchResponse.json). Pure; the record bytes stay in place. */
import { SluiceError } from '../errors.ts'
import type { TopicPartition } from '../offsets.ts'
import type { AbortedTransaction } from './aborted-transactions.ts'

export interface FetchResponse {
  /** Milliseconds that the broker asks to wait for, by its quotas. */
  readonly throttleTimeMs: number
  /** Kafka's code of the whole answer; 0 is none. Such an answer has no partitions. */
  readonly errorCode: number
  readonly sessionId: number
  /** In the broker's order. */
  readonly partitions: readonly FetchedPartition[]
}

export interface FetchedPartition extends TopicPartition {
  /** Kafka's code; 0 is none, 1 OFFSET_OUT_OF_RANGE. With one the offsets below may be -1. */
  readonly errorCode: number
  /** -1 where the broker does not say. May be older than the records beside it. */
  readonly highWatermark: bigint
  /** Where read_committed ends; -1 where the broker does not say. */
  readonly lastStableOffset: bigint
  /** -1 where the broker does not say. */
  readonly logStartOffset: bigint
  /** Overlapping the answered offsets, in no promised order; empty under read_uncommitted. */
  readonly abortedTransactions: readonly AbortedTransaction[]
  /** The replica to ask from now on, -1 for the leader. */
  readonly preferredReadReplica: number
  /** Whole record batches, the last one maybe cut off: a view for decodeRecords. Empty where there is nothing. */
  readonly records: Buffer
}

/** @throws KAFKA_RESPONSE_MALFORMED unless the body is exactly one answer. */
export function parseFetchResponse(body: Buffer): FetchResponse {
  const reader = new BodyReader(body)
  const throttleTimeMs = reader.int32()
  const errorCode = reader.int16()
  const sessionId = reader.int32()
  const partitions: FetchedPartition[] = []
  for (let topics = reader.count(6); topics > 0; topics--) {
    const topic = reader.string()
    for (let left = reader.count(42); left > 0; left--) partitions.push(readPartition(topic, reader))
  }
  reader.finish()
  return { throttleTimeMs, errorCode, sessionId, partitions }
}

function readPartition(topic: string, reader: BodyReader): FetchedPartition {
  const partition = reader.int32()
  const errorCode = reader.int16()
  const highWatermark = reader.int64()
  const lastStableOffset = reader.int64()
  const logStartOffset = reader.int64()
  const abortedTransactions: AbortedTransaction[] = []
  for (let left = reader.count(16); left > 0; left--)
    abortedTransactions.push({ producerId: reader.int64(), firstOffset: reader.int64() })
  const preferredReadReplica = reader.int32()
  const records = reader.bytes()
  return {
    topic,
    partition,
    errorCode,
    highWatermark,
    lastStableOffset,
    logStartOffset,
    abortedTransactions,
    preferredReadReplica,
    records,
  }
}

class BodyReader {
  readonly #body: Buffer
  #at = 0

  constructor(body: Buffer) {
    this.#body = body
  }

  int16(): number {
    return this.#body.readInt16BE(this.#advance(2))
  }

  int32(): number {
    return this.#body.readInt32BE(this.#advance(4))
  }

  int64(): bigint {
    return this.#body.readBigInt64BE(this.#advance(8))
  }

  string(): string {
    const length = this.int16()
    const start = this.#advance(length)
    return this.#body.toString('utf8', start, start + length)
  }

  /** Null (-1) and empty mean the same here: no records. */
  bytes(): Buffer {
    const length = this.int32()
    const start = this.#advance(length === -1 ? 0 : length)
    return this.#body.subarray(start, this.#at)
  }

  /** The length of an array whose elements take `least` bytes or more; a null array counts 0. */
  count(least: number): number {
    const count = this.int32()
    if (count < -1 || count * least > this.#body.length - this.#at) throw malformed(`an array counts ${count}`)
    return Math.max(0, count)
  }

  finish(): void {
    if (this.#at !== this.#body.length) throw malformed(`${this.#body.length - this.#at} bytes follow its end`)
  }

  #advance(length: number): number {
    const start = this.#at
    if (length < 0 || length > this.#body.length - start)
      throw malformed(`a field of ${length} bytes at ${start} of ${this.#body.length}`)
    this.#at = start + length
    return start
  }
}

const malformed = (reason: string): SluiceError => new SluiceError('KAFKA_RESPONSE_MALFORMED', { api: 'Fetch', reason })
