import { describe, expect, test } from 'vitest'
import type { CommitMessage, ObjectStore } from '../../../src/ports.ts'
import { bronzeSchema, t } from '../../../src/schema.ts'
import { decodeDataFiles } from '../../../src/sinks/delta/data-file.ts'
import { schemaStringOf } from '../../../src/sinks/delta/schema.ts'
import {
  append,
  batchOf,
  freshStore,
  idSchema,
  idsIn,
  never,
  openSink,
  range,
  stage,
  tableAt,
  tenRows,
  versionName,
} from '../../support/delta-table.ts'

const put = (store: ObjectStore, key: string, text = 'x') => store.put(key, Buffer.from(text), never)

async function foreignTable(protocol: object, metaData: object = {}): Promise<ObjectStore> {
  const store = await freshStore()
  const actions = [
    { protocol },
    {
      metaData: {
        id: 'foreign',
        format: { provider: 'parquet', options: {} },
        schemaString: schemaStringOf(idSchema),
        partitionColumns: [],
        configuration: {},
        ...metaData,
      },
    },
  ]
  await put(store, versionName(0), actions.map((a) => JSON.stringify(a)).join('\n'))
  return store
}

describe('the look before a batch is planned', () => {
  test('creates nothing, and says the same before and after the table exists', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const before = await sink.check('q1', { newest: null, committed: null }, never)
    expect(await store.list('', null, never)).toEqual([])
    await append(sink, batchOf('q1', 0))
    expect(await sink.check('q1', { newest: 0, committed: null }, never)).toBe(before)
    expect(await openSink(store).check('q2', { newest: null, committed: null }, never)).toBe(before)
  })

  test('another schema or another place is another fingerprint', async () => {
    const store = await freshStore()
    const here = await openSink(store).check('q', { newest: null, committed: null }, never)
    expect(await openSink(store, bronzeSchema).check('q', { newest: null, committed: null }, never)).not.toBe(here)
    expect(await openSink(await freshStore()).check('q', { newest: null, committed: null }, never)).not.toBe(here)
  })

  test('a folder of other files is no table', async () => {
    const store = await freshStore()
    await put(store, 'holiday.jpg')
    await expect(openSink(store).check('q', { newest: null, committed: null }, never)).rejects.toMatchObject({
      name: 'NOT_A_DELTA_TABLE',
      message: expect.stringContaining('holiday.jpg') as string,
    })
  })

  test('files that tasks staged before version 0, and hidden files, do not stand in the way', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await stage(sink, batchOf('q1', 0), tenRows(0))
    await put(store, '_SUCCESS')
    await put(store, '.hidden')
    await expect(sink.check('q2', { newest: null, committed: null }, never)).resolves.toBeTypeOf('string')
  })

  test.for([
    [{ 'a b': t.int }, '"a b"'],
    [{ id: t.int, ID: t.int }, 'differ in case only'],
  ] as const)('a schema that no table can have is named: %j', async ([schema, reason]) => {
    const sink = openSink(await freshStore(), schema)
    await expect(sink.check('q', { newest: null, committed: null }, never)).rejects.toThrow(reason)
  })

  test('a table of another schema is refused before any file is written', async () => {
    const store = await freshStore()
    await append(openSink(store), batchOf('q1', 0))
    await expect(
      openSink(store, bronzeSchema).check('q2', { newest: null, committed: null }, never)
    ).rejects.toMatchObject({
      name: 'TABLE_SCHEMA_MISMATCH',
      retryable: false,
      message: expect.stringContaining("column 'key' (binary) is not in the table") as string,
    })
  })
})

describe('tables of others', () => {
  const features = (...names: string[]) => ({
    minReaderVersion: 3,
    minWriterVersion: 7,
    readerFeatures: names,
    writerFeatures: names,
  })
  const column = (metadata: object) => ({
    schemaString: JSON.stringify({
      type: 'struct',
      fields: [
        { name: 'id', type: 'long', nullable: true, metadata },
        { name: 'name', type: 'string', nullable: true, metadata: {} },
      ],
    }),
  })

  test.for([
    ['reader 1, writer 2', { minReaderVersion: 1, minWriterVersion: 2 }, {}],
    ['writer 4 without generated columns', { minReaderVersion: 1, minWriterVersion: 4 }, {}],
    [
      'features that ask nothing',
      { minReaderVersion: 1, minWriterVersion: 7, writerFeatures: ['appendOnly', 'invariants'] },
      {},
    ],
    ['reader features that ask nothing', features('timestampNtz'), {}],
    ['append only', { minReaderVersion: 1, minWriterVersion: 2 }, { configuration: { 'delta.appendOnly': 'true' } }],
    ['a comment on a column', { minReaderVersion: 1, minWriterVersion: 2 }, column({ comment: 'the id' })],
  ] as const)('%s: appended to', async ([, protocol, metaData]) => {
    const store = await foreignTable(protocol, metaData)
    expect(await append(openSink(store), batchOf('q1', 0))).toBe('committed')
    expect(await idsIn(store)).toEqual(range(0, 10))
  })

  const plain = { minReaderVersion: 1, minWriterVersion: 2 }
  test.for([
    ['deletionVectors', features('deletionVectors'), {}],
    ['v2Checkpoint', features('v2Checkpoint'), {}],
    ['reader version 2', { minReaderVersion: 2, minWriterVersion: 5 }, {}],
    ['writer version 6', { minReaderVersion: 1, minWriterVersion: 6 }, {}],
    ['writer version 8', { minReaderVersion: 1, minWriterVersion: 8 }, {}],
    ['inCommitTimestamp', { minReaderVersion: 1, minWriterVersion: 7, writerFeatures: ['inCommitTimestamp'] }, {}],
    ['partitioned by name', plain, { partitionColumns: ['name'] }],
    ['format orc', plain, { format: { provider: 'orc', options: {} } }],
    ['delta.constraints.positive', plain, { configuration: { 'delta.constraints.positive': 'id > 0' } }],
    ['delta.columnMapping.mode is name', plain, { configuration: { 'delta.columnMapping.mode': 'name' } }],
    [
      'delta.setTransactionRetentionDuration',
      plain,
      { configuration: { 'delta.setTransactionRetentionDuration': 'interval 7 days' } },
    ],
    ["column 'id' has the rule delta.invariants", plain, column({ 'delta.invariants': '{}' })],
    ["column 'id' has the rule delta.generationExpression", plain, column({ 'delta.generationExpression': '1' })],
  ] as const)('%s: refused by name, nothing is written', async ([reason, protocol, metaData]) => {
    const store = await foreignTable(protocol, metaData)
    const refused = { name: 'UNSUPPORTED_DELTA_TABLE', message: expect.stringContaining(reason) as string }
    await expect(openSink(store).check('q', { newest: null, committed: null }, never)).rejects.toMatchObject(refused)
    await expect(openSink(store).commit(batchOf('q', 0), [], never)).rejects.toMatchObject(refused)
    expect((await tableAt(store)).version).toBe(0)
  })
})

describe('staged files', () => {
  test('P3: every task and every attempt has a name of its own; only what a commit names exists for readers', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const batch = batchOf('q1', 0)
    const zombie = await stage(sink, batch, tenRows(500), 0)
    const winner = await stage(sink, batch, tenRows(0), 0)
    const second = await stage(sink, batch, tenRows(10), 1)
    const otherQuery = await stage(sink, batchOf('q2', 0), tenRows(700), 0)
    const objects = [zombie, winner, second, otherQuery].flatMap((m) => m.objects)
    expect(new Set(objects).size).toBe(4)
    expect(await store.list('part-', null, never)).toEqual(objects.toSorted())
    await sink.commit(batch, [winner, second], never)
    expect(await idsIn(store)).toEqual(range(0, 20))
  })

  test('B47: a task that dies in mid-upload leaves nothing to see; its next attempt has the same rows', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const task = { ...batchOf('q1', 0), task: 0, attempt: '00000000-0000-4000-8000-000000000001', ranges: [] }
    const writer = await sink.createWriter(task, never)
    await writer.write({ length: 150_000, columns: [range(0, 150_000).map(BigInt), range(0, 150_000).map(String)] })
    expect(await store.list('', null, never)).toEqual([])
    await writer.abort()
    const message = await stage(sink, batchOf('q1', 0), tenRows(0))
    await sink.commit(batchOf('q1', 0), [message], never)
    expect(await idsIn(store)).toEqual(range(0, 10))
  })

  test('a name that is taken is never written again', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const task = { ...batchOf('q1', 0), task: 0, attempt: '00000000-0000-4000-8000-000000000001', ranges: [] }
    const write = async (from: number) => {
      const writer = await sink.createWriter(task, never)
      await writer.write({ length: 10, columns: tenRows(from) })
      return writer.commit()
    }
    const first = await write(0)
    await expect(write(100)).rejects.toMatchObject({ name: 'OBJECT_STORE_FAILED' })
    await sink.commit(batchOf('q1', 0), [first], never)
    expect(await idsIn(store)).toEqual(range(0, 10))
  })

  test('those that are gone are named', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const kept = await stage(sink, batchOf('q1', 0), tenRows(0), 0)
    const gone: CommitMessage = { objects: ['part-gone.zstd.parquet'], rows: 1, bytes: 1, detail: '' }
    const empty = await stage(sink, batchOf('q1', 0), [[], []], 1)
    expect(await sink.missing([kept, gone, empty], never)).toEqual(['part-gone.zstd.parquet'])
    expect(await sink.missing([kept, empty], never)).toEqual([])
  })

  test('query ids are any text: the path is encoded once more for the log', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const batch = batchOf('orders/eu 100%', 0)
    const message = await stage(sink, batch, tenRows(0))
    expect(decodeDataFiles(message.detail)[0]?.key).toContain('orders%2Feu%20100%25')
    await sink.commit(batch, [message], never)
    expect(await idsIn(store)).toEqual(range(0, 10))
  })
})
