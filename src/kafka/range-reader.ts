/** Reads exactly `[from, until)` of a partition (spark-semantics 5). No consumer group, nothing committed to Kafka. */
import type { IsolationLevel, RangeEnd, RangeReader, RecordBatch } from '../ports.ts'
import type { OffsetRange } from '../ranges.ts'
import { openCluster, type Cluster } from './client.ts'
import { connectionSettings, type ConnectionSettings } from './connection-settings.ts'
import { RangeRead } from './range-read.ts'

export interface RangeReaderOptions {
  /** Client settings: lower-cased names without the `kafka.` prefix. */
  readonly kafka: Readonly<Record<string, string>>
  readonly clientId: string
  readonly failOnDataLoss: boolean
  /** How long a range may stand still without an error before it fails with KAFKA_TIMEOUT. */
  readonly pollTimeoutMs: number
  /** Keys, values and headers of a batch are written over when the next one is asked for. Default: they stay. */
  readonly reusesBuffers?: boolean
}

/**
 * One reader serves any number of ranges side by side, also of one partition: each fetch has a connection to itself.
 * Opens connections when it reads, not before.
 * @throws OPTION_INVALID, OPTION_CONFLICT, OPTION_NOT_SUPPORTED, OPTION_UNKNOWN for client settings, before any broker is asked.
 */
export const createRangeReader = (options: RangeReaderOptions): RangeReader =>
  new KafkaRangeReader(options, connectionSettings(options.kafka, options.clientId))

class KafkaRangeReader implements RangeReader {
  readonly #options: RangeReaderOptions
  readonly #settings: ConnectionSettings
  readonly #cluster: Cluster
  #closed = new AbortController()

  constructor(options: RangeReaderOptions, settings: ConnectionSettings) {
    this.#options = options
    this.#settings = settings
    this.#cluster = openCluster(settings)
  }

  read(
    range: OffsetRange,
    isolation: IsolationLevel,
    signal: AbortSignal,
    isEnough?: () => boolean
  ): AsyncGenerator<RecordBatch, RangeEnd> {
    const { failOnDataLoss, pollTimeoutMs, reusesBuffers = false } = this.#options
    const { fetchBytes, fetchMaxWaitMs } = this.#settings
    const limits = { failOnDataLoss, pollTimeoutMs, fetchBytes, fetchMaxWaitMs, reusesBuffers }
    const either = AbortSignal.any([signal, this.#closed.signal])
    return new RangeRead(this.#cluster, range, isolation, limits, either).batches(isEnough)
  }

  /** Reads that are under way end with ABORTED. */
  async close(): Promise<void> {
    this.#closed.abort()
    this.#closed = new AbortController()
    await this.#cluster.close()
  }
}
