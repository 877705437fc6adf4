/** What a whole process costs, from its start to its end, whatever it is written in. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

export interface ProcessCost {
  readonly wallS: number
  /** User and system time of the process and of those that it waited for. */
  readonly cpuS: number
  /** Its peak. */
  readonly rssMb: number
  readonly stdout: string
}

/** By figure, one of each round. */
export type Costs = ReadonlyMap<string, readonly ProcessCost[]>

/** Node does not tell what a child has used; Python's wait4 does. It runs the rest of its arguments and prints three numbers. */
const waiter = `
import os, sys, time
started = time.monotonic()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(pid, 0)
kilobytes = used.ru_maxrss if sys.platform != 'darwin' else used.ru_maxrss / 1024
print(time.monotonic() - started, used.ru_utime + used.ru_stime, kilobytes / 1024, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
`

/** @throws Error with what the process printed, where it fails */
export async function processCost(command: readonly string[]): Promise<ProcessCost> {
  const child = spawn('python3', ['-c', waiter, ...command], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  const [wallS = NaN, cpuS = NaN, rssMb = NaN] = (stderr.trim().split('\n').at(-1) ?? '').split(' ').map(Number)
  if (code !== 0) throw new Error(`${command.slice(0, 3).join(' ')} failed:\n${stderr}\n${stdout}`)
  return { wallS, cpuS, rssMb, stdout: stdout.trim() }
}
