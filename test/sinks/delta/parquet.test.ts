import { describe, expect, test } from 'vitest'
import type { ObjectStore } from '../../../src/ports.ts'
import { t } from '../../../src/schema.ts'
import type { Schema } from '../../../src/schema.ts'
import { decodeDataFiles } from '../../../src/sinks/delta/data-file.ts'
import { parquetWriter } from '../../../src/sinks/delta/parquet.ts'
import { freshStore, never, range, readParquet } from '../../support/delta-table.ts'

const clock = { now: () => 5 }

async function written(schema: Schema, columns: readonly ArrayLike<unknown>[], times = 1) {
  const store = await freshStore()
  const writer = parquetWriter({ store, key: 'f', schema, clock }, never)
  for (let i = 0; i < times; i++) await writer.write({ length: columns[0]?.length ?? 0, columns })
  const message = await writer.commit()
  const body = await store.get('f', never)
  return { message, body, rows: body === null ? [] : await readParquet(body) }
}

describe('a data file', () => {
  test('B31: null, empty and bytes stay three things; headers keep order and repeats', async () => {
    const header = (key: string, value: string | null) => ({ key, value: value === null ? null : Buffer.from(value) })
    const headers = [
      [header('a', '1'), header('b', '2'), header('a', '3'), header('10', 'x'), header('2', 'y')],
      [header('n', null), header('e', '')],
      [],
      null,
    ]
    const values = [null, Buffer.alloc(0), Buffer.from([0, 255]), null]
    const schema = { value: t.binary, headers: t.array(t.struct({ key: t.string, value: t.binary })) }
    const { rows } = await written(schema, [values, headers])
    const plain = (bytes: Uint8Array | null) => (bytes === null ? null : new Uint8Array(bytes))
    expect(rows.map((row) => row['value'] ?? null)).toEqual(values.map(plain))
    expect(rows.map((row) => row['headers'] ?? null)).toEqual(
      headers.map((list) => list?.map(({ key, value }) => ({ key, value: plain(value) })) ?? null)
    )
  })

  test('B41: int64 is exact to 2^63-1', async () => {
    const values = [9007199254740993n, 2n ** 63n - 1n, -(2n ** 63n)]
    const { rows } = await written({ l: t.long }, [values])
    expect(rows.map((row) => row['l'])).toEqual(values)
  })

  test('doubles keep the sign of zero, NaN and infinities', async () => {
    const values = [...range(0, 100).map(() => 0), -0, NaN, Infinity, -Infinity, 5e-324]
    const { rows } = await written({ d: t.double }, [values])
    expect(rows.every((row, i) => Object.is(row['d'], values[i]))).toBe(true)
  })

  test('without rows there is no object', async () => {
    const { message, body } = await written({ l: t.long }, [[]])
    expect(body).toBeNull()
    expect(message).toEqual({ objects: [], rows: 0, bytes: 0, detail: '{"v":1,"files":[]}' })
  })

  test('the message tells size, rows and statistics', async () => {
    const { message, body } = await written({ l: t.long }, [[1n, 2n]])
    expect(message).toMatchObject({ objects: ['f'], rows: 2, bytes: body?.length })
    expect(decodeDataFiles(message.detail)).toEqual([
      {
        key: 'f',
        size: body?.length,
        rows: 2,
        modificationTime: 5,
        stats: '{"numRecords":2,"minValues":{"l":1},"maxValues":{"l":2},"nullCount":{"l":0}}',
      },
    ])
  })

  test('a row that does not fit leaves no object', async () => {
    const store = await freshStore()
    const writer = parquetWriter({ store, key: 'f', schema: { l: t.long }, clock }, never)
    await expect(writer.write({ length: 1, columns: [[1]] })).rejects.toMatchObject({ name: 'ROW_INVALID' })
    await writer.abort()
    expect(await store.list('', null, never)).toEqual([])
  })
})

describe('memory', () => {
  /** The store, telling how many pieces came and how large the largest was. */
  function measured(store: ObjectStore) {
    const pieces: number[] = []
    const measuring: ObjectStore = {
      ...store,
      create: async (key, signal) => {
        const writer = await store.create(key, signal)
        return {
          ...writer,
          write: (bytes) => {
            pieces.push(bytes.length)
            return writer.write(bytes)
          },
        }
      },
    }
    return { measuring, pieces }
  }

  test('many rows: a row group goes out every 100,000', async () => {
    const { measuring, pieces } = measured(await freshStore())
    const writer = parquetWriter({ store: measuring, key: 'f', schema: { i: t.int.notNull() }, clock }, never)
    const ints = Int32Array.from(range(0, 30_000))
    for (let i = 0; i < 10; i++) await writer.write({ length: ints.length, columns: [ints] })
    expect(pieces).toHaveLength(2)
    const message = await writer.commit()
    expect(message.rows).toBe(300_000)
    const rows = await readParquet((await measuring.get('f', never)) ?? new Uint8Array())
    expect(rows).toHaveLength(300_000)
    expect(rows.every((row, i) => row['i'] === i % 30_000)).toBe(true)
  })

  test('large values: a row group goes out every 32 MB, within one batch of rows too', async () => {
    const { measuring, pieces } = measured(await freshStore())
    const writer = parquetWriter({ store: measuring, key: 'f', schema: { b: t.binary }, clock }, never)
    const value = crypto.getRandomValues(new Uint8Array(65_536))
    const values = range(0, 2048).map(() => value)
    await writer.write({ length: values.length, columns: [values] })
    expect(pieces.length).toBeGreaterThanOrEqual(3)
    await writer.commit()
    expect((await readParquet((await measuring.get('f', never)) ?? new Uint8Array())).length).toBe(2048)
  })

  test('an abort after some row groups leaves nothing', async () => {
    const store = await freshStore()
    const writer = parquetWriter({ store, key: 'f', schema: { i: t.int }, clock }, never)
    await writer.write({ length: 200_000, columns: [new Int32Array(200_000)] })
    await writer.abort()
    expect(await store.list('', null, never)).toEqual([])
  })

  test('after the signal fired no row is taken and no object appears', async () => {
    const store = await freshStore()
    const controller = new AbortController()
    const writer = parquetWriter({ store, key: 'f', schema: { i: t.int }, clock }, controller.signal)
    await writer.write({ length: 1, columns: [[1]] })
    controller.abort()
    await expect(writer.write({ length: 1, columns: [[1]] })).rejects.toMatchObject({ name: 'ABORTED' })
    await expect(writer.commit()).rejects.toMatchObject({ name: 'ABORTED' })
    await writer.abort()
    expect(await store.list('', null, never)).toEqual([])
  })
})
