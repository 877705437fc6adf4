/** Offset ranges and how a batch is cut into them: spark-semantics 3.1, checked against Spark's own results. */
import type { TopicPartition } from './offsets.ts'

/** `[from, until)` of one partition. */
export interface OffsetRange extends TopicPartition {
  readonly from: bigint
  readonly until: bigint
}
