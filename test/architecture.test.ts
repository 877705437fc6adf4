/** The policies of src/README.md as tests: who may import whom, exact versions, a core without clock or chance. */
import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '..')
const filesIn = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => join(folder, file))
    .filter((file) => /\.(ts|mjs)$/.test(file) && !file.endsWith('.d.ts'))

const read = (file: string): string => readFileSync(join(root, file), 'utf8')

/** What a file imports: packages and node modules by name, the project's files by path from its root. */
function importsOf(file: string): string[] {
  const pattern = /(?:\bfrom |\bimport |\bimport\(|\brequire\(|\(import\.meta\.url\)\()'([^']+)'\)?(?= as |;|$|\))/gm
  const specifiers = [...read(file).matchAll(pattern)].map((m) => m[1] ?? '')
  return specifiers.map((s) => (s.startsWith('.') ? relative(root, resolve(root, dirname(file), s)) : s))
}

const protocol = [
  'batch',
  'bounded-read',
  'bounds',
  'context',
  'log-reader',
  'plan',
  'read-limit',
  'redo',
  'retention',
  'stage',
  'steps',
  'task-split',
].map((name) => `src/${name}.ts`)
const outer = ['runtime', 'read-batch', 'cli', 'index'].map((name) => `src/${name}.ts`)
const topFiles = readdirSync(join(root, 'src'))
  .filter((f) => f.endsWith('.ts'))
  .map((f) => `src/${f}`)
const core = topFiles.filter((file) => !protocol.includes(file) && !outer.includes(file))

interface Layer {
  readonly files: readonly string[]
  readonly allowed: readonly (string | RegExp)[]
}

const layers: Readonly<Record<string, Layer>> = {
  core: { files: core, allowed: [...core, 'node:crypto'] },
  protocol: { files: protocol, allowed: [...core, ...protocol, 'node:crypto'] },
  kafka: {
    files: filesIn('src/kafka'),
    allowed: [...core, /^src\/kafka\//, /^node:/, /^kafkajs(\/|$)/, '@node-rs/crc32', 'lz4-napi', 'snappyjs'],
  },
  delta: {
    files: filesIn('src/sinks/delta'),
    allowed: [...core, /^src\/sinks\/delta\//, /^node:/, 'hyparquet', 'hyparquet-writer'],
  },
  formats: { files: filesIn('src/formats'), allowed: [...core, /^src\/formats\//] },
  aws: { files: filesIn('src/aws'), allowed: [...core, /^src\/aws\//, /^node:/, /^@aws-sdk\//] },
  // The runner is the loop over the steps.
  local: { files: filesIn('src/local'), allowed: [...core, ...protocol, /^src\/local\//, /^node:/, 'dynalite'] },
  cli: {
    files: [...filesIn('src/cli'), 'src/cli.ts', 'src/cli.mjs'],
    allowed: [
      ...core,
      /^src\/cli/,
      'src/runtime.ts',
      'src/read-batch.ts',
      'src/local/runner.ts',
      /^node:/,
      'commander',
    ],
  },
  functions: {
    files: filesIn('functions'),
    allowed: [
      ...core,
      'src/steps.ts',
      'src/runtime.ts',
      /^functions\//,
      '#query',
      /^@middy\//,
      /^@aws-lambda-powertools\//,
      'aws-lambda',
      'node:crypto',
    ],
  },
  // The state machine's retries are the catalogue's retryable conditions; the construct reads the query's name and options.
  cdk: {
    files: filesIn('cdk'),
    allowed: [...core, 'src/index.ts', /^cdk\//, /^aws-cdk-lib/, 'constructs', /^node:/],
  },
}

describe('imports', () => {
  it.each(Object.entries(layers))('%s imports only what its layer may', (_name, { files, allowed }) => {
    expect(files.length).toBeGreaterThan(0)
    const isAllowed = (imported: string): boolean =>
      allowed.some((rule) => (typeof rule === 'string' ? rule === imported : rule.test(imported)))
    const refused = files.flatMap((file) =>
      importsOf(file)
        .filter((imported) => !isAllowed(imported))
        .map((imported) => `${file} -> ${imported}`)
    )
    expect(refused).toEqual([])
  })

  it('every file of src is in a layer, or is the composition root or the public API', () => {
    const known = new Set([
      ...Object.values(layers).flatMap((l) => l.files),
      'src/runtime.ts',
      'src/read-batch.ts',
      'src/index.ts',
    ])
    expect(filesIn('src').filter((file) => !known.has(file))).toEqual([])
  })

  it('only the Kafka client folder touches kafkajs', () => {
    const others = filesIn('src').filter((file) => !file.startsWith('src/kafka/'))
    expect(others.filter((file) => importsOf(file).some((i) => i.startsWith('kafkajs')))).toEqual([])
  })
})

describe('the core and the protocol', () => {
  it.each([...core, ...protocol])('%s has no clock, no chance, no process', (file) => {
    const code = read(file).replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    expect(code).not.toMatch(
      /Date\.now|new Date\(\)|Math\.random|randomUUID|randomBytes|\bprocess\.|setTimeout|performance\./
    )
  })
})

describe('package.json', () => {
  const manifest = JSON.parse(read('package.json')) as Record<string, Record<string, string> | undefined>

  it('pins exact versions', () => {
    const versions = { ...manifest['dependencies'], ...manifest['devDependencies'] }
    expect(Object.entries(versions).filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([])
  })

  it('every dependency has its reason in src/README.md', () => {
    const names = Object.keys({ ...manifest['dependencies'], ...manifest['devDependencies'] })
    const reasons = read('src/README.md')
    expect(names.filter((name) => !reasons.includes(`\`${name}\``))).toEqual([])
  })

  it('every dependency of the product is imported by it', () => {
    const imported = [...filesIn('src'), ...filesIn('functions')].flatMap(importsOf)
    const unused = Object.keys(manifest['dependencies'] ?? {}).filter(
      (name) => !imported.some((i) => i === name || i.startsWith(`${name}/`))
    )
    expect(unused).toEqual([])
  })
})
