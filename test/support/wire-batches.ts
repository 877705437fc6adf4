/** Short forms for tests of the wire decoder. */
import { SluiceError } from '../../src/errors.ts'
import { encodeBatch } from './record-batch-encoder.ts'
import type { TestBatch, TestRecord } from './record-batch-encoder.ts'

export const values = (...texts: string[]): TestRecord[] => texts.map((value) => ({ value }))
export const numbered = (n: number): TestRecord[] => Array.from({ length: n }, (_, i) => ({ value: `v${i}` }))
export const batchAt = (baseOffset: bigint, records: readonly TestRecord[], more: Partial<TestBatch> = {}): Buffer =>
  encodeBatch({ baseOffset, records, ...more })
export const transactional = (baseOffset: bigint, producerId: bigint, records: readonly TestRecord[]): Buffer =>
  batchAt(baseOffset, records, { producerId, transactional: true })

/** The error that it must throw. */
export function refusal(run: () => unknown): SluiceError {
  try {
    run()
  } catch (e) {
    if (e instanceof SluiceError) return e
    throw e
  }
  throw new Error('nothing was refused')
}
