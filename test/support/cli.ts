/** The command line as a child process. */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const pathOf = (file: string): string => fileURLToPath(new URL(`../../${file}`, import.meta.url))

/** The path of a query module of these tests. */
export const queryModule = (name: string): string => pathOf(`test/support/queries/${name}.ts`)

export interface CliResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface CliOptions {
  /** The Node to run it by. Default: this process's. */
  readonly node?: string
  /** Of Node, before the script. */
  readonly nodeArguments?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Called with all that it has printed so far, whenever it prints. */
  readonly onOutput?: (stdout: string, child: ChildProcess) => void
}

/** Runs `sluice` with these arguments to its end. */
export async function runCli(args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  const { node = process.execPath, nodeArguments = [], env = {}, onOutput = () => {} } = options
  const child = spawn(node, [...nodeArguments, pathOf('src/cli.mjs'), ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => onOutput((stdout += text), child))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

/** How a query module of `queries/from-env.ts` is told what to be. */
export const envOf = (options: object, name = 'query'): Record<string, string> => ({
  SLUICE_TEST_QUERY: JSON.stringify({ name, options, table: 'table' }),
})
