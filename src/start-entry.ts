/** The text of `sources/0`: where the query starts, frozen by its first plan (P16). */
import type { TopicIds } from './data-loss.ts'
import { entryName, logKeys } from './log.ts'
import { LOG_VERSION, decodeEntry, offsetsOfField, topicIdsFrom } from './log-codec.ts'
import { offsetsToObject, stringifyExact } from './offsets.ts'
import type { PartitionOffsets } from './offsets.ts'

export interface StartEntry {
  readonly start: PartitionOffsets
  /** Of its topics: one that is created again is known before there is any batch (N4). */
  readonly topicIds: TopicIds
}

export const encodeStart = ({ start, topicIds }: StartEntry): string =>
  stringifyExact({ v: LOG_VERSION, offsets: offsetsToObject(start), topicIds: [...topicIds] })

/** @throws LOG_ENTRY_UNREADABLE, UNSUPPORTED_LOG_VERSION */
export const decodeStart = (text: string): StartEntry =>
  decodeEntry(entryName(logKeys.source), text, (json) => ({
    start: offsetsOfField(json['offsets'], 'offsets'),
    topicIds: topicIdsFrom(json['topicIds']),
  }))
