/** The benchmark's processes as they would be deployed: bundles, so that no figure holds the stripping of types. */
import { mkdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { build } from 'esbuild'

/** Below the project, so that native codecs are found. */
const folder = join(import.meta.dirname, '../../.tools/bench')

/** Bundles files of `children/`; answers where each is. */
export async function bundled(names: readonly string[]): Promise<ReadonlyMap<string, string>> {
  await mkdir(folder, { recursive: true })
  const entries = names.map((name) => join(import.meta.dirname, 'children', `${name}.ts`))
  await build({
    entryPoints: entries,
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'esm',
    target: 'node24',
    mainFields: ['module', 'main'],
    banner: { js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);" },
    logLevel: 'error',
  })
  return new Map(names.map((name) => [name, join(folder, `${basename(name)}.mjs`)]))
}
