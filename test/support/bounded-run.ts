/** A bounded read of a broker: planned once, read as often as a test asks. */
import { openBoundedRead } from '../../src/read-batch.ts'
import { parseBatchOptions } from '../../src/batch-options.ts'
import type { DataLossFinding } from '../../src/data-loss.ts'
import type { LateRange } from '../../src/late-ranges.ts'

export interface BoundedRun {
  readonly pieces: readonly LateRange[]
  /** Reads the plan: `partition:offset` of each record, ordered. */
  positions(): Promise<readonly string[]>
  /** The values as text, in order of partition and offset. */
  values(): Promise<readonly (string | null)[]>
  /** What was lost, of all readings. */
  readonly lost: readonly DataLossFinding[]
}

const { signal } = new AbortController()

/** Opens a read, plans it, works with it and closes it. */
export async function boundedRun<T>(
  options: Readonly<Record<string, unknown>>,
  work: (run: BoundedRun) => Promise<T>
): Promise<T> {
  const read = openBoundedRead(parseBatchOptions({ 'fetchOffset.retryIntervalMs': 10, ...options }, () => undefined))
  try {
    const plan = await read.plan(signal)
    const lost: DataLossFinding[] = []
    const records = async () => {
      const found: { partition: number; offset: bigint; value: string | null }[] = []
      const onPiece = (_piece: unknown, loss: readonly DataLossFinding[]): void => void lost.push(...loss)
      for await (const batch of read.records(plan, { parallelism: 3, onPiece }, signal))
        for (let i = 0; i < batch.length; i++) {
          const value = batch.value(i)
          found.push({
            partition: batch.partition,
            offset: batch.offset(i),
            value: value === null ? null : Buffer.from(value).toString(),
          })
        }
      return found.toSorted((a, b) => a.partition - b.partition || Number(a.offset - b.offset))
    }
    return await work({
      pieces: plan.pieces,
      lost,
      positions: async () => (await records()).map(({ partition, offset }) => `${partition}:${offset}`),
      values: async () => (await records()).map(({ value }) => value),
    })
  } finally {
    await read.close()
  }
}
