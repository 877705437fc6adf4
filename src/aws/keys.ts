/**
 * Where entries stand in the state table (protocol.md "Keys"). The partition key is `<query>@<generation>/<log>`, so
 * rights can be given per function by leading key and one batch's reports do not meet the limit of one key.
 */
import { SluiceError } from '../errors.ts'
import type { EntryKey } from '../ports.ts'

export const PARTITION_KEY = 'pk'
export const SORT_KEY = 'sk'

/** The log that holds the pieces of entries too large for one item (P6). */
export const PARTS_LOG = 'parts'

export interface LogScope {
  readonly query: string
  /** From 1; `reset` opens the next. */
  readonly generation: number
}

export interface ItemKey {
  readonly pk: string
  readonly sk: string
}

const DIGITS = 20

/**
 * The query's name as a partition key: the item that names its current generation.
 * @throws QUERY_INVALID for a name whose keys could be taken for another query's.
 */
export function queryKey(query: string): string {
  if (query === '' || /[@/]/.test(query))
    throw new SluiceError('QUERY_INVALID', { query, reason: "the name must not be empty or contain '@' or '/'" })
  return query
}

export const partitionKey = (scope: LogScope, log: string): string =>
  `${queryKey(scope.query)}@${scope.generation}/${log}`

export const itemKey = (scope: LogScope, key: EntryKey): ItemKey => ({
  pk: partitionKey(scope, key.log),
  sk: sortKey(key.id),
})

/** Numbers are padded to 20 digits, so they sort as numbers among themselves; words stand as they are. */
export function sortKey(id: number | string): string {
  if (typeof id === 'string') {
    if (id === '' || isNumericKey(id)) throw new RangeError(`'${id}' cannot be the id of an entry`)
    return id
  }
  if (!Number.isSafeInteger(id) || id < 0) throw new RangeError(`${id} cannot be the id of an entry`)
  return String(id).padStart(DIGITS, '0')
}

export const isNumericKey = (sk: string): boolean => sk.length === DIGITS && /^\d+$/.test(sk)

export const idOf = (sk: string): number | string => (isNumericKey(sk) ? Number(sk) : sk)

/** As messages name an entry: `orders@1/offsets/7`. */
export const nameInTable = (scope: LogScope, key: EntryKey): string => `${partitionKey(scope, key.log)}/${key.id}`
