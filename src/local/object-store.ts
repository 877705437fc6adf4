/**
 * Objects as files below a directory. An object appears whole or not at all: it is written to a hidden file in its own
 * folder and then linked to its name, which succeeds for one writer only. (Creating the name first and writing into it
 * also has one winner, but losers would read half a file; rename would overwrite.)
 */
import { randomUUID } from 'node:crypto'
import { link, mkdir, open, readdir, readFile, rename, stat, unlink } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { SluiceError, isSluiceError, reasonOf } from '../errors.ts'
import { checkedFolder, checkedKey, compareKeys, isTemporaryName, temporaryName } from '../object-key.ts'
import type { ObjectStore, ObjectWriter } from '../ports.ts'

/**
 * An object store on the folder `root`, which is made with the first object. Safe among processes of one machine;
 * every answer to a write comes after fsync of the file and of its folder (P2).
 */
export function directoryObjectStore(root: string): ObjectStore {
  const base = resolve(root)
  const at = async <T>(key: string, signal: AbortSignal, work: (path: string) => Promise<T>): Promise<T> => {
    const path = join(base, checkedKey(base, key))
    return settle(path, signal, () => work(path))
  }
  return {
    root: base,
    putIfAbsent: (key, body, signal) =>
      at(key, signal, async (path) => publish(await writeTemporary(path, body, signal), path, signal)),
    put: (key, body, signal) =>
      at(key, signal, async (path) => replace(await writeTemporary(path, body, signal), path, signal)),
    create: (key, signal) => at(key, signal, (path) => fileWriter(path, signal)),
    get: (key, signal) => at(key, signal, (path) => orNull(readFile(path))),
    size: (key, signal) =>
      at(key, signal, async (path) => {
        const found = await orNull(stat(path))
        return found?.isFile() === true ? found.size : null
      }),
    list: (prefix, startAfter, signal) =>
      settle(`${base}/${prefix}*`, signal, async () => {
        const keys = await keysBelow(base, checkedFolder(base, prefix))
        return keys
          .filter((key) => key.startsWith(prefix) && (startAfter === null || compareKeys(key, startAfter) > 0))
          .toSorted(compareKeys)
      }),
  }
}

async function writeTemporary(path: string, body: Uint8Array, signal: AbortSignal): Promise<string> {
  const { handle, temporary } = await openTemporary(path)
  await orRemove(temporary, async () => {
    try {
      await handle.writeFile(body)
      await handle.sync()
    } finally {
      await handle.close()
    }
    throwIfAborted(path, signal)
  })
  return temporary
}

async function openTemporary(path: string): Promise<{ handle: FileHandle; temporary: string }> {
  const folder = dirname(path)
  await makeFolder(folder)
  const temporary = join(folder, temporaryName(randomUUID()))
  return { handle: await open(temporary, 'wx'), temporary }
}

/** Gives the finished temporary file its name. The folder is synced for a loser too: the winner may have died before. */
async function publish(temporary: string, path: string, signal: AbortSignal): Promise<'created' | 'exists'> {
  const outcome = await orRemove(temporary, async () => {
    throwIfAborted(path, signal)
    try {
      await link(temporary, path)
      return 'created'
    } catch (e) {
      if (codeOf(e) === 'EEXIST') return 'exists'
      throw e
    }
  })
  await unlink(temporary)
  await syncFolder(dirname(path))
  return outcome
}

async function replace(temporary: string, path: string, signal: AbortSignal): Promise<void> {
  await orRemove(temporary, async () => {
    throwIfAborted(path, signal)
    await rename(temporary, path)
  })
  await syncFolder(dirname(path))
}

async function fileWriter(path: string, signal: AbortSignal): Promise<ObjectWriter> {
  const { handle, temporary } = await openTemporary(path)
  let isOpen = true
  const shut = async () => {
    if (isOpen) await handle.close()
    isOpen = false
  }
  return {
    write: (bytes) => settle(path, signal, () => handle.writeFile(bytes)),
    close: () =>
      settle(path, signal, async () => {
        await handle.sync()
        await shut()
        const outcome = await publish(temporary, path, signal)
        if (outcome === 'exists') throw new Error('the name is taken by another object')
      }),
    abort: async () => {
      await shut()
      await orNull(unlink(temporary))
    },
  }
}

// -- folders

/** Makes a folder and its parents durable: a new name lasts once the folder that holds it is synced. */
async function makeFolder(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true })
  if (first === undefined) return
  for (let made = folder; ; made = dirname(made)) {
    await syncFolder(dirname(made))
    if (made === first || made === dirname(made)) return
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Keys of all files below a folder (`''` or with a slash at its end); entries that vanish meanwhile are left out. */
async function keysBelow(base: string, folder: string): Promise<string[]> {
  const entries = (await orNull(readdir(join(base, folder), { withFileTypes: true }))) ?? []
  const keys: string[] = []
  for (const entry of entries) {
    const key = folder + entry.name
    if (entry.isDirectory()) keys.push(...(await keysBelow(base, `${key}/`)))
    else if (entry.isFile() && !isTemporaryName(entry.name)) keys.push(key)
  }
  return keys
}

// -- failures

const codeOf = (e: unknown): unknown => (e instanceof Error && 'code' in e ? e.code : undefined)

async function orNull<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (e) {
    if (codeOf(e) === 'ENOENT' || codeOf(e) === 'ENOTDIR' || codeOf(e) === 'EISDIR') return null
    throw e
  }
}

/** Runs `work`; if it fails, nothing of the temporary file stays. */
async function orRemove<T>(temporary: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (e) {
    await orNull(unlink(temporary))
    throw e
  }
}

function throwIfAborted(path: string, signal: AbortSignal): void {
  if (signal.aborted) throw new SluiceError('ABORTED', { step: `Writing ${path}` })
}

async function settle<T>(path: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  if (signal.aborted) throw new SluiceError('ABORTED', { step: `Access to ${path}` })
  try {
    return await work()
  } catch (e) {
    throw isSluiceError(e) ? e : failureOf(path, e)
  }
}

function failureOf(object: string, e: unknown): SluiceError {
  const code = codeOf(e)
  if (code === 'EPERM' || code === 'ENOTSUP' || code === 'EOPNOTSUPP' || code === 'EMLINK')
    return refused(object, e, 'Choose a directory of this user on a file system with hard links.')
  if (code === 'EACCES' || code === 'EROFS' || code === 'EEXIST' || code === 'ENOTDIR' || code === 'ENAMETOOLONG')
    return refused(object, e, 'Choose a directory that this user can write to.')
  return new SluiceError('OBJECT_STORE_FAILED', { object, reason: reasonOf(e) }, e)
}

const refused = (object: string, e: unknown, remedy: string): SluiceError =>
  new SluiceError('OBJECT_STORE_REFUSED', { object, reason: reasonOf(e), remedy }, e)
