/** How long failing attempts go on: leaders move, brokers restart, connections break, and none of it is an error at once. */
import type { SluiceError } from '../errors.ts'
import { pause } from './abort.ts'

/**
 * Milliseconds from the first failure in a row to giving up. A killed leader is replaced after the brokers' session
 * time-out: 9 s by default with KRaft, 18 s with ZooKeeper.
 */
const PATIENCE_MS = 20_000
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 1_000

export class Patience {
  readonly #step: string
  #failingSince: number | null = null
  #pauseMs = FIRST_PAUSE_MS

  /** @param step names the work in ABORTED. */
  constructor(step: string) {
    this.#step = step
  }

  /** Something succeeded: the next failure is a first one again. */
  renew(): void {
    this.#failingSince = null
    this.#pauseMs = FIRST_PAUSE_MS
  }

  /** Waits, longer each time, before the next attempt. @throws the failure itself once it has lasted too long; ABORTED */
  async afterFailure(failure: SluiceError, signal: AbortSignal): Promise<void> {
    const now = performance.now()
    this.#failingSince ??= now
    if (now - this.#failingSince >= PATIENCE_MS) throw failure
    await pause(this.#pauseMs, signal, this.#step)
    this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS)
  }
}
