/**
 * How the functions become bundles: by esbuild on this machine, without Docker and without network. `#query` is the user's
 * module. Native codecs are copied beside the bundle as they were installed, so they must be installed for the architecture
 * that the functions will run on.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Architecture } from 'aws-cdk-lib/aws-lambda'
import { LogLevel, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs'
import type { BundlingOptions } from 'aws-cdk-lib/aws-lambda-nodejs'

const require = createRequire(import.meta.url)

/** Node's name for an architecture. */
const nodeArch = (architecture: Architecture): string =>
  architecture.name === Architecture.ARM_64.name ? 'arm64' : 'x64'

/** Packages with the codecs of src/kafka/codecs.ts for a function's platform, each beside the package that loads it. */
const codecPackages = (architecture: Architecture): readonly { readonly name: string; readonly of: string }[] => [
  { name: `@node-rs/crc32-linux-${nodeArch(architecture)}-gnu`, of: '@node-rs/crc32' },
  { name: `@antoniomuso/lz4-napi-linux-${nodeArch(architecture)}-gnu`, of: 'lz4-napi' },
]

function isInstalled({ name, of }: { name: string; of: string }): boolean {
  try {
    createRequire(require.resolve(of)).resolve(name)
    return true
  } catch {
    return false
  }
}

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
    `MicroBatchQuery: the functions run on Linux ${architecture.name}, whose native codecs are not installed here. Install them ` +
      `beside this machine's own: npm install --no-save --force ${missing.map(({ name, of }) => `${name}@${dependencies[of]}`).join(' ')}`
  )
}

export const bundling = (queryFile: string, architecture: Architecture): BundlingOptions => ({
  format: OutputFormat.ESM,
  target: 'node24',
  minify: true,
  logLevel: LogLevel.WARNING,
  mainFields: ['module', 'main'],
  bundleAwsSDK: true, // the runtime's own changes without notice
  esbuildArgs: { '--alias': [`#query=${queryFile}`] },
  // The loaders of the native packages choose a file by these; fixed, they name only the one that is copied.
  define: { 'process.platform': '"linux"', 'process.arch': `"${nodeArch(architecture)}"` },
  loader: { '.node': 'copy' },
  banner: `import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);`,
})
