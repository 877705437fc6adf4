/**
 * The logs in memory, for tests of what stands above them. A store outlives its logs as a table outlives processes, so
 * a test can let one "process" die and open the next on the same store.
 */
import { SluiceError } from '../../src/errors.ts'
import type { Clock, EntryKey, MetadataLog } from '../../src/ports.ts'

interface StoredEntry {
  readonly entry: string
  readonly createdAt: number
}

/** `<query>@<generation>/<log>` -> id -> entry */
export type MemoryLogStore = Map<string, Map<number | string, StoredEntry>>

export const memoryLogStore = (): MemoryLogStore => new Map()

export interface LogOperation {
  readonly call: keyof MetadataLog
  readonly log: string
  /** Null for calls on a whole log. */
  readonly id: EntryKey['id'] | null
}

/** Called around every operation. What `before` throws happens instead of it; what `after` throws hides its answer. */
export interface LogHooks {
  before?(operation: LogOperation): void | Promise<void>
  after?(operation: LogOperation): void | Promise<void>
}

export interface MemoryLogOptions {
  readonly store?: MemoryLogStore
  readonly query?: string
  readonly generation?: number
  readonly clock?: Clock
  readonly hooks?: LogHooks
}

export function memoryLog(options: MemoryLogOptions = {}): MetadataLog {
  const { store = memoryLogStore(), query = 'query', generation = 1, clock = Date, hooks = {} } = options
  const entriesOf = (log: string): Map<number | string, StoredEntry> => {
    const pk = `${query}@${generation}/${log}`
    const entries = store.get(pk) ?? new Map<number | string, StoredEntry>()
    store.set(pk, entries)
    return entries
  }
  const numbers = (log: string): number[] =>
    [...entriesOf(log).keys()].filter((id) => typeof id === 'number').toSorted((a, b) => a - b)

  async function run<T>(operation: LogOperation, signal: AbortSignal, effect: () => T): Promise<T> {
    await hooks.before?.(operation)
    if (signal.aborted)
      throw new SluiceError('ABORTED', { step: `${operation.call} ${operation.log}/${operation.id ?? ''}` })
    const answer = effect()
    await hooks.after?.(operation)
    return answer
  }

  return {
    add: ({ log, id }, entry, signal) =>
      run({ call: 'add', log, id }, signal, () => {
        const stored = entriesOf(log).get(id)
        if (stored) return { kind: 'exists', entry: stored.entry } as const
        entriesOf(log).set(id, { entry, createdAt: clock.now() })
        return { kind: 'added' } as const
      }),
    get: ({ log, id }, signal) => run({ call: 'get', log, id }, signal, () => entriesOf(log).get(id)?.entry ?? null),
    newest: (log, signal) => run({ call: 'newest', log, id: null }, signal, () => numbers(log).at(-1) ?? null),
    list: (log, signal) =>
      run({ call: 'list', log, id: null }, signal, () => {
        const words = [...entriesOf(log).keys()].filter((id) => typeof id === 'string').toSorted()
        return [...numbers(log), ...words].map((id) => ({ id, entry: entriesOf(log).get(id)?.entry ?? '' }))
      }),
    idsUpTo: (log, upTo, minAgeMs, signal) =>
      run({ call: 'idsUpTo', log, id: null }, signal, () =>
        numbers(log).filter(
          (id) => id <= upTo && (entriesOf(log).get(id)?.createdAt ?? Infinity) <= clock.now() - minAgeMs
        )
      ),
    remove: ({ log, id }, signal) =>
      run({ call: 'remove', log, id }, signal, () => {
        entriesOf(log).delete(id)
      }),
  }
}
