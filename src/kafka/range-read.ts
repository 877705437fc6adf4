/** One reading of one range: where it stands, what went wrong so far, and the loop of fetches that moves it on. */
import { enforce, type DataLossFinding } from '../data-loss.ts'
import { isSluiceError, SluiceError } from '../errors.ts'
import { nameOf, offsetAt } from '../offsets.ts'
import type { IsolationLevel, RangeEnd, RecordBatch } from '../ports.ts'
import type { OffsetRange } from '../ranges.ts'
import { pause, throwIfAborted } from './abort.ts'
import { brokerErrorCode, brokerErrorName, isPassing } from './broker-errors.ts'
import type { Cluster, Leader } from './client.ts'
import type { FetchedPartition } from './fetch-response.ts'
import { EARLIEST, LATEST } from './list-offsets.ts'
import { judgeOutOfRange } from './out-of-range.ts'
import { PartitionFetches } from './partition-fetches.ts'
import { listPartitionOffsets } from './partition-offsets.ts'
import { Patience } from './patience.ts'
import { decodeRecords, unverifiedReach, type RecordsEnd } from './record-batch.ts'
import { RecordScratch } from './record-reader.ts'

export interface RangeLimits {
  readonly failOnDataLoss: boolean
  readonly pollTimeoutMs: number
  readonly fetchBytes: number
  readonly fetchMaxWaitMs: number
  /** Bytes of a batch are written over when the next one is asked for. */
  readonly reusesBuffers: boolean
}

/** A broker without data answers at once in some states; we ask no more often than this. */
const EMPTY_PAUSE_MS = 20
/** Beyond this a batch whose end never comes is damage: no broker holds batches of this size. */
const MAX_FETCH_BYTES = 0x2000_0000

interface Fetched {
  readonly leader: Leader
  readonly partition: FetchedPartition
}

export class RangeRead {
  readonly #cluster: Cluster
  readonly #range: OffsetRange
  readonly #isolation: IsolationLevel
  readonly #fetches: PartitionFetches
  readonly #scratch: RecordScratch | null
  readonly #limits: RangeLimits
  readonly #signal: AbortSignal
  readonly #step: string
  readonly #patience: Patience
  readonly #dataLoss: DataLossFinding[] = []
  #position: bigint
  #highWatermark: bigint | null = null
  /** When the position last moved. */
  #movedAt = performance.now()
  /** Where bytes were damaged once already. */
  #damagedAt: bigint | null = null

  constructor(
    cluster: Cluster,
    range: OffsetRange,
    isolation: IsolationLevel,
    limits: RangeLimits,
    signal: AbortSignal
  ) {
    this.#cluster = cluster
    this.#range = range
    this.#isolation = isolation
    this.#limits = limits
    this.#signal = signal
    this.#step = `Reading ${nameOf(range)} [${range.from}, ${range.until})`
    this.#patience = new Patience(this.#step)
    this.#position = range.from
    const { fetchBytes: maxBytes, reusesBuffers } = limits
    this.#scratch = reusesBuffers ? new RecordScratch() : null
    this.#fetches = new PartitionFetches(cluster, range, { isolation, maxBytes, reusesBuffers }, signal)
  }

  /** Ends only when the position has reached the end of the range, or the caller has enough: an empty answer ends nothing (B33). */
  async *batches(isEnough: () => boolean = () => false): AsyncGenerator<RecordBatch, RangeEnd> {
    const { from, until } = this.#range
    const end = (): RangeEnd => ({ highWatermark: this.#highWatermark, dataLoss: this.#dataLoss })
    this.#movedAt = performance.now()
    try {
      while (this.#position < until) {
        throwIfAborted(this.#signal, this.#step)
        if (this.#position > from && isEnough()) return { ...end(), stoppedAt: this.#position }
        const fetched = await this.#fetch()
        if (fetched === null) continue
        const batches = this.#opened(fetched)
        const before = this.#position
        for (let isMore = true; isMore;) {
          const next = this.#decoded(() => batches.next())
          if (next instanceof SluiceError) {
            await this.#damaged(next, fetched.leader)
            break
          }
          if (next.done === true) {
            await this.#ended(next.value, before)
            break
          }
          yield next.value
          this.#moveTo(next.value.nextOffset)
          isMore = !isEnough()
        }
      }
    } finally {
      await this.#fetches.end()
    }
    return end()
  }

  /** One attempt; null where it brought nothing and the next one may follow. */
  async #fetch(): Promise<Fetched | null> {
    const answer = await this.#fetches.at(this.#position, this.#maxWaitMs())
    if (answer.kind === 'absent') return this.#absent()
    if (answer.kind === 'none') return this.#failed(this.#unreachable(answer.reason))
    if (answer.kind === 'failed') return this.#failed(answer.error)
    const { leader, partition } = answer
    switch (partition.errorCode) {
      case brokerErrorCode.none:
        return { leader, partition }
      case brokerErrorCode.offsetOutOfRange:
        return this.#outOfRange()
      default:
        return this.#refused(leader, partition.errorCode)
    }
  }

  #maxWaitMs(): number {
    const left = this.#movedAt + this.#limits.pollTimeoutMs - performance.now()
    return Math.max(0, Math.min(this.#limits.fetchMaxWaitMs, Math.ceil(left)))
  }

  /** The batches of an answer, the next answer on its way. */
  #opened({ partition }: Fetched): ReturnType<typeof decodeRecords> {
    this.#patience.renew()
    if (partition.highWatermark >= 0n) this.#highWatermark = partition.highWatermark
    this.#agedOut(partition)
    this.#askAhead(partition.records)
    const { topic, abortedTransactions } = partition
    const context = {
      topic,
      partition: partition.partition,
      isolationLevel: this.#isolation,
      abortedTransactions,
      ...(this.#scratch !== null && { scratch: this.#scratch }),
    }
    return decodeRecords(partition.records, { from: this.#position, until: this.#range.until }, context)
  }

  async #ended({ nextOffset, completeBatches, cutOffBytes }: RecordsEnd, before: bigint): Promise<void> {
    this.#moveTo(nextOffset)
    if (completeBatches === 0 && cutOffBytes !== null) this.#askForMore(cutOffBytes)
    if (this.#position === before) await this.#standstill()
  }

  /** The next fetch begins where these bytes say that they end; if they are wrong about it, its answer is dropped. */
  #askAhead(records: Buffer): void {
    const reach = unverifiedReach(records)
    if (reach === null || reach <= this.#position) return
    this.#fetches.learn(records.length, reach - this.#position)
    this.#fetches.ahead(reach, this.#maxWaitMs())
  }

  /** Damage is a value: what was yielded before it stays good, and the same offset is asked for again. */
  #decoded<T>(step: () => T): T | SluiceError {
    try {
      return step()
    } catch (e) {
      if (isSluiceError(e, 'CORRUPT_RECORD_BATCH')) return e
      throw e
    }
  }

  /** Bytes that were damaged on their way come right the second time, over another connection; stored damage does not (B29). */
  async #damaged(error: SluiceError, leader: Leader): Promise<void> {
    if (this.#damagedAt === this.#position) throw error
    this.#damagedAt = this.#position
    await this.#cluster.dropConnections(leader.address)
  }

  #moveTo(offset: bigint): void {
    const next = offset < this.#range.until ? offset : this.#range.until
    if (next <= this.#position) return
    this.#position = next
    this.#movedAt = performance.now()
  }

  /** Not even one batch fitted (B32). Brokers send the first one whole, so this is for those that do not. */
  #askForMore(bytes: number): void {
    const { topic, partition } = this.#range
    const { maxBytes } = this.#fetches
    if (maxBytes >= Math.min(bytes, MAX_FETCH_BYTES))
      throw new SluiceError('CORRUPT_RECORD_BATCH', {
        topic,
        partition,
        offset: String(this.#position),
        reason: `its length says ${bytes} bytes, and a fetch of ${maxBytes} bytes does not hold it`,
      })
    this.#fetches.maxBytes = Math.min(2 * maxBytes, MAX_FETCH_BYTES)
  }

  /** The log start passed our position while it was being read: what lies before the first batch is gone, not a gap. */
  #agedOut({ logStartOffset, records }: FetchedPartition): void {
    if (logStartOffset <= this.#position || records.length < 8) return
    const first = records.readBigInt64BE(0)
    const until = first < logStartOffset ? first : logStartOffset
    if (until > this.#position) this.#lose(until, until, 'the log start moved on')
  }

  async #outOfRange(): Promise<null> {
    const [earliest, latest] = [await this.#offsetAt(EARLIEST), await this.#offsetAt(LATEST)]
    if (earliest === undefined || latest === undefined) return this.#absent()
    const verdict = judgeOutOfRange(this.#position, this.#range.until, earliest, latest)
    if (verdict.kind === 'reappeared') return this.#failed(this.#unreachable('OFFSET_OUT_OF_RANGE'))
    const cause = `OFFSET_OUT_OF_RANGE at offset ${this.#position}, the log holds [${earliest}, ${latest})`
    this.#lose(verdict.until, this.#range.until, cause)
    return null
  }

  /** Also under read_committed the log ends at the high watermark, not at the last stable offset. */
  async #offsetAt(at: bigint): Promise<bigint | undefined> {
    const asked = [{ ...this.#range, at }]
    const found = await listPartitionOffsets(this.#cluster, asked, 'read_uncommitted', this.#signal)
    return offsetAt(found, this.#range)
  }

  /** One broker may not know of the partition yet; that none knows it for so long means that it was deleted. */
  async #absent(): Promise<null> {
    const failure = this.#unreachable(GONE)
    try {
      return await this.#failed(failure)
    } catch (e) {
      if (e !== failure) throw e
      this.#lose(this.#range.until, this.#range.until, GONE)
      return null
    }
  }

  async #refused(leader: Leader, errorCode: number): Promise<null> {
    const { topic, partition } = this.#range
    const error = brokerErrorName(errorCode)
    if (isPassing(errorCode)) return this.#failed(this.#unreachable(error))
    if (errorCode === brokerErrorCode.topicAuthorizationFailed)
      throw new SluiceError('KAFKA_AUTHORIZATION_FAILED', { resource: `topic ${topic}`, right: 'READ' })
    if (errorCode === brokerErrorCode.corruptMessage) {
      const place = { topic, partition, offset: String(this.#position) }
      await this.#damaged(
        new SluiceError('CORRUPT_RECORD_BATCH', { ...place, reason: `the broker says ${error}` }),
        leader
      )
      return null
    }
    throw new SluiceError('KAFKA_REQUEST_REFUSED', { request: 'Fetch', resource: nameOf(this.#range), error })
  }

  /**
   * Offsets from the position on are gone. With failOnDataLoss the error names `named`, else reading goes on at `until`.
   * @throws KAFKA_DATA_LOSS
   */
  #lose(until: bigint, named: bigint, cause: string): void {
    const { topic, partition, until: end } = this.#range
    const gone = this.#limits.failOnDataLoss ? named : until
    const lost = gone < end ? gone : end
    const finding = { topic, partition, from: this.#position, until: lost } as const
    const findings = [{ ...finding, reason: 'COULD_NOT_READ_OFFSET_RANGE' }] as const
    this.#dataLoss.push(...enforce(findings, this.#limits.failOnDataLoss, new Error(cause)))
    this.#moveTo(lost)
  }

  async #failed(failure: SluiceError): Promise<null> {
    this.#cluster.forgetLeaders(this.#range.topic)
    await this.#patience.afterFailure(failure, this.#signal)
    return null
  }

  async #standstill(): Promise<void> {
    const { pollTimeoutMs: timeoutMs } = this.#limits
    const { topic, partition } = this.#range
    if (performance.now() - this.#movedAt >= timeoutMs)
      throw new SluiceError('KAFKA_TIMEOUT', { topic, partition, offset: String(this.#position), timeoutMs })
    await pause(EMPTY_PAUSE_MS, this.#signal, this.#step)
  }

  #unreachable(reason: string): SluiceError {
    const brokers = this.#cluster.addresses
    return new SluiceError('KAFKA_UNREACHABLE', { brokers, reason: `${nameOf(this.#range)}: ${reason}` })
  }
}

const GONE = 'no broker knows of the partition any more'
