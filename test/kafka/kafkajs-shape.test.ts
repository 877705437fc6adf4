/** What happens where another kafkajs than 2.2.4 is installed. */
import { connect } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { KafkajsConnectionOptions, KafkajsLogger } from '../../src/kafka/kafkajs-shape.ts'

const logger: KafkajsLogger = { namespace: () => logger, debug() {}, info() {}, warn() {}, error() {} }
const options: KafkajsConnectionOptions = {
  host: 'h',
  port: 1,
  clientId: 'c',
  connectionTimeout: 1,
  requestTimeout: 1,
  sasl: null,
  logger,
  socketFactory: () => connect(1),
}
const [connectionModule, queueModule] = [
  'kafkajs/src/network/connection.js',
  'kafkajs/src/network/requestQueue/index.js',
]

afterEach(() => {
  vi.doUnmock(connectionModule)
  vi.doUnmock(queueModule)
  vi.resetModules()
})

const create = async () => (await import('../../src/kafka/kafkajs-shape.ts')).createKafkajsConnection(options)

class Complete {
  requestQueue = { pending: [] }
  chunks = []
  bytesBuffered = 0
  connect() {}
  authenticate() {}
  send() {}
  setVersions() {}
  setSupportAuthenticationProtocol() {}
}

describe('the internals of kafkajs', () => {
  test('are those that this was written against', async () => {
    await expect(create()).resolves.toBeTypeOf('object')
  })

  test.each([
    ['the connection is no class', connectionModule, {}, 'network/connection'],
    ['a method is gone', connectionModule, () => {}, 'network/connection: connect'],
    ['the queue is another', connectionModule, class extends Complete { override requestQueue = { pending: null as never } }, 'requestQueue.pending'], // prettier-ignore
    ['what was received is another', connectionModule, class extends Complete { override chunks = null as never }, 'chunks, bytesBuffered'], // prettier-ignore
    ['the timer is gone', queueModule, () => {}, 'network/requestQueue: scheduleCheckPendingRequests'],
  ])('%s: refused by name', async (_name, module, replacement, what) => {
    vi.doMock(module, () => ({ default: replacement }))
    await expect(create()).rejects.toMatchObject({
      name: 'KAFKAJS_SHAPE_CHANGED',
      parameters: { what: expect.stringContaining(what) },
    })
  })

  test('no timer runs while no request waits, and waiting ones are still sent', async () => {
    const { default: RequestQueue } = await import('kafkajs/src/network/requestQueue/index.js')
    await create()
    const { prototype } = RequestQueue as { prototype: { scheduleCheckPendingRequests(): void } }
    const queue = {
      pending: [] as object[],
      throttledUntil: -1,
      throttleCheckTimeoutId: null,
      checkPendingRequests() {},
    }
    prototype.scheduleCheckPendingRequests.call(queue)
    expect(queue.throttleCheckTimeoutId).toBeNull()
    queue.pending.push({})
    prototype.scheduleCheckPendingRequests.call(queue)
    expect(queue.throttleCheckTimeoutId).not.toBeNull()
    clearTimeout(queue.throttleCheckTimeoutId ?? undefined)
  })
})
