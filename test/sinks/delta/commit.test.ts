import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../../src/errors.ts'
import type { ObjectStore } from '../../../src/ports.ts'
import { t } from '../../../src/schema.ts'
import { decodeActions } from '../../../src/sinks/delta/actions.ts'
import type { Action } from '../../../src/sinks/delta/actions.ts'
import {
  append,
  batchOf,
  freshStore,
  idSchema,
  idsIn,
  logFiles,
  never,
  openSink,
  range,
  stage,
  tableAt,
  tenRows,
  versionName,
  withCommitPuts,
} from '../../support/delta-table.ts'

const ahead = { name: 'SINK_AHEAD_OF_LOG', retryable: false }

async function actionsOf(store: ObjectStore, version: number): Promise<Action[]> {
  const body = await store.get(versionName(version), never)
  return decodeActions(Buffer.from(body ?? []).toString())
}

const lines = (...actions: unknown[]): Uint8Array => Buffer.from(actions.map((a) => `${JSON.stringify(a)}\n`).join(''))

/** Removes files that others' clean-up would. */
const cleanUp = (store: ObjectStore, versions: readonly number[]) =>
  Promise.all(versions.map((version) => rm(join(store.root, versionName(version)))))

describe('a batch is one version', () => {
  test('P2: with the batch id, the digest of its plan and its end offsets in it', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const batch = batchOf('q1', 0)
    expect(await append(sink, batch)).toBe('committed')
    const actions = await actionsOf(store, 0)
    expect(actions.map((a) => a.kind)).toEqual(['commitInfo', 'protocol', 'metaData', 'txn', 'add'])
    expect(actions[0]?.body).toMatchObject({
      operation: 'STREAMING UPDATE',
      operationParameters: {
        outputMode: 'Append',
        queryId: 'q1',
        epochId: '0',
        planDigest: batch.planDigest,
        endOffsets: batch.endOffsets,
      },
      operationMetrics: { numAddedFiles: '1', numOutputRows: '10' },
    })
    expect(actions[3]?.body).toMatchObject({ appId: 'q1', version: 0n })
    expect(actions[4]?.body).toMatchObject({ partitionValues: {}, dataChange: true })
  })

  test('without rows it writes no data file and is committed', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q1', 0))
    const empty = await stage(sink, batchOf('q1', 1), [[], []])
    expect(empty).toMatchObject({ objects: [], rows: 0, bytes: 0 })
    expect(await sink.commit(batchOf('q1', 1), [empty], never)).toBe('committed')
    expect((await actionsOf(store, 1)).map((a) => a.kind)).toEqual(['commitInfo', 'txn'])
    expect((await store.list('part-', null, never)).length).toBe(1)
  })

  test('an aborted commit has no effect', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const message = await stage(sink, batchOf('q1', 0), tenRows(0))
    const commit = sink.commit(batchOf('q1', 0), [message], AbortSignal.abort())
    await expect(commit).rejects.toMatchObject({ name: 'ABORTED' })
    expect(await logFiles(store)).toEqual([])
  })

  test('a report that this sink did not write is named', async () => {
    const sink = openSink(await freshStore())
    const message = { objects: ['x'], rows: 1, bytes: 1, detail: '{"v":2,"files":[]}' }
    await expect(sink.commit(batchOf('q1', 0), [message], never)).rejects.toMatchObject({
      name: 'LOG_ENTRY_UNREADABLE',
    })
  })
})

describe('B42: a batch that is committed already', () => {
  test('(a) a crash after the commit of batch 5: its rerun adds no version, 60 rows', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    for (const n of range(0, 6)) await append(sink, batchOf('q1', n))
    expect(await append(openSink(store), batchOf('q1', 5))).toBe('alreadyCommitted')
    expect((await tableAt(store)).version).toBe(5)
    expect(await idsIn(store)).toEqual(range(0, 60))
  })

  test('(b) the output of batch 4 after batch 5: refused, for the log never goes back; no row twice', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    for (const n of range(0, 6)) await append(sink, batchOf('q1', n))
    await expect(append(sink, batchOf('q1', 4))).rejects.toMatchObject(ahead)
    expect((await tableAt(store)).version).toBe(5)
    expect(await idsIn(store)).toEqual(range(0, 60))
  })

  test('(c) batch 0 counts like every other', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q1', 0))
    expect(await append(sink, batchOf('q1', 0))).toBe('alreadyCommitted')
    expect(await idsIn(store)).toEqual(range(0, 10))
  })

  test('(d) a second query with its own id is not skipped', async () => {
    const store = await freshStore()
    await append(openSink(store), batchOf('q1', 0))
    expect(await append(openSink(store), batchOf('q2', 0), 100)).toBe('committed')
    expect(await idsIn(store)).toEqual([...range(0, 10), ...range(100, 110)])
  })
})

describe('P2: a record that the log did not plan', () => {
  test('the same batch id under another plan is refused and the stored ends are printed', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q1', 0))
    const other = append(sink, { ...batchOf('q1', 0, 'another plan'), endOffsets: '{"t":{"0":3}}' })
    await expect(other).rejects.toMatchObject(ahead)
    await expect(other).rejects.toThrow('{"t":{"0":10}}')
    expect(await idsIn(store)).toEqual(range(0, 10))
  })

  test('a record above the newest logged batch is refused at planning time, before anything is logged', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    for (const n of range(0, 3)) await append(sink, batchOf('q1', n))
    await expect(sink.check('q1', { newest: 1, committed: null }, never)).rejects.toMatchObject({
      ...ahead,
      parameters: { recorded: '2', batchId: 1, endOffsets: '{"t":{"0":30}}' },
    })
    await expect(sink.check('q1', { newest: null, committed: null }, never)).rejects.toThrow('newest batch none')
    await expect(sink.check('q1', { newest: 2, committed: null }, never)).resolves.toMatch(/^[0-9a-f]{64}$/)
    await expect(sink.check('q1', { newest: 3, committed: null }, never)).resolves.toMatch(/^[0-9a-f]{64}$/)
    await expect(sink.check('q2', { newest: null, committed: null }, never)).resolves.toMatch(/^[0-9a-f]{64}$/)
  })

  test('a table that lacks a committed batch of the query is another one, and refused', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    const logged = (committed: number) => ({ newest: committed, committed })
    const behind = (recorded: string, committed: number) => ({
      name: 'SINK_BEHIND_LOG',
      parameters: { recorded, committed },
    })
    await expect(sink.check('q1', logged(0), never)).rejects.toMatchObject(behind('none', 0))
    await append(sink, batchOf('q1', 0))
    await expect(sink.check('q1', logged(0), never)).resolves.toBeTypeOf('string')
    await expect(sink.check('q1', { newest: 1, committed: 0 }, never)).resolves.toBeTypeOf('string')
    await expect(sink.check('q1', logged(1), never)).rejects.toMatchObject(behind('0', 1))
    await expect(sink.check('q2', logged(0), never)).rejects.toMatchObject(behind('none', 0))
  })

  test('the digest is found behind a checkpoint and many versions of another query', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q1', 0))
    for (const n of range(0, 40)) await append(sink, batchOf('q2', n), 1000 + n * 10)
    await sink.maintain(never)
    await expect(append(sink, batchOf('q1', 0, 'another plan'))).rejects.toMatchObject(ahead)
    expect(await append(sink, batchOf('q1', 0))).toBe('alreadyCommitted')
  })

  test('when the commit was cleaned away the number alone counts', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q1', 0))
    for (const n of range(0, 20)) await append(sink, batchOf('q2', n), 1000 + n * 10)
    await sink.maintain(never)
    await cleanUp(store, range(0, 21))
    expect(await append(sink, batchOf('q2', 19))).toBe('alreadyCommitted')
    expect(await append(sink, batchOf('q1', 0))).toBe('alreadyCommitted')
    await expect(append(sink, batchOf('q2', 18))).rejects.toMatchObject(ahead)
    await expect(sink.check('q1', { newest: null, committed: null }, never)).rejects.toThrow('not known')
    expect(await append(sink, batchOf('q1', 1))).toBe('committed')
  })

  test('a query that moved here from Spark: its commits have no digest', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q0', 0))
    const spark = lines(
      { commitInfo: { operation: 'STREAMING UPDATE', operationParameters: { queryId: 'q1', epochId: '8' } } },
      { txn: { appId: 'q1', version: 8 } }
    )
    await store.putIfAbsent(versionName(1), spark, never)
    expect(await append(sink, batchOf('q1', 8))).toBe('alreadyCommitted')
    expect(await append(sink, batchOf('q1', 9), 90)).toBe('committed')
  })
})

const lost = () => new SluiceError('OBJECT_STORE_FAILED', { object: 'version', reason: 'time-out' })

describe('B43: a commit whose outcome is unknown', () => {
  async function atVersion7() {
    const store = await freshStore()
    for (const n of range(0, 7)) await append(openSink(store), batchOf('q1', n))
    return store
  }
  async function expectOneVersion7(store: ObjectStore) {
    expect((await tableAt(store)).version).toBe(7)
    expect(await idsIn(store)).toEqual(range(0, 80))
  }

  test('version 7 is stored and the answer is dropped: success, no version 8, rows once', async () => {
    const store = await atVersion7()
    const sink = openSink(
      withCommitPuts(store, async (put, ...args) => {
        await put(...args)
        throw lost()
      })
    )
    expect(await append(sink, batchOf('q1', 7))).toBe('committed')
    await expectOneVersion7(store)
  })

  test("the client's own retry hears that the version exists: it is ours", async () => {
    const store = await atVersion7()
    const sink = openSink(
      withCommitPuts(store, async (put, ...args) => {
        await put(...args)
        return 'exists'
      })
    )
    expect(await append(sink, batchOf('q1', 7))).toBe('committed')
    await expectOneVersion7(store)
  })

  test('a time-out before the object is stored: version 7 is written by the retry', async () => {
    const store = await atVersion7()
    let tries = 0
    const sink = openSink(
      withCommitPuts(store, async (put, ...args) => {
        if (++tries === 1) throw lost()
        return put(...args)
      })
    )
    expect(await append(sink, batchOf('q1', 7))).toBe('committed')
    expect(tries).toBe(2)
    await expectOneVersion7(store)
  })

  test('a put that lands after it was given up: one version all the same', async () => {
    const store = await atVersion7()
    let late: (() => Promise<unknown>) | null = null
    const held = withCommitPuts(store, async (put, ...args) => {
      late = () => put(...args)
      throw lost()
    })
    const landing: ObjectStore = {
      ...held,
      list: async (...args) => {
        if (late !== null) await late()
        late = null
        return store.list(...args)
      },
    }
    expect(await append(openSink(landing), batchOf('q1', 7))).toBe('committed')
    await expectOneVersion7(store)
  })

  test('no answer and no object, again and again: OBJECT_STORE_FAILED, which may be tried again', async () => {
    const store = await atVersion7()
    const silent = withCommitPuts(store, () => Promise.reject(lost()))
    const failed = { name: 'OBJECT_STORE_FAILED', retryable: true }
    await expect(append(openSink(silent), batchOf('q1', 7))).rejects.toMatchObject(failed)
    expect(await append(openSink(store), batchOf('q1', 7))).toBe('committed')
    await expectOneVersion7(store)
  })
})

describe('P5: other writers', () => {
  /** Runs `rival` before the first put of a commit goes out. */
  const interrupted = (store: ObjectStore, rival: () => Promise<unknown>): ObjectStore => {
    let due = true
    return withCommitPuts(store, async (put, ...args) => {
      if (due) {
        due = false
        await rival()
      }
      return put(...args)
    })
  }

  test('rivals take the version: the batch becomes a later one, without a gap', async () => {
    const store = await freshStore()
    await append(openSink(store), batchOf('q1', 0))
    const rivals = async () => {
      for (const n of range(0, 3)) await append(openSink(store), batchOf('q2', n), 100 + n * 10)
    }
    expect(await append(openSink(interrupted(store, rivals)), batchOf('q1', 1))).toBe('committed')
    expect(await logFiles(store)).toEqual(range(0, 5).map((v) => versionName(v).slice('_delta_log/'.length)))
    expect(await idsIn(store)).toEqual([...range(0, 20), ...range(100, 130)])
  })

  test('a rival creates the table: both are in it', async () => {
    const store = await freshStore()
    const rival = () => append(openSink(store), batchOf('q2', 0), 100)
    expect(await append(openSink(interrupted(store, rival)), batchOf('q1', 0))).toBe('committed')
    expect((await tableAt(store)).version).toBe(1)
    expect(await idsIn(store)).toEqual([...range(0, 10), ...range(100, 110)])
  })

  test('another committer of the same batch wins: already committed, rows once', async () => {
    const store = await freshStore()
    const rival = () => append(openSink(store), batchOf('q1', 0))
    expect(await append(openSink(interrupted(store, rival)), batchOf('q1', 0))).toBe('alreadyCommitted')
    expect(await idsIn(store)).toEqual(range(0, 10))
  })

  test('a newer batch of the same query came between: refused', async () => {
    const store = await freshStore()
    const rival = async () => {
      for (const n of range(0, 2)) await append(openSink(store), batchOf('q1', n))
    }
    await expect(append(openSink(interrupted(store, rival)), batchOf('q1', 0))).rejects.toMatchObject(ahead)
    expect(await idsIn(store)).toEqual(range(0, 20))
  })

  const changed = { ...idSchema, more: t.int }
  test.for([
    [
      'the schema',
      { metaData: { columns: changed } },
      'TABLE_SCHEMA_MISMATCH',
      "column 'more' (integer) is not in the query",
    ],
    [
      'the partitioning',
      { metaData: { partitionColumns: ['name'] } },
      'UNSUPPORTED_DELTA_TABLE',
      'partitioned by name',
    ],
    [
      'the protocol',
      {
        protocol: { minReaderVersion: 3, minWriterVersion: 7, readerFeatures: ['deletionVectors'], writerFeatures: [] },
      },
      'UNSUPPORTED_DELTA_TABLE',
      'deletionVectors',
    ],
    [
      'how long transactions are kept',
      { metaData: { configuration: { 'delta.setTransactionRetentionDuration': 'interval 1 day' } } },
      'UNSUPPORTED_DELTA_TABLE',
      'delta.setTransactionRetentionDuration',
    ],
    ['the table', { metaData: { id: 'another-table' } }, 'DELTA_TABLE_CHANGED', 'another-table'],
  ] as const)('a rival changes %s: refused by name, table intact', async ([, change, name, reason]) => {
    const store = await freshStore()
    await append(openSink(store), batchOf('q1', 0))
    const [, , metaData] = await actionsOf(store, 0)
    const { columns, ...rest } = { columns: undefined, ...('metaData' in change ? change.metaData : {}) }
    const body = {
      ...metaData?.body,
      createdTime: 0,
      ...rest,
      ...(columns && { schemaString: (await schemaStringOf(columns)) as string }),
    }
    const action = 'protocol' in change ? change : { metaData: body }
    const rival = () => store.putIfAbsent(versionName(1), lines(action), never)
    const commit = append(openSink(interrupted(store, rival)), batchOf('q1', 1))
    await expect(commit).rejects.toMatchObject({ name, message: expect.stringContaining(reason) as string })
    expect((await tableAt(store)).version).toBe(1)
    expect(await idsIn(store)).toEqual(range(0, 10))
  })

  test('a writer sleeps until the log is cleaned past its version: what it put there counts for nothing, the batch is appended again', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q1', 0))
    const others = async () => {
      for (const n of range(0, 15)) await append(sink, batchOf('q2', n), 100 + n * 10)
      await sink.maintain(never)
      await cleanUp(store, range(0, 15))
    }
    expect(await append(openSink(interrupted(store, others)), batchOf('q1', 1))).toBe('committed')
    const table = await tableAt(store)
    expect(table.version).toBe(16)
    expect(table.transactions.get('q1')?.version).toBe(1n)
    expect(await idsIn(store)).toEqual([...range(0, 20), ...range(100, 250)])
  })

  test('the same, but another committer had appended the batch meanwhile: rows once', async () => {
    const store = await freshStore()
    const sink = openSink(store)
    await append(sink, batchOf('q1', 0))
    const others = async () => {
      for (const n of range(0, 5)) await append(sink, batchOf('q2', n), 100 + n * 10)
      await append(sink, batchOf('q1', 1))
      for (const n of range(5, 15)) await append(sink, batchOf('q2', n), 100 + n * 10)
      await sink.maintain(never)
      await cleanUp(store, range(0, 16))
    }
    expect(await append(openSink(interrupted(store, others)), batchOf('q1', 1))).toBe('alreadyCommitted')
    expect((await tableAt(store)).version).toBe(16)
    expect(await idsIn(store)).toEqual([...range(0, 20), ...range(100, 250)])
  })

  test('rivals go on and make a checkpoint before the winner looks: committed, once', async () => {
    const store = await freshStore()
    const busy = withCommitPuts(store, async (put, ...args) => {
      const outcome = await put(...args)
      for (const n of range(0, 12)) await append(openSink(store), batchOf('q2', n), 100 + n * 10)
      await openSink(store).maintain(never)
      return outcome
    })
    expect(await append(openSink(busy), batchOf('q1', 0))).toBe('committed')
    expect((await tableAt(store)).version).toBe(12)
    expect(await idsIn(store)).toEqual([...range(0, 10), ...range(100, 220)])
  })
})

async function schemaStringOf(schema: typeof idSchema): Promise<unknown> {
  const store = await freshStore()
  const sink = openSink(store, schema)
  await sink.commit(batchOf('q', 0), [], never)
  return (await tableAt(store)).metaData.schemaString
}

describe('B45: two queries append to one table', () => {
  /** Two stores whose first commits wait for each other. */
  function barrier(store: ObjectStore): [ObjectStore, ObjectStore] {
    let arrive = () => {}
    const both = new Promise<void>((resolve) => {
      let waiting = 0
      arrive = () => {
        if (++waiting === 2) resolve()
      }
    })
    const meeting = (): ObjectStore => {
      let first = true
      return withCommitPuts(store, async (put, ...args) => {
        if (first) {
          first = false
          arrive()
          await both
        }
        return put(...args)
      })
    }
    return [meeting(), meeting()]
  }

  test('at the same time, 50 times: versions without a gap, 20 rows each time, both report success', async () => {
    const store = await freshStore()
    for (const n of range(0, 50)) {
      const [a, b] = barrier(store)
      const outcomes = await Promise.all([
        append(openSink(a), batchOf('q1', n), n * 20),
        append(openSink(b), batchOf('q2', n), n * 20 + 10),
      ])
      expect(outcomes).toEqual(['committed', 'committed'])
      expect((await tableAt(store)).version).toBe(2 * n + 1)
    }
    expect(await idsIn(store)).toEqual(range(0, 1000))
    const versions = (await logFiles(store)).filter((name) => /^\d{20}\.json$/.test(name))
    expect(versions).toEqual(range(0, 100).map((v) => versionName(v).slice('_delta_log/'.length)))
  })

  test('one of them creates the table with another schema: the other fails by name, the table is intact', async () => {
    for (const _ of range(0, 5)) {
      const store = await freshStore()
      const [a, b] = barrier(store)
      const other = { ...idSchema, more: t.int }
      const outcomes = await Promise.allSettled([
        append(openSink(a), batchOf('q1', 0)),
        openSink(b, other).commit(batchOf('q2', 0), [], never),
      ])
      const failed = outcomes.flatMap((o) => (o.status === 'rejected' ? [o.reason as unknown] : []))
      expect(failed).toHaveLength(1)
      expect(failed[0]).toMatchObject({ name: 'TABLE_SCHEMA_MISMATCH' })
      expect((await tableAt(store)).version).toBe(0)
    }
  })
})
