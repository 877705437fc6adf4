/**
 * Which batches of one Fetch answer belong to aborted transactions. The broker lists those that overlap what it
 * answers, by producer and first offset, in no promised order (B20); an abort marker ends one. The list comes anew with each answer, so
 * a transaction whose marker lies in a later answer is listed in both, and no state passes from one to the next.
 */
import type { BatchHeader } from './batch-header.ts'

export interface AbortedTransaction {
  readonly producerId: bigint
  readonly firstOffset: bigint
}

export class AbortedTransactions {
  /** By first offset, the next one last. */
  readonly #pending: AbortedTransaction[]
  readonly #active = new Set<bigint>()

  constructor(aborted: readonly AbortedTransaction[]) {
    this.#pending = aborted.toSorted((a, b) =>
      a.firstOffset < b.firstOffset ? 1 : a.firstOffset > b.firstOffset ? -1 : 0
    )
  }

  /** Told of every batch in turn, markers included: whether its producer is inside an aborted transaction here. */
  reach(header: BatchHeader): boolean {
    for (let next = this.#pending.at(-1); next !== undefined && next.firstOffset <= header.lastOffset;) {
      this.#active.add(next.producerId)
      this.#pending.pop()
      next = this.#pending.at(-1)
    }
    return this.#active.has(header.producerId)
  }

  /** An abort marker of this producer was met: what it writes from here on belongs to its next transaction. */
  ended(producerId: bigint): void {
    this.#active.delete(producerId)
  }
}
