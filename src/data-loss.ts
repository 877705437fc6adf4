/** What was expected in Kafka and is not there (spark-semantics 3 and 5). */
import type { TopicPartition } from './offsets.ts'

/** The reason, in the words of Spark's KAFKA_DATA_LOSS sub-conditions. */
export type DataLossReason =
  | 'INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS'
  | 'ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO'
  | 'PARTITIONS_DELETED'
  | 'PARTITION_OFFSET_CHANGED'
  | 'COULD_NOT_READ_OFFSET_RANGE'
  | 'TOPIC_RECREATED'

/** One loss: offsets `[from, until)` of a partition that nobody will deliver. */
export interface DataLossFinding extends TopicPartition {
  readonly reason: DataLossReason
  readonly from: bigint
  readonly until: bigint
}
