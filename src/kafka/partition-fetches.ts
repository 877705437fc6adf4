/** The fetches of one reading, one after the other: the next one is on its way while the answer before it is worked on. */
import { isSluiceError, SluiceError } from '../errors.ts'
import { giveBack } from '../memory.ts'
import { nameOf } from '../offsets.ts'
import type { IsolationLevel } from '../ports.ts'
import type { OffsetRange } from '../ranges.ts'
import { brokerErrorName } from './broker-errors.ts'
import type { Cluster, Leader, LeaderAnswer } from './client.ts'
import { parseFetchResponse, type FetchedPartition } from './fetch-response.ts'
import type { FrameBuffers } from './frame-reader.ts'

/** `failed` is what another attempt may cure. */
export type FetchAnswer =
  | { readonly kind: 'answer'; readonly leader: Leader; readonly partition: FetchedPartition }
  | { readonly kind: 'failed'; readonly error: SluiceError }
  | Exclude<LeaderAnswer, { kind: 'leader' }>

interface Pending {
  readonly offset: bigint
  readonly answer: Promise<FetchAnswer>
  readonly stop: AbortController
}

/** Beside the records: the rest of an answer. */
const ANSWER_HEAD_BYTES = 64 * 1024
/** A first fetch for few records asks for so much of each, and so much beside: what it cannot know yet costs one more. */
const GUESSED_RECORD_BYTES = 1024
const GUESSED_BATCH_BYTES = 64 * 1024

export class PartitionFetches {
  readonly #cluster: Cluster
  readonly #range: OffsetRange
  readonly #isolation: IsolationLevel
  readonly #signal: AbortSignal
  readonly #buffers: AnswerBuffers
  #pending: Pending | null = null
  /** The most that one fetch asks for. */
  #maxBytes: number
  /** By the answer before. */
  #bytesPerOffset: number | null = null

  constructor(
    cluster: Cluster,
    range: OffsetRange,
    { isolation, maxBytes, reusesBuffers }: { isolation: IsolationLevel; maxBytes: number; reusesBuffers: boolean },
    signal: AbortSignal
  ) {
    this.#cluster = cluster
    this.#range = range
    this.#isolation = isolation
    this.#maxBytes = maxBytes
    this.#signal = signal
    this.#buffers = new AnswerBuffers(reusesBuffers)
  }

  get maxBytes(): number {
    return this.#maxBytes
  }

  set maxBytes(bytes: number) {
    this.#maxBytes = bytes
  }

  /** The answer at the offset: the one that was asked for ahead, where it was this offset. */
  async at(offset: bigint, maxWaitMs: number): Promise<FetchAnswer> {
    const pending = this.#pending
    if (pending?.offset === offset) {
      this.#pending = null
      return pending.answer
    }
    await this.stop()
    return this.#ask(offset, maxWaitMs, this.#signal)
  }

  /** Asks for what comes after an answer that was got by `at`. Nothing is asked for beyond the range. */
  ahead(offset: bigint, maxWaitMs: number): void {
    if (offset >= this.#range.until || this.#pending !== null) return
    const stop = new AbortController()
    const answer = this.#ask(offset, maxWaitMs, AbortSignal.any([this.#signal, stop.signal]))
    answer.catch(() => {}) // heard by `at`, or by nobody after `stop`
    this.#pending = { offset, answer, stop }
  }

  /** The reading is over: its answers are no more looked at. */
  async end(): Promise<void> {
    await this.stop()
    this.#buffers.free()
  }

  /** Ends what was asked for ahead; settles when it has unwound (P20). */
  async stop(): Promise<void> {
    const pending = this.#pending
    this.#pending = null
    if (pending === null) return
    pending.stop.abort()
    await pending.answer.catch(() => {})
  }

  /** Tells how many bytes so many offsets took. */
  learn(bytes: number, offsets: bigint): void {
    if (bytes > 0 && offsets > 0n) this.#bytesPerOffset = bytes / Number(offsets)
  }

  async #ask(offset: bigint, maxWaitMs: number, signal: AbortSignal): Promise<FetchAnswer> {
    const { topic, partition } = this.#range
    try {
      const leader = await this.#cluster.leaderOf(this.#range, signal)
      if (leader.kind !== 'leader') return leader
      const maxBytes = this.#bytesFor(offset)
      const { isolation: isolationLevel, leaderEpoch } = { isolation: this.#isolation, ...leader }
      const request = { topic, partition, offset, isolationLevel, maxBytes, maxWaitMs, leaderEpoch }
      const buffers = this.#buffers.next(maxBytes + ANSWER_HEAD_BYTES)
      const body = await this.#cluster.fetchRaw(leader.address, request, signal, buffers)
      this.#buffers.arrived(body.length)
      const response = parseFetchResponse(body)
      const found = response.partitions.find((one) => one.topic === topic && one.partition === partition)
      if (found === undefined) return { kind: 'failed', error: this.#unreachable(response.errorCode) }
      return { kind: 'answer', leader, partition: found }
    } catch (e) {
      if (isSluiceError(e, 'KAFKA_UNREACHABLE') || isSluiceError(e, 'KAFKA_RESPONSE_MALFORMED'))
        return { kind: 'failed', error: e }
      throw e
    }
  }

  /** What is left of the range and a batch, as far as that can be told, so that little is sent of what lies behind it. */
  #bytesFor(offset: bigint): number {
    const left = Number(this.#range.until - offset)
    const each = this.#bytesPerOffset ?? GUESSED_RECORD_BYTES
    return Math.min(this.#maxBytes, Math.ceil(1.1 * each * left) + GUESSED_BATCH_BYTES)
  }

  #unreachable(errorCode: number): SluiceError {
    const reason = `${nameOf(this.#range)}: ${brokerErrorName(errorCode)}`
    return new SluiceError('KAFKA_UNREACHABLE', { brokers: this.#cluster.addresses, reason })
  }
}

/** Two buffers in turn: one holds the answer that is worked on, the other one takes the next. */
class AnswerBuffers {
  readonly #reuses: boolean
  readonly #held: [Buffer, Buffer] = [Buffer.alloc(0), Buffer.alloc(0)]
  #turn: 0 | 1 = 0
  /** Bytes of the largest answer so far, and a little more. */
  #largest = 0

  constructor(reuses: boolean) {
    this.#reuses = reuses
  }

  arrived(bytes: number): void {
    this.#largest = Math.max(this.#largest, bytes + 1024)
  }

  /** For an answer of about so many bytes; one that says it has far more gets memory as it arrives. */
  next(about: number): FrameBuffers {
    const expected = Math.max(about, this.#largest)
    if (!this.#reuses) return (bytes) => Buffer.allocUnsafeSlow(Math.min(bytes, expected))
    const turn = this.#turn
    this.#turn = turn === 0 ? 1 : 0
    return (bytes) => {
      if (this.#held[turn].length < Math.min(bytes, expected)) {
        giveBack(this.#held[turn])
        this.#held[turn] = Buffer.allocUnsafeSlow(expected)
      }
      return this.#held[turn]
    }
  }

  free(): void {
    for (const held of this.#held) giveBack(held)
  }
}
