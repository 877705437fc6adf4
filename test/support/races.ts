/** Two processes that are let go at the same moment, again and again, on one table. */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { KafkaOptions } from '../../src/index.ts'
import type { TestTable } from './dynamodb.ts'

export interface Racers extends AsyncDisposable {
  /** Both run the query; their results: finished, busy, or the condition of an error. */
  race(query: string, options: KafkaOptions, lease: boolean): Promise<readonly string[]>
}

interface Racer {
  readonly child: ChildProcess
  readonly answers: AsyncIterator<string>
}

function startRacer(table: TestTable, warehouse: string): Racer {
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, 'race-child.ts'), table.endpoint, table.table, warehouse],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    }
  )
  return { child, answers: createInterface({ input: child.stdout })[Symbol.asyncIterator]() }
}

export function startRacers(table: TestTable, warehouse: string): Racers {
  const racers = [startRacer(table, warehouse), startRacer(table, warehouse)]
  return {
    async race(query, options, lease) {
      for (const { child } of racers) child.stdin?.write(`${JSON.stringify({ query, options, lease })}\n`)
      const answers = await Promise.all(racers.map(({ answers: lines }) => lines.next()))
      return answers.map(({ value }) => String(JSON.parse(String(value))))
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(
        racers.map(async ({ child }) => {
          const ended = once(child, 'exit')
          child.stdin?.end()
          await ended
        })
      )
    },
  }
}
