/**
 * One process at a time works in a directory. The lock is a file that names its owner; it appears whole, by `link(2)`
 * of a written file, so nobody reads half an owner, and link refuses an existing name as O_EXCL does.
 *
 * The lock of a dead process is taken over by linking a successor file named after the dead owner's uuid: one taker
 * wins. The winner then replaces the lock by its own. A taker who looked too long ago finds another owner in the lock
 * after its link and starts again; uuids never return, so an old look cannot pass for a new one. A taker that dies in
 * between is a dead owner itself, reached through its successor file.
 *
 * It works among the processes of one machine.
 */
import { randomUUID } from 'node:crypto'
import { link, mkdir, readFile, readdir, rename, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SluiceError, reasonOf } from '../errors.ts'
import { isObject } from '../offsets.ts'
import { systemProcesses, type Processes } from './processes.ts'

export interface DirectoryLock {
  /** Frees the directory. Repeating it is harmless. */
  release(): Promise<void>
}

interface Owner {
  readonly pid: number
  /** The system's start time of the process; null where the system does not tell. Tells apart two of one pid. */
  readonly started: string | null
  readonly uuid: string
  /** When it took the lock, ISO 8601. */
  readonly since: string
}

const LOCK = 'sluice.lock'

/**
 * Creates the directory if needed and takes its lock.
 * @throws DIRECTORY_IN_USE naming the live holder, DIRECTORY_UNUSABLE
 */
export async function lockDirectory(directory: string, processes: Processes = systemProcesses): Promise<DirectoryLock> {
  const me: Owner = {
    pid: process.pid,
    started: processes.startTime(process.pid),
    uuid: randomUUID(),
    since: new Date().toISOString(),
  }
  const lock = join(directory, LOCK)
  const mine = `${lock}.new-${me.uuid}`
  try {
    await mkdir(directory, { recursive: true })
    await writeFile(mine, `${JSON.stringify(me)}\n`, { flag: 'wx' })
    try {
      while (!(await attempt(directory, lock, mine, processes)));
    } finally {
      await removeFile(mine)
    }
  } catch (e) {
    if (e instanceof SluiceError) throw e
    throw new SluiceError('DIRECTORY_UNUSABLE', { directory, reason: reasonOf(e) }, e)
  }
  return { release: () => release(directory, lock, me) }
}

/** False: another process was faster; look again. */
async function attempt(directory: string, lock: string, mine: string, processes: Processes): Promise<boolean> {
  const [root, ...successors] = await ownersOf(directory, lock)
  if (root === undefined) return linked(mine, lock)
  const last = successors.at(-1) ?? root
  if (isRunning(last, processes))
    throw new SluiceError('DIRECTORY_IN_USE', { directory, holder: `process ${last.pid} since ${last.since}` })
  const successor = successorOf(lock, last)
  if (!(await linked(mine, successor))) return false
  if ((await ownerIn(directory, lock))?.uuid !== root.uuid) {
    await removeFile(successor)
    return false
  }
  await rename(mine, lock)
  await removeLeftovers(directory)
  return true
}

/** The lock's owner and those who began to take over from it, the current one last. */
async function ownersOf(directory: string, lock: string): Promise<Owner[]> {
  const owners: Owner[] = []
  let owner = await ownerIn(directory, lock)
  while (owner !== null) {
    owners.push(owner)
    owner = await ownerIn(directory, successorOf(lock, owner))
  }
  return owners
}

const successorOf = (lock: string, owner: Owner): string => `${lock}.after-${owner.uuid}`

const isRunning = (owner: Owner, processes: Processes): boolean => {
  if (!processes.isAlive(owner.pid)) return false
  const started = processes.startTime(owner.pid)
  return started === null || owner.started === null || started === owner.started
}

async function ownerIn(directory: string, file: string): Promise<Owner | null> {
  const text = await readFile(file, 'utf8').catch(nullIfAbsent)
  if (text === null) return null
  const owner = parsed(text)
  if (isObject(owner) && typeof owner['uuid'] === 'string' && typeof owner['pid'] === 'number')
    return owner as unknown as Owner // the two decisive fields are checked, the others are for messages
  const holder = `an unknown process (${file} names none; remove that file if no run uses the directory)`
  throw new SluiceError('DIRECTORY_IN_USE', { directory, holder })
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

async function release(directory: string, lock: string, me: Owner): Promise<void> {
  if ((await ownerIn(directory, lock))?.uuid === me.uuid) await removeFile(lock)
}

/** With the lock ours, every successor file is one of a finished take-over. Files of waiting takers stay. */
async function removeLeftovers(directory: string): Promise<void> {
  for (const name of await readdir(directory))
    if (name.startsWith(`${LOCK}.after-`)) await removeFile(join(directory, name))
}

const linked = (file: string, as: string): Promise<boolean> =>
  link(file, as).then(
    () => true,
    (e: unknown) => {
      if (codeOf(e) === 'EEXIST') return false
      throw e
    }
  )

const removeFile = (file: string): Promise<null | void> => unlink(file).catch(nullIfAbsent)

const nullIfAbsent = (e: unknown): null => {
  if (codeOf(e) === 'ENOENT') return null
  throw e
}

const codeOf = (e: unknown): unknown => (e instanceof Error && 'code' in e ? e.code : undefined)
