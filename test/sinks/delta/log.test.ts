import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { ObjectStore } from '../../../src/ports.ts'
import { decodeActions, encodeActions } from '../../../src/sinks/delta/actions.ts'
import type { Action } from '../../../src/sinks/delta/actions.ts'
import { encodeCheckpoint } from '../../../src/sinks/delta/checkpoint.ts'
import { readTable } from '../../../src/sinks/delta/log.ts'
import { freshStore, never, range, tableAt, versionName } from '../../support/delta-table.ts'

const metaData = (id = 'table-1') => ({
  metaData: {
    id,
    format: { provider: 'parquet', options: {} },
    schemaString: '{"type":"struct","fields":[]}',
    partitionColumns: [],
    configuration: {},
    createdTime: 1,
  },
})
const creation = [{ protocol: { minReaderVersion: 1, minWriterVersion: 2 } }, metaData()]
const add = (path: string) => ({
  add: { path, partitionValues: {}, size: 1, modificationTime: 1, dataChange: true },
})
const remove = (path: string) => ({ remove: { path, deletionTimestamp: 2, dataChange: true } })
const txn = (appId: string, version: unknown) => ({ txn: { appId, version } })

const put = (store: ObjectStore, name: string, text: string) =>
  store.put(`_delta_log/${name}`, Buffer.from(text), never)
const putVersion = (store: ObjectStore, version: number, ...actions: unknown[]) =>
  store.put(versionName(version), Buffer.from(actions.map((a) => JSON.stringify(a)).join('\n')), never)
const padded = (version: number) => String(version).padStart(20, '0')

/** Versions 0 to n - 1; version v adds file f<v> and records txn (app, v). */
async function logOf(n: number): Promise<ObjectStore> {
  const store = await freshStore()
  for (const v of range(0, n)) await putVersion(store, v, ...(v === 0 ? creation : []), txn('app', v), add(`f${v}`))
  return store
}

async function putCheckpoint(store: ObjectStore, name: string, part?: (kinds: Action['kind']) => boolean) {
  const table = await tableAt(store)
  const has = (kind: Action['kind']) => part?.(kind) ?? true
  const { body } = encodeCheckpoint(
    {
      ...table,
      files: has('add') ? table.files : new Map(),
      transactions: has('txn') ? table.transactions : new Map(),
    },
    0
  )
  await store.put(`_delta_log/${name}`, body, never)
}

const cleanUp = (store: ObjectStore, until: number) =>
  Promise.all(range(0, until).map((v) => rm(join(store.root, versionName(v)))))

describe('replay', () => {
  test('no log, no table', async () => {
    expect(await readTable(await freshStore(), true, never)).toBeNull()
  })

  test('later actions win; removed files are gone; unknown actions are passed over', async () => {
    const store = await freshStore()
    await putVersion(store, 0, ...creation, add('a'), add('b'), txn('app', 1))
    await putVersion(
      store,
      1,
      remove('a'),
      { cdc: { path: 'x' } },
      { somethingNew: {} },
      txn('app', 2),
      txn('other', 7)
    )
    await putVersion(store, 2, metaData('table-2'), add('a'))
    const table = await tableAt(store)
    expect(table.version).toBe(2)
    expect(table.metaData.id).toBe('table-2')
    expect([...table.files.keys()].toSorted()).toEqual(['a', 'b'])
    expect([...table.tombstones.keys()]).toEqual([])
    expect([...table.transactions.values()].map((x) => [x.appId, x.version])).toEqual([
      ['app', 2n],
      ['other', 7n],
    ])
  })

  test('B41: a transaction version beyond 2^53 is exact', async () => {
    const store = await freshStore()
    const text = `${creation.map((a) => JSON.stringify(a)).join('\n')}\n{"txn":{"appId":"app","version":9007199254740993}}`
    await put(store, `${padded(0)}.json`, text)
    const { transactions } = await tableAt(store)
    expect(transactions.get('app')?.version).toBe(9007199254740993n)
    expect(encodeActions(decodeActions(text))).toContain('"version":9007199254740993')
  })

  test('what is not part of the log is passed over', async () => {
    const store = await logOf(3)
    await put(store, `${padded(2)}.crc`, '{}')
    await put(store, `${padded(0)}.${padded(2)}.compacted.json`, 'x')
    await put(store, '_staged_commits/5.json', 'x')
    await put(store, '_sidecars/x.parquet', 'x')
    await put(store, 'notes.txt', 'x')
    expect((await tableAt(store)).version).toBe(2)
  })
})

describe('checkpoints', () => {
  test('classic, with the commits before it cleaned away, with and without the hint', async () => {
    const store = await logOf(12)
    await putCheckpoint(store, `${padded(11)}.checkpoint.parquet`)
    await putVersion(store, 12, add('f12'))
    await cleanUp(store, 12)
    const expectWhole = async () => {
      const table = await tableAt(store)
      expect(table.version).toBe(12)
      expect(table.transactions.get('app')?.version).toBe(11n)
      expect([...table.files.keys()].toSorted()).toEqual(
        range(0, 13)
          .map((v) => `f${v}`)
          .toSorted()
      )
    }
    await expectWhole()
    await put(store, '_last_checkpoint', '{"version":11,"size":3}')
    await expectWhole()
  })

  test.for([
    ['is no JSON', 'oops'],
    ['names a checkpoint that is not there', '{"version":4,"size":1}'],
    ['lies beyond the log', '{"version":400,"size":1}'],
    ['names no version', '{}'],
  ])('a hint that %s is not followed', async ([, hint]) => {
    const store = await logOf(6)
    await put(store, '_last_checkpoint', hint ?? '')
    expect((await tableAt(store)).version).toBe(5)
    expect((await tableAt(store)).files.size).toBe(6)
  })

  test('an old hint leads to the newer checkpoint in the listing', async () => {
    const store = await logOf(5)
    await putCheckpoint(store, `${padded(4)}.checkpoint.parquet`)
    await putVersion(store, 5, add('f5'))
    await putCheckpoint(store, `${padded(5)}.checkpoint.parquet`)
    await cleanUp(store, 6)
    await put(store, '_last_checkpoint', '{"version":4,"size":1}')
    expect((await tableAt(store)).version).toBe(5)
  })

  test('in parts: all of them, or it does not count', async () => {
    const store = await logOf(4)
    const part = (n: number) => `${padded(3)}.checkpoint.${String(n).padStart(10, '0')}.0000000002.parquet`
    await putCheckpoint(store, part(1), (kind) => kind !== 'add')
    expect((await tableAt(store)).commits.size).toBe(4)
    await putCheckpoint(store, part(2), (kind) => kind === 'add')
    const table = await tableAt(store)
    expect(table.commits.size).toBe(0)
    expect(table.files.size).toBe(4)
    expect(table.transactions.get('app')?.version).toBe(3n)
  })

  test('a version 2 checkpoint that is needed is refused by name, one that is not is passed over', async () => {
    const store = await logOf(4)
    await put(store, `${padded(2)}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json`, '{}')
    expect((await tableAt(store)).version).toBe(3)
    await cleanUp(store, 2)
    await expect(readTable(store, false, never)).rejects.toMatchObject({ name: 'UNSUPPORTED_DELTA_TABLE' })
  })
})

describe('logs that cannot be read are refused, with the version', () => {
  const corrupt = (version: number, reason: string) => ({
    name: 'DELTA_LOG_CORRUPT',
    parameters: { version, reason: expect.stringContaining(reason) as string },
  })

  test('a version is missing', async () => {
    const store = await logOf(5)
    await rm(join(store.root, versionName(2)))
    await expect(readTable(store, false, never)).rejects.toMatchObject(corrupt(2, 'missing'))
  })

  test('a version is no JSON, or an action has the wrong shape', async () => {
    const store = await logOf(2)
    await put(store, `${padded(2)}.json`, '{"add":')
    await expect(readTable(store, false, never)).rejects.toMatchObject(corrupt(2, 'JSON'))
    await put(store, `${padded(2)}.json`, '{"txn":{"appId":"a","version":"1"}}')
    await expect(readTable(store, false, never)).rejects.toMatchObject(corrupt(2, 'txn.version is not an integer'))
  })

  test('a checkpoint is no Parquet file', async () => {
    const store = await logOf(2)
    await put(store, `${padded(1)}.checkpoint.parquet`, 'not parquet at all')
    await expect(readTable(store, false, never)).rejects.toMatchObject({ name: 'DELTA_LOG_CORRUPT' })
  })

  test('there is no protocol', async () => {
    const store = await freshStore()
    await putVersion(store, 0, metaData())
    await expect(readTable(store, false, never)).rejects.toMatchObject(corrupt(0, 'protocol'))
  })
})

describe('a log that changes while it is read', () => {
  test('P5: a listing that misses a version is looked at again', async () => {
    const store = await logOf(5)
    let lists = 0
    const flickering: ObjectStore = {
      ...store,
      list: async (...args) => (await store.list(...args)).filter((key) => ++lists > 5 || key !== versionName(3)),
    }
    expect((await readTable(flickering, false, never))?.version).toBe(4)
  })

  test('commits that are cleaned up meanwhile are read from the checkpoint', async () => {
    const store = await logOf(12)
    let due = true
    const cleaning: ObjectStore = {
      ...store,
      get: async (key, signal) => {
        if (due && key === versionName(0)) {
          due = false
          await putCheckpoint(store, `${padded(11)}.checkpoint.parquet`)
          await cleanUp(store, 11)
        }
        return store.get(key, signal)
      },
    }
    const table = await readTable(cleaning, true, never)
    expect(table?.version).toBe(11)
    expect(table?.files.size).toBe(12)
  })
})
