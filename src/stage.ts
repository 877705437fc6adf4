/** Effect 2: the rows of one task, read from Kafka exactly as planned and staged in the sink. */
import type { BatchContext } from './context.ts'
import { enforce } from './data-loss.ts'
import type { DataLossFinding, DataLossReason } from './data-loss.ts'
import { SluiceError, isSluiceError } from './errors.ts'
import type { OffsetsEntry, RangeReceipt, RangeReport } from './log.ts'
import type { DataWriter, IsolationLevel, RecordBatch, TaskId } from './ports.ts'
import type { OffsetRange } from './ranges.ts'
import { RecordHash } from './record-hash.ts'

/** What was staged, and what of the task's ranges was left unread because it was late (P14), in order. */
export interface Staged extends Pick<RangeReport, 'ranges' | 'dataLoss' | 'message'> {
  readonly rest: readonly OffsetRange[]
}

/**
 * Reads and stages a task; once it is late, what was read until then, which is never nothing. On any error, also an abort, what was
 * written is dropped before it is thrown on (P20).
 * @throws KAFKA_DATA_LOSS with failOnDataLoss, TOPIC_RECREATED where a topic changed under the read
 */
export async function stageTask(
  context: BatchContext,
  task: TaskId,
  plan: OffsetsEntry,
  signal: AbortSignal,
  isLate: () => boolean = () => false
): Promise<Staged> {
  const lost = await lostTopics(context, task, plan, signal)
  const findingsOf = (range: OffsetRange): DataLossFinding[] => {
    const reason = lost.get(range.topic)
    return reason === undefined ? [] : [{ ...range, reason }]
  }
  enforce(task.ranges.flatMap(findingsOf), context.options.failOnDataLoss)
  const dataLoss: DataLossFinding[] = []
  const writer = await context.sink.createWriter(task, signal)
  try {
    const ranges: RangeReceipt[] = []
    const rest: OffsetRange[] = []
    const { isolationLevel } = plan
    for (const range of task.ranges) {
      if (rest.length > 0 || (ranges.length > 0 && isLate())) {
        rest.push(range)
        continue
      }
      dataLoss.push(...findingsOf(range))
      const receipt = lost.has(range.topic)
        ? emptyReceipt(range)
        : await copyRange(context, { range, isolationLevel, isLate }, writer, dataLoss, signal)
      ranges.push(receipt)
      if (receipt.until < range.until) rest.push({ ...range, from: receipt.until })
    }
    const now = await lostTopics(context, task, plan, signal)
    // What was read may stem from two topics of one name. The next attempt sees the new id before its first fetch (P9).
    for (const topic of now.keys()) if (!lost.has(topic)) throw new SluiceError('TOPIC_RECREATED', { topic })
    return { ranges, dataLoss, message: await writer.commit(), rest }
  } catch (error) {
    await writer.abort()
    throw error
  }
}

async function copyRange(
  context: BatchContext,
  { range, isolationLevel, isLate }: { range: OffsetRange; isolationLevel: IsolationLevel; isLate: () => boolean },
  writer: DataWriter,
  dataLoss: DataLossFinding[],
  signal: AbortSignal
): Promise<RangeReceipt> {
  const hash = new RecordHash()
  let records = 0
  let rows = 0
  const reading = context.ranges.read(range, isolationLevel, signal, isLate)
  try {
    for (;;) {
      const next = await reading.next()
      if (next.done) {
        dataLoss.push(...next.value.dataLoss)
        const { highWatermark, stoppedAt: until = range.until } = next.value
        return { ...range, until, records, rows, bytes: hash.bytes, hash: hash.digest(), highWatermark }
      }
      records += next.value.length
      hash.update(next.value)
      const batch = context.toRows(next.value)
      rows += batch.length
      await writer.write(batch).catch((error: unknown) => {
        throw locatedIn(next.value, error)
      })
    }
  } finally {
    await reading.return({ highWatermark: null, dataLoss: [] })
  }
}

/** A row that its column refuses gets the place where its record is: a mapping may make any number of rows of one. */
function locatedIn(batch: RecordBatch, error: unknown): unknown {
  if (!isSluiceError(error, 'ROW_INVALID')) return error
  const { topic, partition, length } = batch
  const offset = length === 1 ? String(batch.offset(0)) : `${batch.offset(0)} to ${batch.offset(length - 1)}`
  return new SluiceError('MAPPING_FAILED', { topic, partition, offset, reason: error.message }, error)
}

/** Topics of the task whose id is another than the plan's, or that are gone, with what that makes of their ranges (P9). */
async function lostTopics(
  context: BatchContext,
  task: TaskId,
  plan: OffsetsEntry,
  signal: AbortSignal
): Promise<ReadonlyMap<string, DataLossReason>> {
  const topics = [...new Set(task.ranges.map((r) => r.topic))].filter((topic) => plan.topicIds.has(topic))
  if (topics.length === 0) return new Map()
  const ids = await context.offsets.topicIds(topics, signal)
  return new Map(
    topics
      .filter((topic) => ids.get(topic) !== plan.topicIds.get(topic))
      .map((topic) => [topic, ids.has(topic) ? 'TOPIC_RECREATED' : 'COULD_NOT_READ_OFFSET_RANGE'])
  )
}

const emptyReceipt = (range: OffsetRange): RangeReceipt => ({
  ...range,
  records: 0,
  rows: 0,
  bytes: 0,
  hash: new RecordHash().digest(),
  highWatermark: null,
})
