import { writeFileSync } from 'node:fs'
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { lockDirectory } from '../../src/local/directory-lock.ts'
import { systemProcesses, type Processes } from '../../src/local/processes.ts'
import { startChild, type Child } from '../support/children.ts'

const LIVE = 1_000_001
const DEAD = 1_000_002

let directory: string
let lock: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-lock-'))
  lock = join(directory, 'sluice.lock')
})
afterEach(() => rm(directory, { recursive: true }))

/** A system where this process and LIVE run, LIVE since tick 500. */
const processes: Processes = {
  isAlive: (pid) => pid === process.pid || pid === LIVE,
  startTime: (pid) => (pid === LIVE ? '500' : pid === process.pid ? '900' : null),
}
const withoutStartTimes: Processes = { ...processes, startTime: () => null }

const owner = (pid: number, uuid: string, started: string | null = '500'): string =>
  JSON.stringify({ pid, started, uuid, since: '2026-01-01T00:00:00.000Z' })
const filesThere = async () => (await readdir(directory)).toSorted()
const pidInLock = async (): Promise<unknown> => JSON.parse(await readFile(lock, 'utf8')).pid

describe('the lock of a directory', () => {
  it('is held by one at a time and free after its release', async () => {
    const first = await lockDirectory(directory)
    await expect(lockDirectory(directory)).rejects.toMatchObject({ name: 'DIRECTORY_IN_USE' })
    await first.release()
    const second = await lockDirectory(directory)
    await first.release() // again: not the second's
    expect(await filesThere()).toEqual(['sluice.lock'])
    await second.release()
    expect(await filesThere()).toEqual([])
  })

  it('is refused while its owner runs, with pid and time', async () => {
    await writeFile(lock, owner(LIVE, 'a'))
    for (const system of [processes, withoutStartTimes])
      await expect(lockDirectory(directory, system)).rejects.toMatchObject({
        name: 'DIRECTORY_IN_USE',
        parameters: { directory, holder: `process ${LIVE} since 2026-01-01T00:00:00.000Z` },
      })
    expect(await filesThere()).toEqual(['sluice.lock'])
  })

  it.each([
    ['of a process that is gone', owner(DEAD, 'a'), processes],
    ['of an earlier process with the same pid', owner(LIVE, 'a', '499'), processes],
    ['of a process that is gone, where the system tells no start times', owner(DEAD, 'a', null), withoutStartTimes],
  ])('%s is taken over', async (_what, stale, system) => {
    await writeFile(lock, stale)
    const taken = await lockDirectory(directory, system)
    expect(await pidInLock()).toBe(process.pid)
    expect(await filesThere()).toEqual(['sluice.lock'])
    await taken.release()
    expect(await filesThere()).toEqual([])
  })

  it('is taken over from takers that died on the way', async () => {
    await writeFile(lock, owner(DEAD, 'a'))
    await writeFile(`${lock}.after-a`, owner(DEAD, 'b'))
    await writeFile(`${lock}.after-b`, owner(DEAD, 'c'))
    await lockDirectory(directory, processes)
    expect(await pidInLock()).toBe(process.pid)
    expect(await filesThere()).toEqual(['sluice.lock'])
  })

  it('is refused while a taker is on its way', async () => {
    await writeFile(lock, owner(DEAD, 'a'))
    await writeFile(`${lock}.after-a`, owner(LIVE, 'b'))
    await expect(lockDirectory(directory, processes)).rejects.toMatchObject({ name: 'DIRECTORY_IN_USE' })
    expect(await filesThere()).toEqual(['sluice.lock', 'sluice.lock.after-a'])
  })

  it('is not taken from another taker that was through between the look and the link', async () => {
    await writeFile(lock, owner(DEAD, 'a'))
    let looks = 0
    const overtaken: Processes = {
      ...processes,
      isAlive(pid) {
        if (pid === DEAD && ++looks === 1) writeFileSync(lock, owner(LIVE, 'b')) // its successor file is gone already
        return processes.isAlive(pid)
      },
    }
    await expect(lockDirectory(directory, overtaken)).rejects.toMatchObject({
      name: 'DIRECTORY_IN_USE',
      parameters: { holder: expect.stringContaining(String(LIVE)) },
    })
    expect(await filesThere()).toEqual(['sluice.lock'])
    expect(await pidInLock()).toBe(LIVE)
  })

  it.each(['', '{"pid":', '[]', '{"pid":"x"}'])('is refused where it names no owner: %j', async (text) => {
    await writeFile(lock, text)
    await expect(lockDirectory(directory)).rejects.toMatchObject({
      name: 'DIRECTORY_IN_USE',
      message: expect.stringContaining(`remove that file`),
    })
  })

  it('goes to one of many takers of a stale lock', async () => {
    for (let round = 0; round < 25; round++) {
      await writeFile(lock, owner(DEAD, `round-${round}`))
      const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => lockDirectory(directory)))
      const held = outcomes.flatMap((o) => (o.status === 'fulfilled' ? [o.value] : []))
      expect(held).toHaveLength(1)
      const refusals = outcomes.flatMap((o) => (o.status === 'rejected' ? [o.reason.name] : []))
      expect(refusals).toEqual(Array(7).fill('DIRECTORY_IN_USE'))
      expect(await filesThere()).toEqual(['sluice.lock'])
    }
  })

  it('goes to one of several processes that take over from a killed one', async () => {
    const children: Child[] = []
    const start = async (): Promise<Child> => {
      const child = startChild('directory-child.ts', 'lock', directory)
      children.push(child)
      expect(await child.nextLine()).toBe('ready')
      return child
    }
    try {
      const killed = await start()
      killed.say('go')
      expect(await killed.nextLine()).toBe('held')
      const takers = await Promise.all([start(), start(), start(), start()])
      await killed.kill()
      for (const taker of takers) taker.say('go')
      const answers = await Promise.all(takers.map((taker) => taker.nextLine()))
      const winner = answers.indexOf('held')
      expect(answers.filter((answer) => answer === 'held')).toHaveLength(1)
      const refused = `DIRECTORY_IN_USE: Directory ${directory} is in use by process ${takers[winner]?.pid} `
      expect(answers.filter((answer) => answer.startsWith(refused))).toHaveLength(3)
    } finally {
      for (const child of children) await child.kill()
    }
  })
})

describe('the system', () => {
  it('knows this process, one that is killed, and none', async () => {
    expect(systemProcesses.isAlive(process.pid)).toBe(true)
    expect(systemProcesses.startTime(process.pid)).toMatch(/^\d+$/)
    expect(systemProcesses.isAlive(2 ** 30)).toBe(false)
    expect(systemProcesses.startTime(2 ** 30)).toBeNull()
  })
})
