/** The functions' bundles alone: what is in them, and that they load where nothing else is installed. */
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { removeAssemblies, synthesize } from '../support/deployed-query.ts'

const run = promisify(execFile)
const names = ['Planner', 'Worker', 'Committer'] as const

let folder: string
/** Copies of the bundles, by function. */
const bundles: Record<string, string> = {}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-bundles-'))
  const assembly = synthesize({
    entry: join(import.meta.dirname, '../support/queries/deployed.ts'),
    environment: { BROKERS: 'broker.example:9092', TOPIC: 'x', CAP: '1' },
  })
  const { Resources } = JSON.parse(assembly.template)
  for (const name of names) {
    const id = Object.keys(Resources).find((one) => one.startsWith(`Query${name}Function`)) ?? ''
    const bundle = assembly.bundles.get(Resources[id].Properties.Code.S3Key) ?? ''
    await cp(bundle, join(folder, name), { recursive: true })
    bundles[name] = join(folder, name)
  }
}, 120_000)

afterAll(async () => {
  removeAssemblies()
  await rm(folder, { recursive: true, force: true })
})

const addonsOf = async (name: string): Promise<string[]> =>
  (await readdir(bundles[name] ?? '')).filter((file) => file !== 'index.mjs').map((file) => file.replace(/\..*/, ''))

describe('bundles', () => {
  it.each([
    ['Planner', [], true],
    ['Worker', ['crc32', 'lz4-napi'], true],
    ['Committer', [], false],
  ] as const)('%s has the native codecs %j, and Kafka: %j', async (name, addons, hasKafka) => {
    expect((await addonsOf(name)).toSorted()).toEqual(addons)
    const text = await readFile(join(bundles[name] ?? '', 'index.mjs'), 'utf8')
    expect(text.includes('KafkaJSNumberOfRetriesExceeded')).toBe(hasKafka)
    expect(text).not.toContain(join(import.meta.dirname, '..')) // no path of the machine that made it
  })

  it.each(names)('%s loads without node_modules and without a warning', async (name) => {
    const script = `const { handler } = await import(${JSON.stringify(join(bundles[name] ?? '', 'index.mjs'))}); console.log(typeof handler)`
    const { stdout, stderr } = await run(process.execPath, ['--input-type=module', '-e', script], {
      cwd: folder,
      env: {},
    })
    expect(stdout.trim().split('\n').at(-1)).toBe('function')
    expect(stderr).toBe('')
  })
})
