/** What every command does around its work: Ctrl-C unwinds it, an error becomes one line and an exit code. */
import { SluiceError, reasonOf } from '../errors.ts'
import { stringifyExact } from '../offsets.ts'
import { EXIT, exitCodeOf } from './exit.ts'

/** Runs `work` to its exit code. `json`: a failure is an event on standard output too. */
export async function interruptible(json: boolean, work: (signal: AbortSignal) => Promise<number>): Promise<number> {
  const interrupted = new AbortController()
  const interrupt = (): void => interrupted.abort()
  // The first signal unwinds; a second one finds the default again and ends the process.
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt)
  try {
    return await work(interrupted.signal)
  } catch (error) {
    if (interrupted.signal.aborted) return EXIT.interrupted
    fail(error, json)
    return exitCodeOf(error)
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
  }
}

function fail(error: unknown, json: boolean): void {
  const condition = error instanceof SluiceError ? error.name : 'FAILED'
  if (json) process.stdout.write(`${stringifyExact({ event: 'failed', condition, message: reasonOf(error) })}\n`)
  // An error that is not in the catalogue is a defect: its stack helps whoever reports it.
  const text = error instanceof SluiceError || !(error instanceof Error) ? reasonOf(error) : (error.stack ?? '')
  process.stderr.write(`sluice: ${condition}: ${text}\n`)
}
