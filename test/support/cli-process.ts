/** The command line as a child process. */
import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Readable } from 'node:stream'

export interface FinishedProcess {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const cli = join(import.meta.dirname, '../../src/cli.mjs')

/** Starts `sluice` with these arguments. */
export const startCli = (args: readonly string[], cwd?: string): ChildProcessByStdio<null, Readable, Readable> =>
  spawn(process.execPath, [cli, ...args], { cwd, stdio: ['ignore', 'pipe', 'pipe'] })

/** Runs `sluice` to its end. */
export async function runCli(args: readonly string[], cwd?: string): Promise<FinishedProcess> {
  const child = startCli(args, cwd)
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}
