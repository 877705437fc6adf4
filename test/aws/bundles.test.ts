/** The functions' bundles alone: what is in them, how large they are, and that they load where nothing else is installed. */
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { removeAssemblies, synthesize } from '../support/deployed-query.ts'
import { zipFolder } from '../support/zip.ts'

const run = promisify(execFile)
const names = ['Planner', 'Worker', 'Committer'] as const
/** A worker with native codecs. */
const NATIVE = 'NativeWorker'

let folder: string
const bundleOf = (name: string): string => join(folder, name)

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-bundles-'))
  const props = {
    entry: join(import.meta.dirname, '../support/queries/deployed.ts'),
    environment: { BROKERS: 'broker.example:9092', TOPIC: 'x', CAP: '1' },
  }
  const plain = synthesize(props)
  for (const name of names) await cp(bundleIn(plain, name), bundleOf(name), { recursive: true })
  await cp(bundleIn(synthesize({ ...props, nativeCodecs: true }), 'Worker'), bundleOf(NATIVE), { recursive: true })
}, 120_000)

function bundleIn({ template, bundles }: ReturnType<typeof synthesize>, name: string): string {
  const { Resources } = JSON.parse(template)
  const id = Object.keys(Resources).find((one) => one.startsWith(`Query${name}Function`)) ?? ''
  return bundles.get(Resources[id].Properties.Code.S3Key) ?? ''
}

afterAll(async () => {
  removeAssemblies()
  await rm(folder, { recursive: true, force: true })
})

/** Loads a bundle in a process of its own; answers the native modules that it loaded. */
async function loaded(name: string): Promise<{ addons: string[]; stderr: string }> {
  const file = JSON.stringify(join(bundleOf(name), 'index.mjs'))
  const script = `
    const { handler } = await import(${file})
    if (typeof handler !== 'function') throw new Error('no handler')
    const { _cache } = (await import('node:module')).default
    console.log('\\n' + JSON.stringify(Object.keys(_cache).filter((path) => path.endsWith('.node'))))`
  const { stdout, stderr } = await run(process.execPath, ['--input-type=module', '-e', script], {
    cwd: folder,
    env: {},
  })
  const addons: string[] = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  return { addons: addons.map((path) => path.replace(`${bundleOf(name)}/`, '')), stderr }
}

describe('bundles', () => {
  it.each([
    ['Planner', true, 300],
    ['Worker', true, 300],
    ['Committer', false, 250],
  ] as const)('%s is one file, has Kafka: %j, and under %d KiB zipped', async (name, hasKafka, limit) => {
    expect(await readdir(bundleOf(name))).toEqual(['index.mjs'])
    expect(zipFolder(bundleOf(name)).length / 1024).toBeLessThan(limit)
    const text = await readFile(join(bundleOf(name), 'index.mjs'), 'utf8')
    expect(text.includes('KafkaJSNumberOfRetriesExceeded')).toBe(hasKafka)
    // Of the command line and of local runs.
    expect(text.match(/CommanderError|dynalite/)).toBeNull()
    expect(text).not.toContain(join(import.meta.dirname, '..')) // no path of the machine that made it
  })

  it.each(names)('%s loads without node_modules, without native codecs and without a warning', async (name) => {
    expect(await loaded(name)).toEqual({ addons: [], stderr: '' })
  })

  it('a worker with native codecs loads them', async () => {
    const { addons, stderr } = await loaded(NATIVE)
    expect(stderr).toBe('')
    expect(addons.toSorted()).toEqual([
      expect.stringMatching(/^node_modules\/@antoniomuso\/lz4-napi-linux-\w+-gnu\/[\w.-]+\.node$/),
      expect.stringMatching(/^node_modules\/@node-rs\/crc32-linux-\w+-gnu\/[\w.-]+\.node$/),
    ])
  })
})
