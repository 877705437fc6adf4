import type { TestProject } from 'vitest/node'
import { startBroker, type ProxiedListener } from './broker.ts'
import { startMiniStack } from './ministack.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The shared broker, one node: its addresses as in Broker, and a proxied listener for each worker of vitest. */
    readonly kafka: {
      readonly bootstrap: string
      readonly saslPlaintext: string
      readonly saslSsl: string
      readonly caPem: string
      readonly proxied: readonly ProxiedListener[]
    }
    /** The shared MiniStack. */
    readonly ministack: { readonly endpoint: string }
  }
}

/** As `maxWorkers` of vitest.config.ts: each worker has a proxied listener of its own. */
export const maxWorkers = 2

/** Starts one broker and one MiniStack for the whole run; tests take their addresses by `inject('kafka')`, `inject('ministack')`. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const started = await Promise.allSettled([startBroker({ proxied: maxWorkers }), startMiniStack()])
  const [broker, ministack] = started
  const stop = async (): Promise<void> => {
    await Promise.all(started.map(async (one) => one.status === 'fulfilled' && one.value.stop()))
  }
  if (broker.status === 'rejected' || ministack.status === 'rejected') {
    await stop()
    throw broker.status === 'rejected' ? broker.reason : ministack.status === 'rejected' && ministack.reason
  }
  const { bootstrap, saslPlaintext, saslSsl, caPem, nodes } = broker.value
  project.provide('kafka', { bootstrap, saslPlaintext, saslSsl, caPem, proxied: nodes.flatMap((node) => node.proxied) })
  project.provide('ministack', { endpoint: ministack.value.endpoint })
  return stop
}
