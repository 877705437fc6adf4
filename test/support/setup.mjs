/**
 * Sets a fresh clone up: node packages (with them Node 24), the jars of the test broker, the Java test tools, the Python
 * readers, MiniStack and the linter of templates. Runs before `npm ci`, so it is plain JavaScript for Node 20 and later without a dependency.
 * Usage: node test/support/setup.mjs [start | check | test]   (default: test, that is everything)
 * Every step compares its input with a stamp of the last success and does nothing when they agree. Nothing needs root.
 */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const support = join(root, 'test', 'support')
const tools = join(root, '.tools')
const binaries = join(root, 'node_modules', '.bin')

/** A condition that the user can change; shown without a stack. */
class SetupError extends Error {}

// npm ci removes node_modules: the npm that does it must not run by the node inside.
const outerPath = (process.env.PATH ?? '')
  .split(delimiter)
  .filter((folder) => folder !== binaries)
  .join(delimiter)

function run(command, args, missing) {
  const env = { ...process.env, PATH: outerPath }
  const result = spawnSync(command, args, { cwd: root, env, encoding: 'utf8', maxBuffer: 1 << 28 })
  if (result.error?.code === 'ENOENT') throw new SetupError(`${command} is not installed. ${missing}`)
  if (result.error) throw result.error
  if (result.status !== 0) {
    const lines = `${result.stdout}${result.stderr}`.trim().split('\n')
    const shown = lines.length > 60 ? [...lines.slice(0, 30), '...', ...lines.slice(-30)] : lines
    throw new SetupError(`'${command} ${args.join(' ')}' failed:\n${shown.join('\n')}`)
  }
  return `${result.stdout}${result.stderr}`
}

const needsJava = 'The broker of the tests needs Java 17 or newer (a JDK, as openjdk-17-jdk-headless).'
const needsMaven = 'The jars of the test broker are fetched by Maven (as the package maven).'
const needsPython =
  'The independent readers, MiniStack and cfn-lint need Python 3.10 or newer with its venv module (as python3 and python3-venv).'

const hashOf = (...files) => {
  const hash = createHash('sha256')
  for (const file of files) hash.update(readFileSync(file))
  return hash.digest('hex')
}

// -- node packages

/** Whether node_modules holds exactly what package-lock.json says: npm keeps its own lock of what it installed there. */
function nodePackagesMatch() {
  const installedLock = join(root, 'node_modules', '.package-lock.json')
  if (!existsSync(installedLock)) return false
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  const installed = JSON.parse(readFileSync(installedLock, 'utf8')).packages
  const names = new Set([...Object.keys(wanted), ...Object.keys(installed)])
  names.delete('')
  return [...names].every((name) => {
    if (installed[name] === undefined) return wanted[name].optional === true
    return wanted[name]?.version === installed[name].version
  })
}

function checkNode() {
  const node = join(binaries, 'node')
  const version = existsSync(node) ? run(node, ['--version'], '').trim() : 'nothing'
  if (Number(/^v(\d+)\./.exec(version)?.[1] ?? 0) >= 24) return
  throw new SetupError(
    `node_modules/.bin/node should be Node 24 or newer and is ${version}. The package 'node' brings it by its install script: ` +
      `allow that script (no --ignore-scripts, no ignore-scripts=true in .npmrc), remove node_modules and run the command again.`
  )
}

const nodePackages = {
  name: 'node packages',
  isReady: nodePackagesMatch,
  install: () => void run('npm', ['ci', '--loglevel=error'], 'It comes with Node.'),
  verify: checkNode,
}

// -- Kafka

const pom = join(support, 'kafka', 'pom.xml')
const javaFolder = join(support, 'kafka', 'src', 'main', 'java')
const jars = join(tools, 'kafka')

/** A step that fills a folder below .tools: into a new folder first, so that an interrupted run leaves nothing half done. */
function folderStep(name, folder, inputs, fill) {
  const stamp = join(folder, '.stamp')
  return {
    name,
    isReady: () => existsSync(stamp) && readFileSync(stamp, 'utf8') === hashOf(...inputs()),
    install() {
      const fresh = `${folder}.new`
      rmSync(fresh, { recursive: true, force: true })
      mkdirSync(fresh, { recursive: true })
      fill(fresh)
      writeFileSync(join(fresh, '.stamp'), hashOf(...inputs()))
      rmSync(folder, { recursive: true, force: true })
      renameSync(fresh, folder)
    },
  }
}

function checkJava() {
  const version = /version "(\d+)/.exec(run('java', ['-version'], needsJava))?.[1]
  if (Number(version) < 17) throw new SetupError(`java is version ${version}. ${needsJava}`)
}

const kafka = {
  ...folderStep(
    'Kafka broker jars',
    jars,
    () => [pom],
    (folder) => {
      checkJava()
      const copy = 'org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies'
      run('mvn', ['-q', '-B', '-f', pom, copy, `-DoutputDirectory=${folder}`, '-DincludeScope=runtime'], needsMaven)
    }
  ),
  verify: checkJava,
}

const javaSources = () =>
  readdirSync(javaFolder)
    .filter((file) => file.endsWith('.java'))
    .toSorted()
    .map((file) => join(javaFolder, file))

const kafkaTools = folderStep(
  'Kafka test tools',
  join(tools, 'kafka-tools'),
  () => [pom, ...javaSources()],
  (folder) => run('javac', ['-nowarn', '-d', folder, '-cp', join(jars, '*'), ...javaSources()], needsJava)
)

// -- Python

/** A virtual environment stays where it was made, so it is filled in place and stamped last. */
function pythonStep(name, environment, requirements) {
  const folder = join(tools, environment)
  const stamp = join(folder, '.stamp')
  return {
    name,
    isReady: () => existsSync(stamp) && readFileSync(stamp, 'utf8') === hashOf(requirements),
    install() {
      rmSync(folder, { recursive: true, force: true })
      run(
        'python3',
        ['-c', 'import sys, venv, ensurepip; assert sys.version_info >= (3, 10), sys.version'],
        needsPython
      )
      run('python3', ['-m', 'venv', folder], needsPython)
      run(join(folder, 'bin', 'python'), ['-m', 'pip', 'install', '-q', '-r', requirements], needsPython)
      writeFileSync(stamp, hashOf(requirements))
    },
  }
}

const readers = pythonStep('Delta and Parquet readers', 'readers', join(support, 'requirements-readers.txt'))
const ministack = pythonStep('MiniStack', 'ministack', join(support, 'requirements-ministack.txt'))
const cfnLint = pythonStep('Linter of templates', 'cfn-lint', join(support, 'requirements-cfn-lint.txt'))

// -- what each command needs

const needs = {
  check: [nodePackages, cfnLint],
  start: [nodePackages, kafka, readers],
  test: [nodePackages, kafka, kafkaTools, readers, ministack, cfnLint],
}

function carryOut(step) {
  process.stdout.write(`setup: ${step.name} `)
  const began = Date.now()
  const ready = step.isReady()
  if (!ready) {
    process.stdout.write('installing... ')
    step.install()
  }
  step.verify?.()
  process.stdout.write(ready ? 'ready\n' : `done in ${Math.round((Date.now() - began) / 1000)} s\n`)
}

try {
  const command = process.argv[2] ?? 'test'
  const steps = Object.hasOwn(needs, command) ? needs[command] : undefined
  if (steps === undefined)
    throw new SetupError(`unknown argument '${command}': one of ${Object.keys(needs).join(', ')}`)
  for (const step of steps) carryOut(step)
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  process.stdout.write('failed\n')
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
