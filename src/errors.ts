/**
 * The catalogue of error conditions and the one error class. A condition's name is public API: Lambda reports it
 * as `errorType`, Step Functions matches it in Retry and Catch, the CLI prints it, tests cite it. Every message
 * names the option, partition, entry or record at fault and what to do next.
 */

interface Condition<P> {
  /** Whether the same call, made again later, can succeed without anybody changing anything. */
  readonly retryable: boolean
  readonly message: (parameters: P) => string
}

const fatal = <P>(message: (p: P) => string): Condition<P> => ({ retryable: false, message })
const transient = <P>(message: (p: P) => string): Condition<P> => ({ retryable: true, message })

const NEW_RUN = "a new run finds an end of its own, and there 'failOnDataLoss' decides about what is lost"

export const errorConditions = {
  // -- options and the query module
  OPTION_UNKNOWN: fatal(
    (p: { option: string; nearest: string | null }) =>
      `Unknown option '${p.option}'.` +
      (p.nearest === null ? ' See the option table in README.md.' : ` Did you mean '${p.nearest}'?`)
  ),
  OPTION_INVALID: fatal((p: { option: string; reason: string }) => `Option '${p.option}': ${p.reason}`),
  OPTION_CONFLICT: fatal((p: { options: string; reason: string }) => `Options ${p.options}: ${p.reason}`),
  OPTION_NOT_SUPPORTED: fatal(
    (p: { option: string; reason: string }) => `Kafka option '${p.option}' is not supported: ${p.reason}`
  ),
  QUERY_INVALID: fatal((p: { query: string; reason: string }) => `Query '${p.query}': ${p.reason}`),
  // -- Kafka
  KAFKA_UNREACHABLE: transient(
    (p: { brokers: string; reason: string }) =>
      `No broker of ${p.brokers} answered: ${p.reason}. Check kafka.bootstrap.servers, the network and the brokers' listeners.`
  ),
  KAFKA_AUTHENTICATION_FAILED: fatal(
    (p: { brokers: string; mechanism: string; reason: string }) =>
      `Broker ${p.brokers} refused the login (${p.mechanism}): ${p.reason}. Check the user and the password that the query refers to.`
  ),
  KAFKA_AUTHORIZATION_FAILED: fatal(
    (p: { resource: string; right: string }) =>
      `The principal lacks the right ${p.right} on ${p.resource}. Grant it with an ACL.`
  ),
  KAFKA_VERSION_NOT_SUPPORTED: fatal(
    (p: { broker: string; request: string; needed: string; offered: string }) =>
      `Broker ${p.broker} offers versions ${p.offered} of ${p.request}, needed is one of ${p.needed}. Kafka 2.3 and later can be read.`
  ),
  KAFKA_REQUEST_REFUSED: fatal(
    (p: { request: string; resource: string; error: string }) =>
      `Kafka refused ${p.request} for ${p.resource}: ${p.error}. The brokers' logs tell more.`
  ),
  KAFKA_TIMEOUT: transient(
    (p: { topic: string; partition: number; offset: string; timeoutMs: number }) =>
      `Cannot fetch record for offset ${p.offset} of ${p.topic}-${p.partition} in ${p.timeoutMs} milliseconds. ` +
      'The range stays unread and is tried again; raise kafkaConsumer.pollTimeoutMs if the brokers are slow.'
  ),
  TOPIC_NOT_FOUND: fatal(
    (p: { topics: string }) =>
      `Topic ${p.topics} does not exist. Create it, or correct 'subscribe' or 'assign'; nothing was created.`
  ),
  KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED: fatal(
    (p: { position: 'start' | 'end'; specified: string; assigned: string; missing: string; extra: string }) =>
      `${p.position === 'start' ? 'startingOffsets' : 'endingOffsets'} must name exactly the partitions that exist; use -1 for latest, -2 for earliest. ` +
      `Specified: ${p.specified}. Assigned: ${p.assigned}. Not specified: ${p.missing}. Not existing: ${p.extra}.`
  ),
  KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED: fatal(
    (p: { position: 'start' | 'end'; specified: string; assigned: string; missing: string; extra: string }) =>
      `${p.position === 'start' ? 'startingOffsetsByTimestamp' : 'endingOffsetsByTimestamp'} must name exactly the partitions that exist (position: ${p.position}). ` +
      `Specified: ${p.specified}. Assigned: ${p.assigned}. Not specified: ${p.missing}. Not existing: ${p.extra}.`
  ),
  // Of bounded reads, in Spark's words.
  MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET: fatal(
    (p: { start: string; end: string }) =>
      `The starting and the ending options must name the same partitions. Start: ${p.start}. End: ${p.end}.`
  ),
  UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: fatal(
    (p: { what: 'offset' | 'timestamp'; topic: string; partition: number; start: string; end: string }) =>
      `The specified start ${p.what} ${p.start} is greater than the end ${p.what} ${p.end} for topic ${p.topic} partition ${p.partition}. Exchange or correct them.`
  ),
  RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: fatal(
    (p: { topic: string; partition: number; start: string; end: string }) =>
      `The resolved start offset ${p.start} is greater than the resolved end offset ${p.end} for topic ${p.topic} partition ${p.partition}. Correct the starting or the ending option.`
  ),
  KAFKA_NO_OFFSET_FOR_TIMESTAMP: fatal(
    (p: { requests: readonly string[] }) =>
      `No offset matched from request of ${p.requests.slice(0, 100).join('; ')}${p.requests.length > 100 ? `; and ${p.requests.length - 100} more` : ''}. ` +
      "Give an earlier timestamp, or set startingOffsetsByTimestampStrategy to 'latest' to start such partitions at their end."
  ),
  KAFKA_METADATA_INCOMPLETE: transient(
    (p: { brokers: string; partitions: string }) =>
      `The brokers (${p.brokers}) do not name ${p.partitions}, although the topic is the one that had them before: what the answering broker knows is old. ` +
      'Nothing was planned; it is asked again.'
  ),
  KAFKA_DATA_LOSS: fatal(
    (p: { findings: string }) =>
      `Some data may have been lost because it is not available in Kafka any more: ${p.findings}. ` +
      "Set failOnDataLoss to 'false' to go on and have each loss reported instead."
  ),
  MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED: fatal(
    (p: { tpsForPrefetched: string; tpsForEndOffset: string }) =>
      `With Trigger.availableNow each batch ends in the topic partitions that the run found at its start. At its start: ${p.tpsForPrefetched}, ` +
      `end of the batch: ${p.tpsForEndOffset}. Start the query again: ${NEW_RUN}.`
  ),
  END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED: fatal(
    (p: { prefetchedOffset: string; endOffset: string }) =>
      `With Trigger.availableNow no batch ends beyond the offsets that the run found at its start. At its start: ${p.prefetchedOffset}, ` +
      `end of the batch: ${p.endOffset}. Start the query again: ${NEW_RUN}.`
  ),
  LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW: fatal(
    (p: { tpsForLatestOffset: string; tpsForEndOffset: string }) =>
      `Topic partitions have been lost while the query ran with Trigger.availableNow. Topic partitions now: ${p.tpsForLatestOffset}, ` +
      `end of the batch: ${p.tpsForEndOffset}. Start the query again: ${NEW_RUN}.`
  ),
  END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW: fatal(
    (p: { latestOffset: string; endOffset: string }) =>
      `Topic partitions have an available offset which is less than the end offset while the query ran with Trigger.availableNow. ` +
      `Available now: ${p.latestOffset}, end of the batch: ${p.endOffset}. Start the query again: ${NEW_RUN}.`
  ),
  CORRUPT_RECORD_BATCH: fatal(
    (p: { topic: string; partition: number; offset: string; reason: string }) =>
      `The record batch of ${p.topic}-${p.partition} at offset ${p.offset} is damaged: ${p.reason}. Nothing of this batch is written. ` +
      'If a retry meets it again the stored segment is damaged: restore it from a replica.'
  ),
  UNSUPPORTED_RECORD_BATCH: fatal(
    (p: { topic: string; partition: number; offset: string; reason: string }) =>
      `The record batch of ${p.topic}-${p.partition} at offset ${p.offset} cannot be read: ${p.reason}.`
  ),
  KAFKA_RESPONSE_MALFORMED: transient(
    (p: { api: string; reason: string }) =>
      `A broker's ${p.api} answer cannot be parsed: ${p.reason}. It is asked for again; if this stays, something between client and broker damages the stream.`
  ),
  KAFKAJS_SHAPE_CHANGED: fatal(
    (p: { what: string }) =>
      `kafkajs does not have the internal '${p.what}' that 2.2.4 has. Install kafkajs 2.2.4 exactly.`
  ),
  KAFKA_MALFORMED_RECORD_TIMESTAMP: fatal(
    (p: { topic: string; partition: number; offset: string; timestamp: string }) =>
      `The timestamp ${p.timestamp} ms of ${p.topic}-${p.partition} at offset ${p.offset} does not fit into microseconds. ` +
      'The producer most likely wrote nanoseconds: correct it there.'
  ),
  // -- the mapping
  MAPPING_FAILED: fatal(
    (p: { topic: string; partition: number; offset: string; reason: string }) =>
      `The mapping failed on ${p.topic}-${p.partition} at offset ${p.offset}: ${p.reason}. ` +
      'Correct the mapping, or return null for records to drop; the batch is replayed.'
  ),
  // -- formats, in Spark's words
  MALFORMED_RECORD_IN_PARSING: fatal(
    (p: { subclass: string; reason: string }) =>
      `Malformed records are detected in record parsing (${p.subclass}): ${p.reason}. ` +
      'To process malformed records as null results, set the mode to PERMISSIVE'
  ),
  PARSE_MODE_UNSUPPORTED: fatal(
    (p: { function: string; mode: string }) =>
      `The function ${p.function} doesn't support the ${p.mode} mode. Acceptable modes are PERMISSIVE and FAILFAST; to drop a record let the mapping return null.`
  ),
  TOPIC_RECREATED: transient(
    (p: { topic: string }) =>
      `Topic ${p.topic} was deleted and created again while it was read. Nothing of this attempt counts; the next one reports the loss.`
  ),
  // -- the logs
  CONCURRENT_STREAM_LOG_UPDATE: transient(
    (p: { entry: string; holder: string }) =>
      `Multiple runs detected: ${p.entry} was written by run ${p.holder}. Only one run may work on a query; this one stops.`
  ),
  LOG_ENTRY_MISSING: fatal(
    (p: { entry: string; because: string }) =>
      `${p.entry} doesn't exist (${p.because}). The log has a hole: restore the table to a point in time, or start a new query name.`
  ),
  LOG_ENTRY_UNREADABLE: fatal(
    (p: { entry: string; reason: string }) =>
      `${p.entry} cannot be read: ${p.reason}. Restore the table to a point in time before it was changed.`
  ),
  UNSUPPORTED_LOG_VERSION: fatal(
    (p: { entry: string; found: number | string; supported: number }) =>
      `${p.entry} has version v${p.found}, the maximum supported log version is v${p.supported}. It was written by a newer release: deploy that release.`
  ),
  STREAMING_CHECKPOINT_MISSING_METADATA: fatal(
    (p: { query: string }) =>
      `The log of query '${p.query}' holds entries but no metadata. A new query id would break exactly-once in the sink: restore the table.`
  ),
  LOG_STORE_UNREACHABLE: transient(
    (p: { table: string; step: string; reason: string }) =>
      `${p.step}: table ${p.table} did not answer: ${p.reason}. It is tried again; check the endpoint, the network and the table's limits if this stays.`
  ),
  LOG_STORE_DENIED: fatal(
    (p: { table: string; step: string; reason: string }) =>
      `${p.step}: table ${p.table} refused the request: ${p.reason}. Check the credentials and their rights on this table and its leading keys.`
  ),
  LOG_TABLE_MISSING: fatal(
    (p: { table: string }) =>
      `Table ${p.table} does not exist in the account and region of the credentials. Check the table's name and the region, or deploy the stack.`
  ),
  LOG_TABLE_UNUSABLE: fatal(
    (p: { table: string; step: string; reason: string }) =>
      `${p.step}: table ${p.table} cannot hold the logs: ${p.reason}. It needs the partition key 'pk' and the sort key 'sk', both strings.`
  ),
  // -- sinks
  SINK_AHEAD_OF_LOG: fatal(
    (p: { sink: string; recorded: string; batchId: number | null; endOffsets: string }) =>
      `${p.sink} already records batch ${p.recorded}, which the log (newest batch ${p.batchId ?? 'none'}) did not plan. The log was restored to an earlier time or belongs to another query. ` +
      `The sink's end offsets are ${p.endOffsets}: start a new query from them.`
  ),
  SINK_BEHIND_LOG: fatal(
    (p: { sink: string; recorded: string; committed: number }) =>
      `${p.sink} does not hold the batches of this query: the log has committed batch ${p.committed}, the sink's newest is ${p.recorded}. It is another table, or was restored to an earlier time. ` +
      'Name the table that holds them, or give the query another name and say by startingOffsets where it begins.'
  ),
  TABLE_SCHEMA_MISMATCH: fatal(
    (p: { table: string; differences: string }) =>
      `Table ${p.table} has another schema than the query: ${p.differences}. Change the query's schema or write to another table.`
  ),
  NOT_A_DELTA_TABLE: fatal(
    (p: { table: string; reason: string }) =>
      `${p.table} is not a Delta table: ${p.reason}. Choose an empty path or an existing Delta table.`
  ),
  UNSUPPORTED_DELTA_TABLE: fatal(
    (p: { table: string; reason: string }) => `Delta table ${p.table} cannot be written: ${p.reason}.`
  ),
  DELTA_LOG_CORRUPT: fatal(
    (p: { table: string; version: number; reason: string }) =>
      `Version ${p.version} of Delta table ${p.table} cannot be read: ${p.reason}.`
  ),
  DELTA_TABLE_CHANGED: transient(
    (p: { table: string; reason: string }) =>
      `Delta table ${p.table} changed while the batch was being committed: ${p.reason}. The batch is not in the table; it is tried again.`
  ),
  ROW_INVALID: fatal(
    (p: { column: string; reason: string }) =>
      `Column '${p.column}': ${p.reason}. Correct the mapping or the schema; nothing of this batch is visible and it is replayed.`
  ),
  OBJECT_STORE_FAILED: transient((p: { object: string; reason: string }) => `Object ${p.object}: ${p.reason}.`),
  OBJECT_STORE_REFUSED: fatal(
    (p: { object: string; reason: string; remedy: string }) => `Object ${p.object}: ${p.reason}. ${p.remedy}`
  ),
  // -- functions
  EVENT_MALFORMED: fatal(
    (p: { reason: string }) =>
      `The event is malformed: ${p.reason}. Start the state machine with {} or {"trigger":"availableNow"}; its functions are not called by hand.`
  ),
  QUERY_NOT_IN_LOG: fatal(
    (p: { query: string; table: string }) =>
      `Table ${p.table} does not know query '${p.query}', although one of its batches is to be worked on. Was the table replaced? Point the functions at the query's own table.`
  ),
  FUNCTION_MISCONFIGURED: fatal(
    (p: { variable: string }) =>
      `The environment variable ${p.variable} is missing or malformed. Deploy the functions by the construct, which sets it.`
  ),
  OFFSET_STOPS_WORKER: fatal(
    (p: { offsets: string; starts: number }) =>
      `Nothing smaller is left to try: ${p.offsets} was started ${p.starts} times, and each worker ended without a report or an error, for want of memory or of time. ` +
      'Give the worker more memory or time, or correct the mapping if it never ends on this record; the next run tries again.'
  ),
  STEP_OUT_OF_TIME: transient(
    (p: { step: string; seconds: number }) =>
      `The ${p.step} did not finish within ${p.seconds} s and stopped without effect. It is tried again; if it stays, ` +
      'give the function more memory or time, or make its work smaller with maxRecordsPerPartition or maxOffsetsPerTrigger.'
  ),
  STAGED_OUTPUT_UNUSABLE: fatal(
    (p: { batchId: number; tries: number; reason: string }) =>
      `The staged output of batch ${p.batchId} was written ${p.tries} times and is still unusable: ${p.reason}. ` +
      'See that the committer may read what the workers write, and that no deployment is half done; the next run tries again.'
  ),
  // -- local runs
  DIRECTORY_IN_USE: fatal(
    (p: { directory: string; holder: string }) =>
      `Directory ${p.directory} is in use by ${p.holder}. Stop that run, or choose another --local directory.`
  ),
  DIRECTORY_UNUSABLE: fatal(
    (p: { directory: string; reason: string }) =>
      `Directory ${p.directory} cannot be used: ${p.reason}. Choose a --local directory that this user can write to.`
  ),
  ABORTED: transient(
    (p: { step: string }) => `${p.step} was aborted before its end; it has no effect and is tried again.`
  ),
} as const

export type ErrorCondition = keyof typeof errorConditions
type ParametersOf<C extends ErrorCondition> = Parameters<(typeof errorConditions)[C]['message']>[0]

/** The one error class. `name` is the condition; `parameters` hold no secret. */
export class SluiceError<C extends ErrorCondition = ErrorCondition> extends Error {
  override readonly name: C
  readonly parameters: ParametersOf<C>
  readonly retryable: boolean

  constructor(condition: C, parameters: ParametersOf<C>, cause?: unknown) {
    const entry = errorConditions[condition] as Condition<ParametersOf<C>>
    super(entry.message(parameters), cause === undefined ? undefined : { cause })
    this.name = condition
    this.parameters = parameters
    this.retryable = entry.retryable
  }
}

export const isSluiceError = (e: unknown, condition?: ErrorCondition): e is SluiceError =>
  e instanceof SluiceError && (condition === undefined || e.name === condition)

export const reasonOf = (e: unknown): string => (e instanceof Error ? e.message : String(e))
