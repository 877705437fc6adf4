import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { dynamoMetadataLog } from '../../src/aws/metadata-log.ts'
import { ensureTable } from '../../src/aws/table.ts'
import { isSluiceError } from '../../src/errors.ts'
import { openEmbeddedDynamoDb } from '../../src/local/dynamodb.ts'
import type { MetadataLog } from '../../src/ports.ts'
import { startChild, type Child } from '../support/children.ts'
import { dynamoDbClient } from '../support/dynamodb.ts'

const going = new AbortController().signal

let directory: string
const children: Child[] = []
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-embedded-'))
})
afterEach(async () => {
  for (const child of children.splice(0)) await child.kill()
  await rm(directory, { recursive: true })
})
const start = (mode: string): Child => {
  const child = startChild('directory-child.ts', mode, directory)
  children.push(child)
  return child
}

async function withLog<T>(work: (log: MetadataLog, endpoint: string) => Promise<T>): Promise<T> {
  const db = await openEmbeddedDynamoDb(directory)
  const client = dynamoDbClient(db.endpoint)
  try {
    await ensureTable(client, 'state', going)
    return await work(dynamoMetadataLog({ client, table: 'state', query: 'orders', generation: 1 }), db.endpoint)
  } finally {
    client.destroy()
    await db.close()
  }
}

describe('the embedded DynamoDB', () => {
  it('E10 reads after a restart what was written before', async () => {
    await withLog((log) => log.add({ log: 'offsets', id: 0 }, 'batch 0', going))
    expect(await withLog((log) => log.get({ log: 'offsets', id: 0 }, going))).toBe('batch 0')
    expect(await withLog((log) => log.add({ log: 'offsets', id: 0 }, 'other', going))).toEqual({
      kind: 'exists',
      entry: 'batch 0',
    })
  })

  it('keeps every acknowledged entry of a process that is killed while it writes', async () => {
    const child = start('write')
    expect(await child.nextLine()).toBe('open')
    for (let id = 0; id < 60; id++) expect(await child.nextLine()).toBe(String(id))
    await child.kill()
    const acknowledged = 60 + (await child.rest()).length
    const ids = await withLog(async (log) => (await log.list('offsets', going)).map((e) => e.id))
    expect(ids.length).toBeGreaterThanOrEqual(acknowledged)
    expect(ids.length).toBeLessThanOrEqual(acknowledged + 1)
    expect(ids).toEqual(ids.map((_, i) => i))
  })

  it('refuses a second opener, in another process or in this one, naming the holder, and harms nothing', async () => {
    const child = start('hold')
    expect(await child.nextLine()).toBe('open')
    await expect(openEmbeddedDynamoDb(directory)).rejects.toMatchObject({
      name: 'DIRECTORY_IN_USE',
      message: expect.stringMatching(
        new RegExp(`^Directory ${directory} is in use by process ${child.pid} since 2\\d{3}-`)
      ),
    })
    await child.kill()
    await withLog(async (log) => {
      await expect(openEmbeddedDynamoDb(directory)).rejects.toMatchObject({
        name: 'DIRECTORY_IN_USE',
        parameters: { holder: expect.stringContaining(`process ${process.pid} `) },
      })
      expect(await log.add({ log: 'offsets', id: 0 }, 'still works', going)).toEqual({ kind: 'added' })
    })
  })

  it('leaves no lock behind', async () => {
    await withLog(async () => {})
    expect((await readdir(directory)).filter((name) => name.startsWith('sluice'))).toEqual([])
  })

  it('creates its directory, and refuses a path that is none', async () => {
    const deep = join(directory, 'a', 'b')
    await (await openEmbeddedDynamoDb(deep)).close()
    const file = join(directory, 'file')
    await writeFile(file, '')
    await expect(openEmbeddedDynamoDb(file)).rejects.toMatchObject({
      name: 'DIRECTORY_UNUSABLE',
      message: expect.stringContaining(file),
    })
  })

  it('outlives a client that breaks off in the middle of a request', async () => {
    await withLog(async (log, endpoint) => {
      await new Promise<void>((resolve) => {
        const broken = request(endpoint, { method: 'POST', headers: { 'content-length': 1000 } })
        broken.on('error', () => {}).on('close', resolve)
        broken.write('half of it', () => broken.destroy())
      })
      expect(await log.add({ log: 'offsets', id: 0 }, 'still works', going)).toEqual({ kind: 'added' })
    })
  })

  it('outlives calls that are aborted under way', async () => {
    await withLog(async (log) => {
      for (let i = 0; i < 20; i++) {
        const abort = new AbortController()
        const call = log.add({ log: 'offsets', id: i }, 'x'.repeat(200_000), abort.signal)
        setTimeout(() => abort.abort(), i % 5)
        const outcome = await call.then(
          ({ kind }) => kind,
          (e: unknown) => (isSluiceError(e) ? e.name : e)
        )
        expect(['added', 'ABORTED']).toContain(outcome)
      }
      expect(await log.add({ log: 'commits', id: 0 }, 'still works', going)).toEqual({ kind: 'added' })
    })
  })
})
