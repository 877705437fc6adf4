/** What a planned range means where the broker holds the wanted offset no more (spark-semantics 5). Pure. */

export type OutOfRangeVerdict =
  /** The offset is there after all: the broker that refused it was behind. */
  | { readonly kind: 'reappeared' }
  /** Offsets from the wanted one up to `until` are gone; reading goes on there. */
  | { readonly kind: 'gone'; readonly until: bigint }

/**
 * @param wanted the offset that the broker called out of range
 * @param until end of the planned range
 * @param earliest first offset of the log, asked for afterwards
 * @param latest end of the log, asked for afterwards
 */
export function judgeOutOfRange(wanted: bigint, until: bigint, earliest: bigint, latest: bigint): OutOfRangeVerdict {
  if (wanted >= latest || earliest >= until) return { kind: 'gone', until }
  return wanted >= earliest ? { kind: 'reappeared' } : { kind: 'gone', until: earliest }
}
