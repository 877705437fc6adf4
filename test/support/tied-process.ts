import { spawn } from 'node:child_process'
import { openSync, closeSync } from 'node:fs'

/** A server process that cannot outlive this one. */
export interface TiedProcess {
  readonly pid: number
  /** Settles once the process is gone, however it ended. */
  readonly exited: Promise<void>
  hasExited(): boolean
  /** Sends the signal and settles once the process is gone; after `graceMs` it is killed. */
  end(signal: 'SIGTERM' | 'SIGKILL', graceMs?: number): Promise<void>
}

// The shell holds a pipe from this process: when this process dies, even by SIGKILL, the pipe closes and the server goes too.
const shell =
  'exec 4<&0; "$@" 4<&- </dev/null & pid=$!; echo $pid >&3; (read -r _ <&4; kill -9 $pid 2>/dev/null) & wait $pid'

/** Starts a command whose output goes to `logFile`; it is killed when the calling process ends in any way. */
export async function startTied(
  command: readonly string[],
  options: { logFile: string; env?: NodeJS.ProcessEnv; cwd?: string }
): Promise<TiedProcess> {
  const log = openSync(options.logFile, 'a')
  const child = spawn('sh', ['-c', shell, 'sh', ...command], {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: ['pipe', log, log, 'pipe'],
  })
  closeSync(log)
  const stdin = child.stdin
  const pidPipe = child.stdio[3]
  if (stdin === null || pidPipe === null || pidPipe === undefined)
    throw new Error('the shell was started without its pipes')
  stdin.on('error', () => {})
  let gone = false
  const exited = new Promise<void>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => {
      gone = true
      stdin.destroy()
      resolve()
    })
  })
  const pid = await Promise.race([
    new Promise<number>((resolve) => pidPipe.once('data', (text: Buffer) => resolve(Number(text.toString())))),
    exited.then(() => Promise.reject(new Error(`${command[0]} could not be started; see ${options.logFile}`))),
  ])
  return {
    pid,
    exited,
    hasExited: () => gone,
    async end(signal, graceMs = 15_000) {
      if (gone) return
      process.kill(pid, signal)
      const timer = setTimeout(() => gone || process.kill(pid, 'SIGKILL'), graceMs)
      await exited.finally(() => clearTimeout(timer))
    },
  }
}
