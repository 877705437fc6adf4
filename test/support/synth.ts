/**
 * Makes the template of the example app as `cdk deploy` does, lints it, and prints what its bundles weigh. Needs no network:
 * nothing is looked up, nothing is reported.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { zipFolder } from './zip.ts'

const root = join(import.meta.dirname, '../..')
const outdir = join(root, '.tools', 'cdk.out')

/** Runs a command quietly: its output is shown when it fails. */
function run(command: string, args: readonly string[], cwd: string): void {
  const quiet = { CI: 'true', CDK_DISABLE_CLI_TELEMETRY: 'true', CDK_DISABLE_VERSION_CHECK: '1', NO_COLOR: '1' }
  const app = { SLUICE_BROKERS: 'broker.example:9092', SLUICE_TOPIC: 'flights' }
  const result = spawnSync(command, args, { cwd, env: { ...process.env, ...quiet, ...app }, encoding: 'utf8' })
  if (result.error !== undefined) throw result.error
  if (result.status === 0) return
  process.stderr.write(`${result.stdout}${result.stderr}`)
  process.exit(1)
}

interface Template {
  readonly Resources: Readonly<Record<string, { readonly Type: string; readonly Metadata?: Record<string, string> }>>
}

const cdk = join(root, 'node_modules', 'aws-cdk', 'bin', 'cdk')
rmSync(outdir, { recursive: true, force: true })
run(process.execPath, [cdk, 'synth', '--quiet', '--no-notices', '-o', outdir], join(root, 'cdk'))

const file = join(outdir, 'Flights.template.json')
// W3005: a DependsOn that a reference implies too; the CDK writes it.
run(join(root, '.tools/cfn-lint/bin/cfn-lint'), ['-i', 'W3005', '--', file], root)

const template = JSON.parse(readFileSync(file, 'utf8')) as Template
const kilobytes = (bytes: number): string => `${Math.round(bytes / 1024)} KiB`.padStart(9)
const resources = Object.values(template.Resources)
for (const { Type, Metadata } of resources) {
  const bundle = Metadata?.['aws:asset:path']
  if (Type !== 'AWS::Lambda::Function' || bundle === undefined) continue
  const folder = join(outdir, bundle)
  const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
  const name = /\/(\w+)\/Function\//.exec(Metadata?.['aws:cdk:path'] ?? '')?.[1] ?? ''
  console.log(
    `synth: ${name.toLowerCase().padEnd(9)} ${kilobytes(bytes)}, zipped ${kilobytes(zipFolder(folder).length)}`
  )
}
console.log(`synth: ${resources.length} resources, no findings`)
