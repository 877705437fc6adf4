/** What every object store promises (src/ports.ts); called by the tests of each implementation. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { ObjectStore } from '../../src/ports.ts'
import type { RaceResult, RacedStore } from './object-store-racer.ts'
import { markOf, openRacedStore } from './object-store-racer.ts'

const never = new AbortController().signal
const bytes = (text: string): Uint8Array => Buffer.from(text)
const textOf = (body: Uint8Array | null): string | null => (body === null ? null : Buffer.from(body).toString())

/** `fresh` answers an empty store each time. */
export function objectStoreConformance(name: string, fresh: () => Promise<RacedStore>): void {
  const open = async (): Promise<ObjectStore> => openRacedStore(await fresh())

  describe(`${name}: putIfAbsent`, () => {
    test('the first put creates, a second one of other content answers exists and changes nothing', async () => {
      const store = await open()
      expect(await store.putIfAbsent('log/0.json', bytes('one'), never)).toBe('created')
      expect(await store.putIfAbsent('log/0.json', bytes('two'), never)).toBe('exists')
      expect(textOf(await store.get('log/0.json', never))).toBe('one')
    })

    test('an empty object exists', async () => {
      const store = await open()
      expect(await store.putIfAbsent('empty', bytes(''), never)).toBe('created')
      expect(await store.putIfAbsent('empty', bytes('x'), never)).toBe('exists')
      expect(await store.size('empty', never)).toBe(0)
      expect(textOf(await store.get('empty', never))).toBe('')
    })

    test('an aborted call has no effect', async () => {
      const store = await open()
      const aborted = AbortSignal.abort()
      await expect(store.putIfAbsent('a', bytes('x'), aborted)).rejects.toMatchObject({ name: 'ABORTED' })
      await expect(store.put('a', bytes('x'), aborted)).rejects.toMatchObject({ name: 'ABORTED' })
      await expect(store.create('a', aborted)).rejects.toMatchObject({ name: 'ABORTED' })
      expect(await store.list('', null, never)).toEqual([])
    })

    test.for(['../a', '/a', 'a//b', 'a/../b', './a', 'a/', '', '.sluice-x.tmp'])(
      'the key %j is refused by name',
      async (key) => {
        const store = await open()
        await expect(store.putIfAbsent(key, bytes('x'), never)).rejects.toMatchObject({ name: 'OBJECT_STORE_REFUSED' })
        await expect(store.get(key, never)).rejects.toMatchObject({ name: 'OBJECT_STORE_REFUSED' })
      }
    )

    test('three processes race for a key: one winner, whose content everybody reads whole', async () => {
      const spec = await fresh()
      const racers = await Promise.all(Array.from({ length: 3 }, () => startRacer(spec)))
      const store = openRacedStore(spec)
      for (let round = 0; round < 15; round++) {
        const key = `_delta_log/${String(round).padStart(20, '0')}.json`
        const results = await Promise.all(racers.map((racer) => racer(key)))
        const winners = results.flatMap((r) => r.winners)
        expect(winners).toHaveLength(1)
        for (const { seen } of results) expect(seen).toEqual(winners)
        expect([markOf((await store.get(key, never)) ?? bytes(''))]).toEqual(winners)
      }
      expect(await store.list('', null, never)).toHaveLength(15)
    })
  })

  describe(`${name}: put, get, size, list`, () => {
    test('put creates and replaces whole objects', async () => {
      const store = await open()
      await store.put('hint', bytes('a longer first text'), never)
      await store.put('hint', bytes('second'), never)
      expect(textOf(await store.get('hint', never))).toBe('second')
    })

    test('what is not there is null', async () => {
      const store = await open()
      expect(await store.get('none', never)).toBeNull()
      expect(await store.size('none/below', never)).toBeNull()
      await store.put('a/b', bytes('x'), never)
      expect(await store.size('a', never)).toBeNull()
      expect(await store.get('a/b/c', never)).toBeNull()
    })

    test('keys are listed by prefix, after a key, in the order of their bytes', async () => {
      const store = await open()
      const keys = ['a.b', 'a/1', 'a/10', 'a/2', 'a/sub/x', 'b', 'e\u00e9', 'z\uff5e', 'z\u{1f600}', 'with space%25']
      for (const key of keys.toReversed()) await store.putIfAbsent(key, bytes(key), never)
      const inOrder = keys.toSorted((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)))
      expect(await store.list('', null, never)).toEqual(inOrder)
      expect(await store.list('a', null, never)).toEqual(['a.b', 'a/1', 'a/10', 'a/2', 'a/sub/x'])
      expect(await store.list('a/', 'a/10', never)).toEqual(['a/2', 'a/sub/x'])
      expect(await store.list('a/1', null, never)).toEqual(['a/1', 'a/10'])
      expect(await store.list('none/', null, never)).toEqual([])
      for (const key of keys) expect(textOf(await store.get(key, never))).toBe(key)
    })

    test.for(['../', '/', 'a/../', 'a//b'])('the prefix %j is refused by name', async (prefix) => {
      const store = await open()
      await expect(store.list(prefix, null, never)).rejects.toMatchObject({ name: 'OBJECT_STORE_REFUSED' })
    })

    test('more keys than a page are all listed', async () => {
      const store = await open()
      const keys = Array.from({ length: 1100 }, (_, i) => `many/${String(i).padStart(5, '0')}`)
      for (let i = 0; i < keys.length; i += 50)
        await Promise.all(keys.slice(i, i + 50).map((key) => store.putIfAbsent(key, bytes('x'), never)))
      expect(await store.list('many/', null, never)).toEqual(keys)
      expect(await store.list('many/', 'many/00049', never)).toEqual(keys.slice(50))
    })
  })

  describe(`${name}: create`, () => {
    test('an object appears whole at close', async () => {
      const store = await open()
      const writer = await store.create('part/0.parquet', never)
      const buffer = Buffer.from('first')
      await writer.write(buffer)
      buffer.fill(0)
      expect(await store.list('', null, never)).toEqual([])
      expect(await store.get('part/0.parquet', never)).toBeNull()
      await writer.write(bytes(', second'))
      await writer.close()
      expect(textOf(await store.get('part/0.parquet', never))).toBe('first, second')
      expect(await store.size('part/0.parquet', never)).toBe(13)
    })

    test('an aborted object leaves nothing', async () => {
      const store = await open()
      const writer = await store.create('gone', never)
      await writer.write(bytes('x'))
      await writer.abort()
      expect(await store.list('', null, never)).toEqual([])
    })

    test('a taken name is an error and the object stays as it was', async () => {
      const store = await open()
      await store.putIfAbsent('taken', bytes('before'), never)
      const writer = await store.create('taken', never)
      await writer.write(bytes('after'))
      await expect(writer.close()).rejects.toMatchObject({ name: 'OBJECT_STORE_FAILED' })
      await writer.abort()
      expect(textOf(await store.get('taken', never))).toBe('before')
      expect(await store.list('', null, never)).toEqual(['taken'])
    })

    test('after the signal fired nothing becomes visible', async () => {
      const store = await open()
      const controller = new AbortController()
      const writer = await store.create('late', controller.signal)
      await writer.write(bytes('x'))
      controller.abort()
      await expect(writer.close()).rejects.toMatchObject({ name: 'ABORTED' })
      await writer.abort()
      expect(await store.list('', null, never)).toEqual([])
    })

    test('a large object of many pieces keeps every byte', async () => {
      const store = await open()
      const writer = await store.create('large', never)
      const piece = new Uint8Array(5 * 2 ** 20)
      for (let i = 0; i < 9; i++) await writer.write(piece.fill(i))
      await writer.write(bytes('end'))
      await writer.close()
      const stored = await store.get('large', never)
      expect(stored?.length).toBe(45 * 2 ** 20 + 3)
      for (let i = 0; i < 9; i++) {
        const part = stored?.subarray(i * piece.length, (i + 1) * piece.length) ?? []
        expect(part.every((b) => b === i)).toBe(true)
      }
      expect(textOf(stored?.subarray(45 * 2 ** 20) ?? null)).toBe('end')
    })
  })
}

async function startRacer(spec: RacedStore): Promise<(key: string) => Promise<RaceResult>> {
  const script = new URL('object-store-racer.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [script, JSON.stringify(spec)], { stdio: ['pipe', 'pipe', 'inherit'] })
  onTestFinished(() => void child.stdin.end())
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return async (key) => {
    child.stdin.write(`${key}\n`)
    const line = await lines.next()
    if (line.done === true) throw new Error('a racing process ended')
    return JSON.parse(line.value) as RaceResult
  }
}
