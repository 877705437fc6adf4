/** A staged sink in memory that keeps the port's promises: P2, P3 and P12 hold as in a table. */
import { SluiceError } from '../../src/errors.ts'
import type { BatchId, CommitMessage, Sink, TaskId } from '../../src/ports.ts'
import type { RowBatch } from '../../src/schema.ts'

export interface MemoryTable {
  /** Object name -> rows. */
  readonly objects: Map<string, readonly string[]>
  readonly commits: (BatchId & { readonly objects: readonly string[] })[]
  /** Target, schema and partitioning; a deployment changes it. */
  fingerprint: string
  /** Writers that dropped what they had. */
  aborted: number
}

export const memoryTable = (): MemoryTable => ({ objects: new Map(), commits: [], fingerprint: 'table', aborted: 0 })

/** The values of the visible rows, sorted: those of committed objects. */
export const rowsOf = (table: MemoryTable): string[] =>
  table.commits.flatMap(({ objects }) => objects.flatMap((name) => table.objects.get(name) ?? ['missing'])).toSorted()

type Hook = (operation: string) => void | Promise<void>

export function memorySink(table: MemoryTable, before: Hook = () => {}, after: Hook = () => {}): Sink {
  const effect = async <T>(operation: string, signal: AbortSignal, work: () => T): Promise<T> => {
    if (signal.aborted) throw new SluiceError('ABORTED', { step: operation })
    await before(operation)
    if (signal.aborted) throw new SluiceError('ABORTED', { step: operation })
    const answer = work()
    await after(operation)
    return answer
  }
  return {
    description: 'MemoryTable',
    guarantee: 'exactlyOnce',
    effect: 'staged',
    async check(queryId, { committed }) {
      const recorded = table.commits.findLast((c) => c.queryId === queryId)?.batchId
      if (committed !== null && (recorded ?? -1) < committed)
        throw new SluiceError('SINK_BEHIND_LOG', {
          sink: 'MemoryTable',
          recorded: String(recorded ?? 'none'),
          committed,
        })
      return table.fingerprint
    },
    createWriter: async (task, signal) => writer(table, task, (work) => effect('stage', signal, work)),
    missing: async (messages) => messages.flatMap((m) => m.objects.filter((name) => !table.objects.has(name))),
    commit: (batch, messages, signal) => effect('commit', signal, () => commit(table, batch, messages)),
    maintain: (signal) => effect('maintain', signal, () => {}),
  }
}

function writer(table: MemoryTable, task: TaskId, stage: <T>(work: () => T) => Promise<T>) {
  const rows: string[] = []
  const name = `${task.queryId}/${task.batchId}/${task.task}/${task.attempt}`
  return {
    write: async (batch: RowBatch) => {
      const values = batch.columns[1] ?? []
      for (let i = 0; i < batch.length; i++) rows.push(String(values[i]))
    },
    commit: (): Promise<CommitMessage> =>
      stage(() => {
        if (table.objects.has(name)) throw new Error(`object ${name} is written twice`)
        if (rows.length > 0) table.objects.set(name, rows)
        return { objects: rows.length > 0 ? [name] : [], rows: rows.length, bytes: 0, detail: '' }
      }),
    abort: async () => void table.aborted++,
  }
}

function commit(table: MemoryTable, batch: BatchId, messages: readonly CommitMessage[]) {
  const recorded = table.commits.findLast((c) => c.queryId === batch.queryId)
  if (recorded !== undefined && recorded.batchId >= batch.batchId) {
    if (recorded.batchId === batch.batchId && recorded.planDigest === batch.planDigest)
      return 'alreadyCommitted' as const
    const { batchId, endOffsets } = recorded
    throw new SluiceError('SINK_AHEAD_OF_LOG', {
      sink: 'MemoryTable',
      recorded: String(batchId),
      batchId: batch.batchId,
      endOffsets,
    })
  }
  table.commits.push({ ...batch, objects: messages.flatMap((m) => m.objects) })
  return 'committed' as const
}
