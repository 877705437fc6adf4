/** The runs' lease in memory; a store outlives its leases as a table outlives processes. */
import { SluiceError } from '../../src/errors.ts'
import type { Clock, LastPass, RunLease } from '../../src/ports.ts'

export interface MemoryLeaseStore {
  holder: string | null
  token: number
  expiresAt: number
  lastPass: LastPass | null
}

export const memoryLeaseStore = (): MemoryLeaseStore => ({ holder: null, token: 0, expiresAt: 0, lastPass: null })

/** Called around every operation. What `before` throws happens instead of it; what `after` throws hides its answer. */
export interface LeaseHooks {
  before?(call: keyof RunLease): void | Promise<void>
  after?(call: keyof RunLease): void | Promise<void>
}

export interface MemoryLeaseOptions {
  readonly store?: MemoryLeaseStore
  readonly clock?: Clock
  readonly ttlMs?: number
  readonly hooks?: LeaseHooks
}

export function memoryLease(options: MemoryLeaseOptions = {}): RunLease {
  const { store = memoryLeaseStore(), clock = Date, ttlMs = 60_000, hooks = {} } = options

  async function run<T>(call: keyof RunLease, signal: AbortSignal, effect: () => T): Promise<T> {
    await hooks.before?.(call)
    if (signal.aborted) throw new SluiceError('ABORTED', { step: `${call} the lease` })
    const answer = effect()
    await hooks.after?.(call)
    return answer
  }

  const isHeldUnder = (token: number): boolean => store.holder !== null && store.token === token

  return {
    acquire: (runId, signal) =>
      run('acquire', signal, () => {
        if (store.holder !== null && store.holder !== runId && store.expiresAt > clock.now())
          return { kind: 'busy', holder: store.holder, expiresAt: store.expiresAt } as const
        if (store.holder !== runId) store.token++
        store.holder = runId
        store.expiresAt = clock.now() + ttlMs
        return { kind: 'held', token: store.token, lastPass: store.lastPass } as const
      }),
    renew: (token, signal) =>
      run('renew', signal, () => {
        if (!isHeldUnder(token)) return false
        store.expiresAt = clock.now() + ttlMs
        return true
      }),
    passed: (token, atMs, signal) =>
      run('passed', signal, () => {
        if (store.holder !== null && store.token === token) store.lastPass = { atMs, runId: store.holder }
      }),
    release: (token, signal) =>
      run('release', signal, () => {
        if (isHeldUnder(token)) store.holder = null
      }),
  }
}
