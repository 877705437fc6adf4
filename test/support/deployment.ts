/**
 * An account of a test's own with the query of queries/deployed.ts in it: policies are enforced, the functions' requests go
 * through a proxy, and waits of the state machine are short.
 */
import { createHash } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { startAwsProxy } from './aws-proxy.ts'
import type { AwsProxy, AwsRequest } from './aws-proxy.ts'
import { account } from './deployed-query.ts'
import type { DeployedFunction, DeployedQuery } from './deployed-query.ts'
import { startMiniStack } from './ministack.ts'
import type { MiniStack } from './ministack.ts'

export interface Account {
  readonly endpoint: string
  readonly proxy: AwsProxy
  /** Ends the processes of a function by SIGKILL; answers how many there were. */
  killFunction(name: string): number
  close(): Promise<void>
}

export async function openAccount(): Promise<Account> {
  const proxy = await startAwsProxy()
  const settings = { AUTH: 'true', AWS_ENDPOINT_URL: proxy.endpoint, SFN_WAIT_SCALE: '0.02' }
  const ministack: MiniStack = await startMiniStack(settings)
  proxy.forwardTo(ministack.endpoint)
  return {
    endpoint: proxy.endpoint,
    proxy,
    killFunction(name) {
      const found = childrenOf(ministack.pid).filter((pid) =>
        variablesOf(pid).includes(`AWS_LAMBDA_FUNCTION_NAME=${name}`)
      )
      for (const pid of found) process.kill(pid, 'SIGKILL')
      return found.length
    },
    async close() {
      await ministack.stop()
      await proxy.close()
    },
  }
}

const childrenOf = (parent: number): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0 && parentOf(pid) === parent)

/** The fourth field; the second is a name in brackets. 0 for a process that is gone. */
const parentOf = (pid: number): number =>
  Number(
    fileOf(pid, 'stat')
      .replace(/^.*\) /, '')
      .split(' ')[1]
  )
const variablesOf = (pid: number): string[] => fileOf(pid, 'environ').split('\0')

function fileOf(pid: number, name: string): string {
  try {
    return readFileSync(join('/proc', String(pid), name), 'utf8')
  } catch {
    return ''
  }
}

/** Which function sent a request, by the access key of its session: MiniStack derives it from function and role. */
export function callerOf(query: DeployedQuery, { accessKey }: AwsRequest): 'Planner' | 'Worker' | 'Committer' | null {
  const found = (['Planner', 'Worker', 'Committer'] as const).find(
    (one) => sessionOf(query.functions[one]) === accessKey
  )
  return found ?? null
}

function sessionOf({ name, role }: DeployedFunction): string {
  const names = `arn:aws:lambda:us-east-1:${account}:function:${name}:arn:aws:iam::${account}:role/${role}`
  return `ASIA${createHash('sha256').update(names).digest('hex').slice(0, 16).toUpperCase()}`
}
