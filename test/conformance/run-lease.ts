/** What every RunLease keeps. Called by each implementation's test with a way to open leases on one store. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Clock, LeaseOutcome, RunLease } from '../../src/ports.ts'

export interface LeaseStoreUnderTest {
  /** Opens a lease of its own on the one store, as another process would. */
  open(options: { readonly query: string; readonly clock: Clock; readonly ttlMs: number }): RunLease
  close(): Promise<void>
}

const going = new AbortController().signal
const ttlMs = 1000

export function runLeaseConformance(name: string, start: () => Promise<LeaseStoreUnderTest>): void {
  describe(`run lease on ${name}`, () => {
    let store: LeaseStoreUnderTest
    beforeAll(async () => {
      store = await start()
    })
    afterAll(() => store.close())

    /** The lease of a query that no other test sees, with a clock in the test's hand. */
    const fresh = () => {
      const time = { now: 1_700_000_000_000 }
      const query = `q-${randomUUID()}`
      const open = (): RunLease => store.open({ query, clock: { now: () => time.now }, ttlMs })
      return { time, open, lease: open() }
    }
    const tokenOf = (outcome: LeaseOutcome): number => {
      if (outcome.kind === 'held') return outcome.token
      throw new Error(`busy: ${outcome.holder}`)
    }

    it('answers busy to every other run, with the holder and its expiry', async () => {
      const { lease, open, time } = fresh()
      expect((await lease.acquire('run-a', going)).kind).toBe('held')
      const busy = { kind: 'busy', holder: 'run-a', expiresAt: time.now + ttlMs }
      expect(await open().acquire('run-b', going)).toEqual(busy)
      time.now += ttlMs - 1
      expect(await open().acquire('run-b', going)).toEqual(busy)
    })

    it('goes to the next run at its expiry, with a higher token', async () => {
      const { lease, open, time } = fresh()
      const first = tokenOf(await lease.acquire('run-a', going))
      time.now += ttlMs
      const second = tokenOf(await open().acquire('run-b', going))
      expect(second).toBeGreaterThan(first)
      expect(await lease.acquire('run-a', going)).toMatchObject({ kind: 'busy', holder: 'run-b' })
    })

    it('is kept by the run that has it, under the same token, also after its expiry', async () => {
      const { lease, open, time } = fresh()
      const token = tokenOf(await lease.acquire('run-a', going))
      time.now += ttlMs / 2
      expect(await open().acquire('run-a', going)).toEqual({ kind: 'held', token, lastPass: null })
      time.now += ttlMs * 3
      expect(await open().acquire('run-a', going)).toEqual({ kind: 'held', token, lastPass: null })
      expect(await open().acquire('run-b', going)).toMatchObject({ kind: 'busy', expiresAt: time.now + ttlMs })
    })

    it('P19 renewal pushes the expiry on', async () => {
      const { lease, open, time } = fresh()
      const token = tokenOf(await lease.acquire('run-a', going))
      for (let i = 0; i < 3; i++) {
        time.now += ttlMs - 1
        expect(await open().renew(token, going)).toBe(true)
      }
      expect(await open().acquire('run-b', going)).toEqual({
        kind: 'busy',
        holder: 'run-a',
        expiresAt: time.now + ttlMs,
      })
    })

    it('P19 renews after the expiry as long as no other run has taken it', async () => {
      const { lease, time } = fresh()
      const token = tokenOf(await lease.acquire('run-a', going))
      time.now += ttlMs * 2
      expect(await lease.renew(token, going)).toBe(true)
    })

    it("P19 an old holder neither renews nor releases the new one's lease", async () => {
      const { lease, open, time } = fresh()
      const old = tokenOf(await lease.acquire('run-a', going))
      time.now += ttlMs
      const token = tokenOf(await open().acquire('run-b', going))
      expect(await lease.renew(old, going)).toBe(false)
      await lease.release(old, going)
      expect(await lease.acquire('run-a', going)).toEqual({
        kind: 'busy',
        holder: 'run-b',
        expiresAt: time.now + ttlMs,
      })
      expect(await open().renew(token, going)).toBe(true)
    })

    it('P19 frees the lease at release, and the token goes on rising', async () => {
      const { lease, open } = fresh()
      const tokens: number[] = []
      for (const run of ['run-a', 'run-b', 'run-a', 'run-a']) {
        const token = tokenOf(await open().acquire(run, going))
        tokens.push(token)
        await lease.release(token, going)
        expect(await lease.renew(token, going)).toBe(false)
        await lease.release(token, going)
      }
      expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b))
    })

    it('keeps the last check that passed over releases and expiries, with the run that made it', async () => {
      const { lease, open, time } = fresh()
      const first = tokenOf(await lease.acquire('run-a', going))
      await open().passed(first, 5000, going)
      expect(await open().acquire('run-a', going)).toMatchObject({ lastPass: { atMs: 5000, runId: 'run-a' } })
      await lease.release(first, going)
      const second = await open().acquire('run-b', going)
      expect(second).toEqual({ kind: 'held', token: first + 1, lastPass: { atMs: 5000, runId: 'run-a' } })
      await lease.passed(tokenOf(second), 7000, going)
      time.now += ttlMs
      expect(await open().acquire('run-c', going)).toMatchObject({ lastPass: { atMs: 7000, runId: 'run-b' } })
    })

    it('P19 takes no passed check from an old holder, nor after the release', async () => {
      const { lease, open, time } = fresh()
      const old = tokenOf(await lease.acquire('run-a', going))
      time.now += ttlMs
      const token = tokenOf(await open().acquire('run-b', going))
      await lease.passed(old, 5000, going)
      expect(await open().acquire('run-b', going)).toMatchObject({ lastPass: null })
      await open().release(token, going)
      await lease.passed(token, 6000, going)
      expect(await open().acquire('run-b', going)).toMatchObject({ lastPass: null })
    })

    it('goes to one of 10 racing runs', async () => {
      const { open } = fresh()
      const outcomes = await Promise.all(Array.from({ length: 10 }, (_, i) => open().acquire(`run-${i}`, going)))
      const winner = outcomes.findIndex((o) => o.kind === 'held')
      expect(outcomes.filter((o) => o.kind === 'held')).toHaveLength(1)
      const holders = outcomes.flatMap((o) => (o.kind === 'busy' ? [o.holder] : []))
      expect(new Set(holders)).toEqual(new Set([`run-${winner}`]))
    })

    it('goes to one of 10 runs racing for an expired lease', async () => {
      const { open, lease, time } = fresh()
      await lease.acquire('run-old', going)
      time.now += ttlMs
      const outcomes = await Promise.all(Array.from({ length: 10 }, (_, i) => open().acquire(`run-${i}`, going)))
      expect(outcomes.filter((o) => o.kind === 'held')).toHaveLength(1)
    })

    it('keeps the leases of queries apart', async () => {
      expect((await fresh().lease.acquire('run-a', going)).kind).toBe('held')
      expect((await fresh().lease.acquire('run-b', going)).kind).toBe('held')
    })

    it('does nothing once its signal has fired', async () => {
      const { lease, open } = fresh()
      const token = tokenOf(await lease.acquire('run-a', going))
      const fired = AbortSignal.abort()
      const calls = [
        lease.acquire('run-b', fired),
        lease.renew(token, fired),
        lease.passed(token, 5000, fired),
        lease.release(token, fired),
      ]
      for (const outcome of await Promise.allSettled(calls))
        expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'ABORTED' } })
      expect(await open().acquire('run-b', going)).toMatchObject({ kind: 'busy', holder: 'run-a' })
    })
  })
}
