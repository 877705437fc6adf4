/**
 * A bounded read: planned once from starting and ending options, read in pieces, without a log. What is `earliest` or
 * `latest` is asked for when a piece is read (spark-semantics 3.2). Loss is found by the reading alone, not by the plan.
 */
import type { BatchOptions } from './batch-options.ts'
import { resolveBounds } from './bounds.ts'
import { enforce } from './data-loss.ts'
import type { DataLossFinding } from './data-loss.ts'
import { SluiceError } from './errors.ts'
import { checkOrder, needsSplit, numbersFor, splitLateRanges } from './late-ranges.ts'
import type { BoundNumbers, LateRange } from './late-ranges.ts'
import { namedPartitions } from './offset-range-limit.ts'
import { entriesOf, offsetAt, offsetsOf } from './offsets.ts'
import type { TopicPartition } from './offsets.ts'
import type { OffsetReader, RangeReader, RecordBatch } from './ports.ts'
import type { OffsetRange } from './ranges.ts'

export interface BoundedReadContext {
  readonly options: BatchOptions
  readonly offsets: OffsetReader
  readonly ranges: RangeReader
}

export interface BoundedPlan {
  /** All partitions of the read, also those that hold nothing. */
  readonly partitions: readonly TopicPartition[]
  readonly pieces: readonly LateRange[]
}

/**
 * @throws TOPIC_NOT_FOUND, KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED, RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET and
 * what else resolving throws
 */
export async function planBoundedRead(
  { options, offsets }: Pick<BoundedReadContext, 'options' | 'offsets'>,
  signal: AbortSignal
): Promise<BoundedPlan> {
  const named = [...namedPartitions(options.startingOffsets), ...namedPartitions(options.endingOffsets)]
  const known = named.length === 0 ? undefined : { partitions: named, topicIds: new Map() }
  const { partitions } = await offsets.assigned(signal, known)
  const ranges = await resolveBounds(options, partitions, offsets, signal)
  for (const range of ranges) checkOrder(range)
  if (!needsSplit(ranges, options)) return { partitions, pieces: ranges }
  const numbers = await numbersOf(ranges, offsets, signal)
  for (const range of ranges) {
    const found = numbersFor(range, numbers)
    if (found !== null) checkOrder(found)
  }
  return { partitions, pieces: splitLateRanges(ranges, numbers, options) }
}

/** What the words stand for now. Partitions that vanished meanwhile are absent. */
async function numbersOf(
  ranges: readonly LateRange[],
  offsets: OffsetReader,
  signal: AbortSignal
): Promise<BoundNumbers> {
  const fixed = (end: 'from' | 'until') =>
    ranges.flatMap(({ topic, partition, [end]: bound }) =>
      typeof bound === 'bigint' ? [{ topic, partition, offset: bound }] : []
    )
  const worded = (end: 'from' | 'until') => ranges.filter((range) => typeof range[end] !== 'bigint')
  const earliest = await offsets.earliest(worded('from'), signal)
  const latest = await offsets.latest(worded('until'), signal)
  return {
    from: offsetsOf([...fixed('from'), ...entriesOf(earliest)]),
    until: offsetsOf([...fixed('until'), ...entriesOf(latest)]),
  }
}

/**
 * The records of one piece, its words bound now. Returns the offsets that were gone and were skipped: only with
 * failOnDataLoss=false.
 * @throws RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET, KAFKA_DATA_LOSS and what else reading throws
 */
export async function* readPiece(
  { options, offsets, ranges }: BoundedReadContext,
  piece: LateRange,
  signal: AbortSignal
): AsyncGenerator<RecordBatch, readonly DataLossFinding[]> {
  const { failOnDataLoss } = options
  const from = piece.from === 'earliest' ? offsetAt(await offsets.earliest([piece], signal), piece) : piece.from
  const latest = piece.isFinal ? offsetAt(await offsets.latest([piece], signal), piece) : null
  if (from === undefined || latest === undefined) return enforce([goneFinding(piece)], failOnDataLoss)
  const { topic, partition } = piece
  // Not final: a number.
  const until = piece.until === 'latest' ? (latest ?? from) : piece.until
  if (piece.isFinal) checkOrder({ topic, partition, from, until })
  const end = latest === null || until < latest ? until : latest
  const beyond = end < until ? [missingFinding({ topic, partition, from: from > end ? from : end, until })] : []
  const lost = enforce(beyond, failOnDataLoss, new Error(`the log ends at offset ${end}`))
  if (from >= end) return lost
  const { dataLoss } = yield* ranges.read({ topic, partition, from, until: end }, options.isolationLevel, signal)
  return [...dataLoss, ...lost]
}

/** An end beyond the log's would only wait for records that nobody has written. */
const missingFinding = (range: OffsetRange): DataLossFinding => ({ ...range, reason: 'COULD_NOT_READ_OFFSET_RANGE' })

const goneFinding = ({ topic, partition, from }: LateRange): DataLossFinding => {
  const at = typeof from === 'bigint' ? from : 0n
  return { topic, partition, from: at, until: at, reason: 'PARTITIONS_DELETED' }
}

export interface ReadRequest {
  /** Pieces at a time. Within a piece records come in order. */
  readonly parallelism: number
  /** A piece was read to its end; what it lost with failOnDataLoss=false. */
  readonly onPiece: (piece: LateRange, dataLoss: readonly DataLossFinding[]) => void
}

/** All pieces, some side by side. Ends, also early or by an error, only when every reading has unwound (P20). */
export async function* readPieces(
  context: BoundedReadContext,
  pieces: readonly LateRange[],
  { parallelism, onPiece }: ReadRequest,
  signal: AbortSignal
): AsyncGenerator<RecordBatch, void> {
  const stopped = new AbortController()
  const either = AbortSignal.any([signal, stopped.signal])
  const hand = handover<RecordBatch>()
  const queue = [...pieces]
  const worker = async (): Promise<void> => {
    for (let piece = queue.shift(); piece !== undefined && !either.aborted; piece = queue.shift()) {
      const reading = readPiece(context, piece, either)
      let next = await reading.next()
      for (; next.done !== true; next = await reading.next()) await hand.give(next.value)
      onPiece(piece, next.value)
    }
  }
  const failures: unknown[] = []
  const workers = Promise.all(
    Array.from({ length: parallelism }, () =>
      worker().catch((error: unknown) => {
        failures.push(error)
        stopped.abort()
        hand.close()
      })
    )
  ).then(() => hand.close())
  try {
    yield* hand.taken()
  } finally {
    stopped.abort()
    hand.close()
    await workers
  }
  if (signal.aborted) throw new SluiceError('ABORTED', { step: 'The read' }, signal.reason)
  if (failures.length > 0) throw failures[0]
}

interface Handover<T> {
  /** Settles when the value was taken, or when nobody will take it. */
  give(value: T): Promise<void>
  taken(): AsyncGenerator<T, void>
  close(): void
}

/** Many givers, one taker, nothing held beside what each giver holds out. */
function handover<T>(): Handover<T> {
  const offered: { value: T; taken: () => void }[] = []
  let isClosed = false
  let wake = Promise.withResolvers<void>()
  const close = (): void => {
    isClosed = true
    for (const { taken } of offered.splice(0)) taken()
    wake.resolve()
  }
  return {
    give(value) {
      if (isClosed) return Promise.resolve()
      const { promise, resolve } = Promise.withResolvers<void>()
      offered.push({ value, taken: resolve })
      wake.resolve()
      return promise
    },
    async *taken() {
      for (;;) {
        const next = offered.shift()
        if (next !== undefined) {
          next.taken() // the giver reads on while this value is worked on
          yield next.value
        } else if (isClosed) return
        else {
          wake = Promise.withResolvers()
          await wake.promise
        }
      }
    },
    close,
  }
}
