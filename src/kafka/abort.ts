/** Waiting that ends at once when the step's signal fires (P20). */
import { SluiceError } from '../errors.ts'

export function throwIfAborted(signal: AbortSignal, step: string): void {
  if (signal.aborted) throw new SluiceError('ABORTED', { step }, signal.reason)
}

/** @throws ABORTED */
export async function pause(ms: number, signal: AbortSignal, step: string): Promise<void> {
  throwIfAborted(signal, step)
  await new Promise<void>((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
  throwIfAborted(signal, step)
}
