/** Why bytes cannot be decoded, before it is known whose bytes they are: record-batch.ts adds topic, partition and offset. */

/** The bytes contradict the format; becomes CORRUPT_RECORD_BATCH. */
export class DamagedBytes extends Error {}

/** The bytes may be sound, but are not decoded here; becomes UNSUPPORTED_RECORD_BATCH. */
export class UnsupportedBytes extends Error {}
