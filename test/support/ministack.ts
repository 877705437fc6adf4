import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from './ports.ts'
import { startTied } from './tied-process.ts'

const command = join(import.meta.dirname, '../../.tools/ministack/bin/ministack')

/** Client settings for MiniStack: spread into any AWS client's constructor together with `endpoint`. */
export const ministackClient = {
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
} as const

export interface MiniStack {
  /** `http://127.0.0.1:<port>`, for S3 (with forcePathStyle), DynamoDB, Step Functions, Lambda and the rest. */
  readonly endpoint: string
  readonly pid: number
  stop(): Promise<void>
}

/**
 * Starts MiniStack, an AWS account in one process, on a free port of 127.0.0.1; its Lambdas run by this process's Node.
 * `settings` are environment variables of its own.
 */
export async function startMiniStack(settings: Readonly<Record<string, string>> = {}): Promise<MiniStack> {
  if (!existsSync(command)) throw new Error(`${command} is missing: run 'node test/support/setup.mjs'`)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-ministack-'))
  const logFile = join(folder, 'ministack.log')
  const port = await freePort()
  const env = {
    ...process.env,
    PATH: `${dirname(process.execPath)}:${process.env.PATH ?? ''}`,
    GATEWAY_PORT: String(port),
    BIND_HOST: '127.0.0.1',
    LAMBDA_EXECUTOR: 'local',
    LOG_LEVEL: 'WARNING',
    TMPDIR: folder,
    ...settings,
  }
  const child = await startTied([command], { logFile, env, cwd: folder })
  const endpoint = `http://127.0.0.1:${port}`
  const stop = async (): Promise<void> => {
    await child.end('SIGTERM', 5000)
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
  const deadline = Date.now() + 60_000
  while (!(await isHealthy(endpoint))) {
    if (child.hasExited() || Date.now() > deadline) {
      const log = await readFile(logFile, 'utf8')
      await stop()
      throw new Error(`MiniStack did not start. The end of its log:\n${log.slice(-4000)}`)
    }
    await delay(50)
  }
  return { endpoint, pid: child.pid, stop }
}

const isHealthy = (endpoint: string): Promise<boolean> =>
  fetch(`${endpoint}/_ministack/health`).then(
    (response) => response.ok,
    () => false
  )
