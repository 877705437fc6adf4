/**
 * How the functions become bundles: by esbuild on this machine, without Docker and without network. `#query` is the user's
 * module. A bundle is JavaScript alone; native codecs come beside it where they are asked for, as they were installed, so they
 * must be installed for the architecture that the functions will run on.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Architecture } from 'aws-cdk-lib/aws-lambda'
import { LogLevel, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs'
import type { BundlingOptions } from 'aws-cdk-lib/aws-lambda-nodejs'

const require = createRequire(import.meta.url)

/** Node's name for an architecture. */
const nodeArch = (architecture: Architecture): string =>
  architecture.name === Architecture.ARM_64.name ? 'arm64' : 'x64'

/** A package, and the one that loads it. */
interface CodecPackage {
  readonly name: string
  readonly of: string
}

/** Packages with the codecs of src/kafka/native-codecs.ts for a function's platform. */
const codecPackages = (architecture: Architecture): readonly CodecPackage[] => [
  { name: `@node-rs/crc32-linux-${nodeArch(architecture)}-gnu`, of: '@node-rs/crc32' },
  { name: `@antoniomuso/lz4-napi-linux-${nodeArch(architecture)}-gnu`, of: 'lz4-napi' },
]

/** The folder in which it is installed; null where it is not. */
function folderOf({ name, of }: CodecPackage): string | null {
  try {
    return dirname(createRequire(require.resolve(of)).resolve(`${name}/package.json`))
  } catch {
    return null
  }
}

const isInstalled = (codec: CodecPackage): boolean => folderOf(codec) !== null

/** The one whose codecs are installed; x86_64 where both or none are. */
export function installedArchitecture(): Architecture {
  const isComplete = (architecture: Architecture): boolean => codecPackages(architecture).every(isInstalled)
  return !isComplete(Architecture.X86_64) && isComplete(Architecture.ARM_64) ? Architecture.ARM_64 : Architecture.X86_64
}

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>
}

/** @throws Error that says which packages are missing and how to install them */
export function assertCodecs(architecture: Architecture): void {
  const missing = codecPackages(architecture).filter((codec) => !isInstalled(codec))
  if (missing.length === 0) return
  const { dependencies } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8')) as Manifest
  throw new Error(
    `MicroBatchQuery: the functions run on Linux ${architecture.name}, whose native codecs are not installed here. Go without ` +
      `'nativeCodecs', or install them beside this machine's own: npm install --no-save --force ${missing.map(({ name, of }) => `${name}@${dependencies[of]}`).join(' ')}`
  )
}

/** Copies the native codecs and what loads them to where the bundle looks for packages: beside itself. */
function copyCommands(architecture: Architecture, output: string): string[] {
  const packages = codecPackages(architecture).flatMap((codec) => [
    { name: codec.of, folder: dirname(require.resolve(codec.of)), files: 'package.json index.js' },
    { name: codec.name, folder: folderOf(codec) ?? '', files: 'package.json *.node' },
  ])
  return packages.flatMap(({ name, folder, files }) => {
    const target = join(output, 'node_modules', name)
    return [`mkdir -p ${quoted(target)}`, `(cd ${quoted(folder)} && cp ${files} ${quoted(target)})`]
  })
}

/** For a shell. */
const quoted = (path: string): string => `'${path.replaceAll("'", String.raw`'\''`)}'`

export interface BundleSettings {
  /** Of the query's module. */
  readonly queryFile: string
  /** The architecture whose native codecs come with it; null: none do. */
  readonly nativeCodecs: Architecture | null
}

export const bundling = ({ queryFile, nativeCodecs }: BundleSettings): BundlingOptions => ({
  format: OutputFormat.ESM,
  target: 'node24',
  minify: true,
  logLevel: LogLevel.WARNING,
  mainFields: ['module', 'main'],
  bundleAwsSDK: true, // the runtime's own changes without notice
  esbuildArgs: { '--alias': [`#query=${queryFile}`] },
  banner: `import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);`,
  ...(nativeCodecs && {
    commandHooks: {
      beforeBundling: () => [],
      beforeInstall: () => [],
      afterBundling: (_input, output) => copyCommands(nativeCodecs, output),
    },
  }),
})
