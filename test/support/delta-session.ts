/** Many looks at Delta tables by one delta-rs process: starting it costs more than reading a small table. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { readersPython } from './delta-reader.ts'
import type { DeltaContents, DeltaReadOptions } from './delta-reader.ts'

export interface DeltaSession extends AsyncDisposable {
  /** As `readDelta`. */
  read(uri: string, options?: DeltaReadOptions): Promise<DeltaContents>
  close(): Promise<void>
}

export function openDeltaSession(): DeltaSession {
  const child = spawn(readersPython, [join(import.meta.dirname, 'read_delta.py')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  let last: Promise<unknown> = Promise.resolve()
  const ask = async (request: object): Promise<DeltaContents> => {
    child.stdin.write(`${JSON.stringify(request)}\n`)
    const answer: string[] = []
    for (let next = await lines.next(); next.value !== ''; next = await lines.next()) {
      if (next.done === true) throw new Error('the delta-rs process ended')
      answer.push(next.value)
    }
    const [about = '', ...rows] = answer
    const table: Omit<DeltaContents, 'rows'> & { error?: string } = JSON.parse(about)
    if (table.error !== undefined) throw new Error(table.error)
    return { ...table, rows: rows.map((row): DeltaContents['rows'][number] => JSON.parse(row)) }
  }
  const close = async (): Promise<void> => {
    child.stdin.end()
    await exited
  }
  return {
    read(uri, options = {}) {
      const answer = last.then(() => ask({ uri, ...options }))
      last = answer.catch(() => {})
      return answer
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}
