/** What a function's process keeps while it is warm. Correctness never depends on it: each use would do with new parts. */
import { createHash } from 'node:crypto'
import type { FunctionParts } from '../src/runtime.ts'
import type { StepContext } from '../src/steps.ts'

/** As long as connections to brokers may be idle. */
export const MAX_IDLE_MS = 300_000

interface Kept {
  readonly parts: FunctionParts
  readonly environment: string
  /** By the clock on the wall: that of the process stands still while it is frozen. */
  readonly sinceMs: number
}

export class WarmParts {
  readonly #open: () => FunctionParts
  #kept: Kept | null = null

  constructor(open: () => FunctionParts) {
    this.#open = open
  }

  /**
   * Works with the parts of the use before, or with new ones where those lay idle for too long or the environment is another:
   * it holds brokers, logins and endpoints. After a failure or an abort they are ended before this settles (P20).
   */
  async use<R>(signal: AbortSignal, step: (context: StepContext['batch']) => Promise<R>): Promise<R> {
    const environment = environmentDigest()
    const parts = (await this.#take(environment)) ?? this.#open()
    try {
      const answer = await step(await parts.context(signal))
      if (signal.aborted || this.#kept !== null) await parts.close()
      else this.#kept = { parts, environment, sinceMs: Date.now() }
      return answer
    } catch (error) {
      await parts.close()
      throw error
    }
  }

  /** Out of the hands of whoever comes meanwhile. */
  async #take(environment: string): Promise<FunctionParts | null> {
    const kept = this.#kept
    this.#kept = null
    if (kept === null) return null
    if (kept.environment === environment && Date.now() - kept.sinceMs < MAX_IDLE_MS) return kept.parts
    await kept.parts.close()
    return null
  }
}

/** The platform names the trace of each invocation there. */
const EACH_TIME_ANOTHER = '_X_AMZN_TRACE_ID'

/** Of all variables, since options may refer to any; a digest, since some are secrets. */
function environmentDigest(): string {
  const variables = { ...process.env, [EACH_TIME_ANOTHER]: undefined }
  return createHash('sha256').update(JSON.stringify(variables)).digest('hex')
}
