import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../../src/errors.ts'
import type { ObjectStore } from '../../../src/ports.ts'
import { encodeCheckpoint, readCheckpoint } from '../../../src/sinks/delta/checkpoint.ts'
import type { TableState } from '../../../src/sinks/delta/log.ts'
import {
  append,
  batchOf,
  freshStore,
  idsIn,
  logFiles,
  never,
  openSink,
  range,
  readParquet,
  tableAt,
  versionName,
} from '../../support/delta-table.ts'

const checkpointName = (version: number) => `${String(version).padStart(20, '0')}.checkpoint.parquet`

async function tableOf(versions: number): Promise<ObjectStore> {
  const store = await freshStore()
  for (const n of range(0, versions)) await append(openSink(store), batchOf(n % 2 === 0 ? 'q1' : 'q2', n))
  return store
}

const hintOf = async (store: ObjectStore): Promise<unknown> => {
  const body = await store.get('_delta_log/_last_checkpoint', never)
  return body === null ? null : JSON.parse(Buffer.from(body).toString())
}

describe('P15: checkpoints', () => {
  test('are due after ten versions, and again after ten more', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await sink.maintain(never)
    for (const n of range(0, 25)) {
      await append(sink, batchOf('q1', n))
      await sink.maintain(never)
    }
    const made = (await logFiles(store)).filter((name) => name.includes('checkpoint'))
    expect(made).toEqual([checkpointName(9), checkpointName(19), '_last_checkpoint'])
    expect(await hintOf(store)).toMatchObject({ version: 19, numOfAddFiles: 20 })
  })

  test('carry every transaction, every active file, protocol and metadata: the log reads on without its first commits', async () => {
    const store = await tableOf(12)
    const before = await tableAt(store)
    await openSink(store).maintain(never)
    for (const v of range(0, 12)) await rm(join(store.root, versionName(v)))
    const after = await tableAt(store)
    expect(after.version).toBe(11)
    expect(after.protocol).toEqual(before.protocol)
    expect(after.metaData).toEqual(before.metaData)
    expect(after.transactions).toEqual(before.transactions)
    expect([...after.transactions.values()].map((x) => [x.appId, x.version])).toEqual([
      ['q1', 10n],
      ['q2', 11n],
    ])
    const stripped = [...before.files.values()].map((file) => ({ ...file, dataChange: false }))
    expect([...after.files.values()]).toEqual(stripped)
    expect(await append(openSink(store), batchOf('q1', 12))).toBe('committed')
    expect(await idsIn(store)).toEqual(range(0, 130))
  })

  test('a crash between file and hint costs nothing but the hint', async () => {
    const store = await tableOf(10)
    const dying: ObjectStore = {
      ...store,
      put: () => Promise.reject(new SluiceError('OBJECT_STORE_FAILED', { object: 'hint', reason: 'crash' })),
    }
    await expect(openSink(dying).maintain(never)).rejects.toMatchObject({ name: 'OBJECT_STORE_FAILED' })
    expect(await hintOf(store)).toBeNull()
    expect(await append(openSink(store), batchOf('q1', 10))).toBe('committed')
    await openSink(store).maintain(never)
    expect(await idsIn(store)).toEqual(range(0, 110))
  })

  test('a crash before the file leaves the table as it was', async () => {
    const store = await tableOf(10)
    const dying: ObjectStore = {
      ...store,
      putIfAbsent: () => Promise.reject(new SluiceError('OBJECT_STORE_FAILED', { object: 'file', reason: 'crash' })),
    }
    await expect(openSink(dying).maintain(never)).rejects.toMatchObject({ name: 'OBJECT_STORE_FAILED' })
    expect(await append(openSink(store), batchOf('q1', 10))).toBe('committed')
    await openSink(store).maintain(never)
    expect(await hintOf(store)).toMatchObject({ version: 10 })
  })

  test('several at once: one file, and the table reads on', async () => {
    const store = await tableOf(10)
    await Promise.all(range(0, 4).map(() => openSink(store).maintain(never)))
    expect((await logFiles(store)).filter((name) => name.endsWith('.parquet'))).toEqual([checkpointName(9)])
    expect(await hintOf(store)).toMatchObject({ version: 9 })
    expect(await idsIn(store)).toEqual(range(0, 100))
  })

  test('one that another writer made of this version keeps its own hint', async () => {
    const store = await tableOf(10)
    await openSink({ ...store, putIfAbsent: () => Promise.resolve('exists') }).maintain(never)
    expect(await hintOf(store)).toBeNull()
  })

  test('while others commit: what it holds is its own version', async () => {
    const store = await tableOf(10)
    const busy: ObjectStore = {
      ...store,
      putIfAbsent: async (...args) => {
        await append(openSink(store), batchOf('q3', 0), 500)
        return store.putIfAbsent(...args)
      },
    }
    await openSink(busy).maintain(never)
    expect((await tableAt(store)).version).toBe(10)
    expect(await idsIn(store)).toEqual([...range(0, 100), ...range(500, 510)])
  })

  test('after an abort nothing is begun', async () => {
    const store = await tableOf(10)
    await expect(openSink(store).maintain(AbortSignal.abort())).rejects.toMatchObject({ name: 'ABORTED' })
    expect(await logFiles(store)).toHaveLength(10)
  })
})

describe('what a checkpoint holds', () => {
  const now = 1_800_000_000_000
  const day = 86_400_000
  const table: TableState = {
    version: 7,
    protocol: {
      minReaderVersion: 3,
      minWriterVersion: 7,
      readerFeatures: ['timestampNtz'],
      writerFeatures: ['appendOnly', 'timestampNtz'],
    },
    metaData: {
      id: 'id',
      name: 'orders',
      format: { provider: 'parquet', options: {} },
      schemaString: '{}',
      partitionColumns: [],
      configuration: { 'delta.appendOnly': 'true', 'delta.x': null },
      createdTime: 5n,
    },
    transactions: new Map([['app', { appId: 'app', version: 2n ** 60n, lastUpdated: 3n }]]),
    files: new Map([
      [
        'a%20b',
        {
          path: 'a%20b',
          partitionValues: { p: null, q: '' },
          size: 2n ** 40n,
          modificationTime: 1n,
          dataChange: true,
          tags: { k: 'v' },
        },
      ],
    ]),
    tombstones: new Map([
      ['young', { path: 'young', deletionTimestamp: BigInt(now - 6 * day), dataChange: true, size: 3n }],
      ['old', { path: 'old', deletionTimestamp: BigInt(now - 8 * day), dataChange: true }],
    ]),
    commits: new Map(),
  }
  const actionsIn = async (state: TableState) => {
    const rows = await readCheckpoint(encodeCheckpoint(state, now).body, true)
    return rows.map(([name, value]) => ({ name, value }))
  }

  test('features, maps and 64-bit integers come back as they were', async () => {
    const actions = await actionsIn(table)
    const of = (name: string) => actions.filter((a) => a.name === name).map((a) => a.value)
    expect(of('protocol')).toMatchObject([table.protocol])
    expect(of('metaData')).toMatchObject([table.metaData])
    expect(of('txn')).toEqual([...table.transactions.values()])
    expect(of('add')).toMatchObject([{ ...table.files.get('a%20b'), dataChange: false }])
  })

  test('removals are kept as long as clean-up by others needs them', async () => {
    const removed = async (state: TableState) =>
      (await actionsIn(state)).flatMap((a) => (a.name === 'remove' ? [(a.value as { path: string }).path] : []))
    expect(await removed(table)).toEqual(['young'])
    const configuration = { 'delta.deletedFileRetentionDuration': 'interval 30 days' }
    const kept = { ...table, metaData: { ...table.metaData, configuration } }
    expect(await removed(kept)).toEqual(['young', 'old'])
  })

  test('one row an action, one column a kind', async () => {
    const rows = await readParquet(encodeCheckpoint(table, now).body)
    expect(rows).toHaveLength(5)
    expect(Object.keys(rows[0] ?? {})).toEqual(['txn', 'add', 'remove', 'metaData', 'protocol'])
  })
})
