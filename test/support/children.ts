/** Node processes of a test's own, whose lines it reads. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'

export interface Child {
  readonly pid: number
  /** The next line it prints. @throws when it ends before */
  nextLine(): Promise<string>
  /** All lines that it printed and nobody read yet. */
  rest(): Promise<string[]>
  say(line: string): void
  /** SIGKILL; resolves once it is gone. */
  kill(): Promise<void>
}

/** Runs a TypeScript file beside this one by this process's Node. */
export function startChild(file: string, ...args: readonly string[]): Child {
  const script = new URL(file, import.meta.url).pathname
  const child: ChildProcessByStdio<Writable, Readable, null> = spawn(process.execPath, [script, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    pid: child.pid ?? -1,
    async nextLine() {
      const { value, done } = await lines.next()
      if (done) throw new Error(`${file} ${args.join(' ')} ended`)
      return value
    },
    async rest() {
      const found: string[] = []
      for (let next = await lines.next(); !next.done; next = await lines.next()) found.push(next.value)
      return found
    },
    say: (line) => void child.stdin.write(`${line}\n`),
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}
