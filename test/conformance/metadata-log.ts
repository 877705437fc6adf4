/** What every MetadataLog keeps. Called by each implementation's test with a way to open logs on one store. */
import * as fc from 'fast-check'
import { randomBytes, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MAX_INT64, offsetsFromJson, offsetsOf, offsetsToJson, sameOffsets } from '../../src/offsets.ts'
import type { Clock, MetadataLog } from '../../src/ports.ts'

export interface LogOnStore {
  readonly query: string
  readonly generation?: number
  readonly clock?: Clock
}

export interface LogStoreUnderTest {
  /** Opens a log of its own on the one store, as another process would. */
  open(options: LogOnStore): MetadataLog
  close(): Promise<void>
}

const going = new AbortController().signal

export function metadataLogConformance(implementation: string, start: () => Promise<LogStoreUnderTest>): void {
  describe(`metadata log on ${implementation}`, () => {
    let store: LogStoreUnderTest
    beforeAll(async () => {
      store = await start()
    })
    afterAll(() => store.close())
    /** A log that no other test sees. */
    const fresh = (options: Omit<LogOnStore, 'query'> = {}): MetadataLog =>
      store.open({ query: `q-${randomUUID()}`, ...options })
    const fill = async (log: MetadataLog, name: string, ids: Iterable<number | string>): Promise<void> => {
      for (const id of ids) await log.add({ log: name, id }, `entry ${id}`, going)
    }
    const idsIn = async (log: MetadataLog, name: string) => (await log.list(name, going)).map((e) => e.id)

    it('E10 K109 adds, gets, finds the newest and lists; a second instance reads the same', async () => {
      const query = `q-${randomUUID()}`
      const first = store.open({ query })
      expect(await first.newest('offsets', going)).toBeNull()
      expect(await first.get({ log: 'offsets', id: 0 }, going)).toBeNull()
      expect(await first.list('offsets', going)).toEqual([])
      expect(await first.add({ log: 'offsets', id: 0 }, 'batch 0', going)).toEqual({ kind: 'added' })
      expect(await first.newest('offsets', going)).toBe(0)
      expect(await first.add({ log: 'offsets', id: 1 }, 'batch 1', going)).toEqual({ kind: 'added' })
      for (const log of [first, store.open({ query })]) {
        expect(await log.get({ log: 'offsets', id: 0 }, going)).toBe('batch 0')
        expect(await log.get({ log: 'offsets', id: 1 }, going)).toBe('batch 1')
        expect(await log.newest('offsets', going)).toBe(1)
        expect(await log.list('offsets', going)).toEqual([
          { id: 0, entry: 'batch 0' },
          { id: 1, entry: 'batch 1' },
        ])
      }
    })

    it('E10 purges the entries below a bound and no other', async () => {
      const log = fresh()
      await fill(log, 'offsets', [0, 1, 2])
      for (const id of await log.idsUpTo('offsets', 1, 0, going)) await log.remove({ log: 'offsets', id }, going)
      expect(await log.get({ log: 'offsets', id: 0 }, going)).toBeNull()
      expect(await log.get({ log: 'offsets', id: 1 }, going)).toBeNull()
      expect(await log.get({ log: 'offsets', id: 2 }, going)).toBe('entry 2')
      expect(await log.newest('offsets', going)).toBe(2)
    })

    it('P11 K109 never overwrites: a second add answers what is stored, whoever wrote it', async () => {
      const log = fresh()
      const key = { log: 'commits', id: 4 }
      await log.add(key, 'first', going)
      expect(await log.add(key, 'second', going)).toEqual({ kind: 'exists', entry: 'first' })
      expect(await log.add(key, 'first', going)).toEqual({ kind: 'exists', entry: 'first' })
      expect(await log.get(key, going)).toBe('first')
    })

    it('E12 lets one of two writers win each id, and tells the other', async () => {
      const query = `q-${randomUUID()}`
      const writers = [store.open({ query }), store.open({ query })]
      for (let id = 0; id < 10; id++) {
        const outcomes = await Promise.all(
          writers.map((log, w) => log.add({ log: 'offsets', id }, `${id} by writer ${w}`, going))
        )
        expect(outcomes.map((o) => o.kind).toSorted()).toEqual(['added', 'exists'])
      }
      expect(await idsIn(fresh(), 'offsets')).toEqual([])
      expect(await idsIn(store.open({ query }), 'offsets')).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    })

    it('P11 lets one of 20 racing adds win, and all losers see its text', async () => {
      const query = `q-${randomUUID()}`
      const texts = Array.from({ length: 20 }, (_, i) => `plan ${i}`)
      const outcomes = await Promise.all(
        texts.map((text) => store.open({ query }).add({ log: 'offsets', id: 7 }, text, going))
      )
      const winner = outcomes.findIndex((o) => o.kind === 'added')
      const seen = outcomes.map((o) => (o.kind === 'exists' ? o.entry : null))
      expect(seen).toEqual(texts.map((_, i) => (i === winner ? null : texts[winner])))
      expect(await store.open({ query }).get({ log: 'offsets', id: 7 }, going)).toBe(texts[winner])
    })

    it('orders numbers as numbers, also where words lie between', async () => {
      const log = fresh()
      const numbers = [0, 2, 9, 10, 11, 99, 100, 1_000_000, Number.MAX_SAFE_INTEGER]
      await fill(log, 'commits', ['000001/000002', 'f00/end', ...numbers.toReversed()])
      expect((await idsIn(log, 'commits')).filter((id) => typeof id === 'number')).toEqual(numbers)
      expect(await log.newest('commits', going)).toBe(Number.MAX_SAFE_INTEGER)
      expect(await log.idsUpTo('commits', 99, 0, going)).toEqual([0, 2, 9, 10, 11, 99])
      expect(await log.idsUpTo('commits', -1, 0, going)).toEqual([])
    })

    it('lists any numbers in ascending order', async () => {
      await fc.assert(
        fc.asyncProperty(fc.uniqueArray(fc.nat(), { maxLength: 12 }), async (ids) => {
          const log = fresh()
          await fill(log, 'offsets', ids)
          const ascending = ids.toSorted((a, b) => a - b)
          expect(await idsIn(log, 'offsets')).toEqual(ascending)
          expect(await log.newest('offsets', going)).toBe(ascending.at(-1) ?? null)
        }),
        { numRuns: 10 }
      )
    })

    it('finds no newest among words alone, and lists them in order', async () => {
      const log = fresh()
      await fill(log, 'reports/7', ['000000/000010', '000000/000002', '000001/000000'])
      expect(await log.newest('reports/7', going)).toBeNull()
      expect(await log.idsUpTo('reports/7', 100, 0, going)).toEqual([])
      expect(await idsIn(log, 'reports/7')).toEqual(['000000/000002', '000000/000010', '000001/000000'])
    })

    it('keeps logs, queries and generations apart', async () => {
      const query = `q-${randomUUID()}`
      const log = store.open({ query })
      await log.add({ log: 'reports/7', id: 0 }, 'of batch 7', going)
      await log.add({ log: 'reports/70', id: 1 }, 'of batch 70', going)
      expect(await log.list('reports/7', going)).toEqual([{ id: 0, entry: 'of batch 7' }])
      expect(await log.list('reports', going)).toEqual([])
      expect(await store.open({ query, generation: 2 }).list('reports/7', going)).toEqual([])
      expect(await store.open({ query: `${query}2` }).list('reports/7', going)).toEqual([])
    })

    it('names for removal only entries of the asked-for age', async () => {
      let now = 1_000_000
      const log = fresh({ clock: { now: () => now } })
      await fill(log, 'offsets', [0, 1])
      now += 500
      await fill(log, 'offsets', [2])
      now += 500
      expect(await log.idsUpTo('offsets', 9, 1001, going)).toEqual([])
      expect(await log.idsUpTo('offsets', 9, 1000, going)).toEqual([0, 1])
      expect(await log.idsUpTo('offsets', 0, 1000, going)).toEqual([0])
      expect(await log.idsUpTo('offsets', 9, 500, going)).toEqual([0, 1, 2])
    })

    it('removes an entry; removing nothing is no error; the key is free again', async () => {
      const log = fresh()
      const key = { log: 'offsets', id: 3 }
      await log.remove(key, going)
      await log.add(key, 'old', going)
      await log.remove(key, going)
      await log.remove(key, going)
      expect(await log.get(key, going)).toBeNull()
      expect(await log.add(key, 'new', going)).toEqual({ kind: 'added' })
      expect(await log.get(key, going)).toBe('new')
    })

    it('B41 keeps every digit of 64-bit offsets and every character', async () => {
      const log = fresh()
      const offsets = offsetsOf([
        { topic: 'a', partition: 0, offset: 9_007_199_254_740_993n },
        { topic: 'a', partition: 1, offset: MAX_INT64 },
        { topic: 'Ł-"\\\u0000\u{1F600}', partition: 2, offset: 1_790_899_200_123n },
      ])
      await log.add({ log: 'offsets', id: 0 }, offsetsToJson(offsets), going)
      const text = (await log.get({ log: 'offsets', id: 0 }, going)) ?? ''
      expect(text).toBe(offsetsToJson(offsets))
      expect(text).toContain('9007199254740993')
      expect(sameOffsets(offsetsFromJson(text), offsets)).toBe(true)
      expect((await log.list('offsets', going))[0]?.entry).toBe(text)
      expect(await log.add({ log: 'offsets', id: 0 }, 'other', going)).toEqual({ kind: 'exists', entry: text })
    })

    it.each([
      ['nothing', ''],
      ['600 KB that compress', 'offset 12345 '.repeat(48_000)],
      ['390 KB of three-byte characters', '€'.repeat(133_000)],
      ['1.5 MB that do not compress', randomBytes(1_150_000).toString('base64')],
    ])('P6 holds an entry of %s', async (_what, text) => {
      const log = fresh()
      await log.add({ log: 'offsets', id: 0 }, 'small', going)
      expect(await log.add({ log: 'offsets', id: 1 }, text, going)).toEqual({ kind: 'added' })
      expect((await log.get({ log: 'offsets', id: 1 }, going)) === text).toBe(true)
      const listed = await log.list('offsets', going)
      expect(listed.map((e) => e.entry === text)).toEqual([false, true])
      const lost = await log.add({ log: 'offsets', id: 1 }, `${text} of a loser`, going)
      expect(lost.kind === 'exists' && lost.entry === text).toBe(true)
      await log.remove({ log: 'offsets', id: 1 }, going)
      expect(await idsIn(log, 'offsets')).toEqual([0])
    })

    it('lists more than a page of 1 MB holds', async () => {
      const log = fresh()
      const texts = Array.from({ length: 13 }, (_, i) => `${i} `.repeat(60_000))
      for (const [id, text] of texts.entries()) await log.add({ log: 'commits', id }, text, going)
      const listed = await log.list('commits', going)
      expect(listed.map((e) => e.id)).toEqual(texts.map((_, i) => i))
      expect(listed.every((e, i) => e.entry === texts[i])).toBe(true)
      expect(await log.idsUpTo('commits', 11, 0, going)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
      expect(await log.newest('commits', going)).toBe(12)
    })

    it('does nothing once its signal has fired', async () => {
      const log = fresh()
      const key = { log: 'offsets', id: 0 }
      await log.add(key, 'stays', going)
      const fired = AbortSignal.abort()
      const calls = [
        log.add({ log: 'offsets', id: 1 }, 'never', fired),
        log.add({ log: 'offsets', id: 2 }, randomBytes(700_000).toString('base64'), fired),
        log.get(key, fired),
        log.newest('offsets', fired),
        log.list('offsets', fired),
        log.idsUpTo('offsets', 9, 0, fired),
        log.remove(key, fired),
      ]
      for (const outcome of await Promise.allSettled(calls))
        expect(outcome).toMatchObject({ status: 'rejected', reason: { name: 'ABORTED' } })
      expect(await log.list('offsets', going)).toEqual([{ id: 0, entry: 'stays' }])
    })
  })
}
