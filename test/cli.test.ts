/** The command line as its users meet it: exit codes, one line for a refusal, JSON for machines, the Node it needs. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { envOf, queryModule, runCli } from './support/cli.ts'
import type { CliResult } from './support/cli.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'sluice-cli-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const brokers = { 'kafka.bootstrap.servers': '127.0.0.1:1' }

describe.concurrent('usage', () => {
  it.each([
    ['no verb', [], 'Usage: sluice'],
    ['an unknown verb', ['rn'], "unknown command 'rn'"],
    ['no query', ['run', '--local', 'd'], "missing required argument 'query'"],
    ['no directory', ['run', 'q.ts'], "required option '--local <dir>'"],
    ['an unknown flag', ['run', 'q.ts', '--local', 'd', '--availablenow'], '--available-now'],
    ['no parallelism', ['run', 'q.ts', '--local', 'd', '--parallelism', '0'], 'not a positive whole number'],
    ['a text for parallelism', ['run', 'q.ts', '--local', 'd', '--parallelism', 'all'], 'not a positive whole number'],
  ])('with %s ends with 2 and says what is wrong', async (_what, args, words) => {
    const { code, stdout, stderr } = await runCli(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(words)
  })

  it('is told by --help, which ends with 0', async () => {
    const { code, stdout } = await runCli(['run', '--help'])
    expect(code).toBe(0)
    for (const word of ['<query>', '--local', '--available-now', '--parallelism', '--json'])
      expect(stdout).toContain(word)
  })
})

describe.concurrent('a query module', () => {
  const run = (module: string, env: Record<string, string> = {}, flags: string[] = []): Promise<CliResult> =>
    runCli(['run', module, '--local', join(root, 'never-made'), ...flags], { env })
  const topic = { ...brokers, subscribe: 't' }

  it.each<[string, string, Record<string, string>, string, ...string[]]>([
    [
      'with an unknown option, with the nearest name',
      queryModule('from-env'),
      envOf({ ...topic, maxOffsetPerTriger: 5 }),
      'OPTION_UNKNOWN',
      "'maxOffsetPerTriger'. Did you mean 'maxOffsetsPerTrigger'?",
    ],
    [
      'with a value that an option cannot have',
      queryModule('from-env'),
      envOf({ ...topic, maxOffsetsPerTrigger: '1e6' }),
      'OPTION_INVALID',
      'maxOffsetsPerTrigger',
      '1e6',
    ],
    ['that is not there', 'queries/nowhere.ts', {}, 'QUERY_INVALID', "'queries/nowhere.ts'", 'no such file'],
    [
      'that fails while it is loaded',
      queryModule('throwing'),
      {},
      'QUERY_INVALID',
      queryModule('throwing'),
      'cannot be loaded: the settings file is missing',
    ],
    [
      'whose default export is not made by defineQuery',
      queryModule('without-query'),
      {},
      'QUERY_INVALID',
      'export default defineQuery({...})',
    ],
    ['that defineQuery refuses', queryModule('from-env'), envOf(topic, 'a/b'), 'QUERY_INVALID', "'a/b': a name has"],
  ])('%s is refused in one line, and nothing is made', async (_what, module, env, condition, ...words) => {
    const { code, stdout, stderr } = await run(module, env)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(new RegExp(`^sluice: ${condition}: .*\n$`))
    for (const word of words) expect(stderr).toContain(word)
    expect(existsSync(join(root, 'never-made'))).toBe(false)
  })

  it('that is no TypeScript is refused', async () => {
    const path = join(root, 'broken.ts')
    await writeFile(path, 'export default = 1\n')
    const { code, stderr } = await run(path)
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^sluice: QUERY_INVALID: .*broken\.ts.*cannot be loaded/)])
  })

  it('that is refused under --json ends standard output with the failure as an object', async () => {
    const env = envOf({ ...topic, maxOffsetPerTriger: 5 })
    const { code, stdout, stderr } = await run(queryModule('from-env'), env, ['--json'])
    expect(code).toBe(2)
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line): unknown => JSON.parse(line))
    expect(lines).toEqual([
      { event: 'failed', condition: 'OPTION_UNKNOWN', message: expect.stringContaining('Did you mean') },
    ])
    expect(stderr).toMatch(/^sluice: OPTION_UNKNOWN: /)
  })
})

describe.concurrent('a run', () => {
  it('that meets a defect ends with 1 and shows where', async () => {
    const { code, stdout, stderr } = await runCli([
      'run',
      queryModule('failing-sink'),
      '--local',
      join(root, 'defect'),
      '--json',
    ])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toEqual({
      event: 'failed',
      condition: 'FAILED',
      message: 'cannot read the account of undefined',
    })
    expect(stderr).toMatch(
      /^sluice: FAILED: TypeError: cannot read the account of undefined\n {4}at .*failing-sink\.ts/
    )
  })

  it('in a directory that cannot be is refused by it', async () => {
    const file = join(root, 'a-file')
    await writeFile(file, '')
    const { code, stderr } = await runCli(['run', queryModule('failing-sink'), '--local', join(file, 'below')])
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^sluice: DIRECTORY_UNUSABLE: .*a-file.*Choose/)])
  })

  it('that is interrupted unwinds, frees its directory and ends with 130', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1') // the planner waits for this broker
    await once(silent, 'listening')
    const asked = once(silent, 'connection')
    const directory = join(root, 'interrupted')
    const options = { 'kafka.bootstrap.servers': `127.0.0.1:${(silent.address() as AddressInfo).port}`, subscribe: 't' }
    const { code, stdout, stderr } = await runCli(['run', queryModule('from-env'), '--local', directory, '--json'], {
      env: envOf(options),
      onOutput: (text, child) => {
        if (text.includes('"started"')) void asked.then(() => child.kill('SIGINT'))
      },
    })
    silent.close()
    expect({ code, stderr }).toEqual({ code: 130, stderr: '' })
    expect(stdout.split('\n').slice(1)).toEqual([''])
    expect((await readdir(join(directory, 'state'))).filter((file) => file.includes('lock'))).toEqual([])
  })
})

describe.concurrent('under a Node that is too old', () => {
  const tooOld = /^sluice: NODE_TOO_OLD: sluice needs Node\.js 24 or later, this is (\d+)\.\d+\.\d+\. .*npx sluice.*\n$/

  it('a run says so in one line, before it loads any TypeScript (the version is pretended)', async () => {
    const pretend = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.11.0' } })`
    const nodeArguments = [
      '--no-experimental-strip-types',
      '--import',
      `data:text/javascript,${encodeURIComponent(pretend)}`,
    ]
    const { code, stdout, stderr } = await runCli(['run'], { nodeArguments })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(tooOld.exec(stderr)?.[1]).toBe('20')
  })

  const majorOf = (node: string): number =>
    Number(/^v(\d+)/.exec(execFileSync(node, ['--version'], { encoding: 'utf8' }))?.[1])
  const onPath = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'node'))
  const older = ['/usr/bin/node', ...onPath].find((node) => existsSync(node) && majorOf(node) < 24)

  // Which Nodes a machine has is its own business: where there is no older one, the test above stands alone.
  it.each(older === undefined ? [] : [older])('a run says so under %s', async (node) => {
    const { code, stderr } = await runCli(['run'], { node })
    expect([code, tooOld.exec(stderr)?.[1]]).toEqual([1, String(majorOf(node))])
  })
})
