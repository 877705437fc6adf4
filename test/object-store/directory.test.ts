import { mkdtemp, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { existsSync, fstatSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { directoryObjectStore } from '../../src/local/object-store.ts'
import { objectStoreConformance } from '../conformance/object-store.ts'

const never = new AbortController().signal
const bytes = (text: string): Uint8Array => Buffer.from(text)

let folder = ''
let count = 0
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-objects-'))
})
afterAll(() => rm(folder, { recursive: true }))
const freshRoot = () => join(folder, `store-${count++}`)

objectStoreConformance('directory', async () => ({ kind: 'directory', root: freshRoot() }))

describe('directory', () => {
  test('P2: a put is synced as a file before its name exists and as a name of its folder after', async () => {
    const root = freshRoot()
    await mkdir(root)
    const target = join(root, 'entry')
    const syncs: { kind: string; linked: boolean }[] = []
    const handle = await open(folder, 'r')
    const prototype = Object.getPrototypeOf(handle) as { sync: () => Promise<void> }
    await handle.close()
    const spy = vi.spyOn(prototype, 'sync').mockImplementation(async function sync(this: { fd: number }) {
      syncs.push({ kind: fstatSync(this.fd).isDirectory() ? 'folder' : 'file', linked: existsSync(target) })
    })
    await directoryObjectStore(root).putIfAbsent('entry', bytes('x'), never)
    spy.mockRestore()
    expect(syncs).toEqual([
      { kind: 'file', linked: false },
      { kind: 'folder', linked: true },
    ])
  })

  test('what a killed writer left is not listed and does not stand in the way', async () => {
    const root = freshRoot()
    await mkdir(root)
    await writeFile(join(root, '.sluice-0.tmp'), 'half')
    const store = directoryObjectStore(root)
    expect(await store.list('', null, never)).toEqual([])
    expect(await store.putIfAbsent('a', bytes('x'), never)).toBe('created')
    expect(await store.list('', null, never)).toEqual(['a'])
  })

  test('no temporary file stays behind a put, a lost put, an object and an aborted one', async () => {
    const root = freshRoot()
    const store = directoryObjectStore(root)
    await store.putIfAbsent('a', bytes('x'), never)
    await store.putIfAbsent('a', bytes('y'), never)
    await store.put('b', bytes('x'), never)
    const written = await store.create('c', never)
    await written.close()
    const dropped = await store.create('d', never)
    await dropped.abort()
    expect((await readdir(root)).toSorted()).toEqual(['a', 'b', 'c'])
  })

  test('folders that vanish and links are no objects', async () => {
    const root = freshRoot()
    const store = directoryObjectStore(root)
    await store.putIfAbsent('x/a', bytes('x'), never)
    await symlink('/nowhere', join(root, 'x', 'link'))
    expect(await store.list('', null, never)).toEqual(['x/a'])
  })

  test('a root that cannot be a folder is named', async () => {
    const root = freshRoot()
    await writeFile(root, 'a file')
    const put = directoryObjectStore(root).putIfAbsent('a', bytes('x'), never)
    await expect(put).rejects.toMatchObject({
      name: 'OBJECT_STORE_REFUSED',
      parameters: { object: join(root, 'a') },
    })
  })
})
