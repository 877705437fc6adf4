/**
 * The embedded DynamoDB of local runs: dynalite in this process, kept in a directory. Whoever needs a client makes one
 * for the endpoint; any credentials and region do.
 *
 * What was acknowledged outlives a killed process. A loss of power may lose the last writes: dynalite does not sync.
 */
import { once } from 'node:events'
import type { IncomingMessage, Server } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { lockDirectory } from './directory-lock.ts'

export interface EmbeddedDynamoDb {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string
  /** Waits for requests under way, closes the store and frees the directory. Destroy the clients first. */
  close(): Promise<void>
}

// CommonJS without types
const dynalite = createRequire(import.meta.url)('dynalite') as (options: {
  path: string
  createTableMs: number
}) => Server

/**
 * Opens the store in a directory, which is created if needed. A second opener would end the process that holds it
 * (dynalite throws out of a callback), so the directory has a lock of our own.
 * @throws DIRECTORY_IN_USE, DIRECTORY_UNUSABLE
 */
export async function openEmbeddedDynamoDb(directory: string): Promise<EmbeddedDynamoDb> {
  const lock = await lockDirectory(directory)
  const server = dynalite({ path: directory, createTableMs: 0 })
  // A client's idle connection stays: the server closing it under a request would look like a lost answer.
  server.keepAliveTimeout = 0
  // dynalite throws a broken-off request out of the event; its own listener is in place before this one runs.
  server.on('request', (request: IncomingMessage) => request.removeAllListeners('error').on('error', () => {}))
  try {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
  } catch (e) {
    await lock.release()
    throw e
  }
  const { port } = server.address() as AddressInfo // listening on TCP
  return {
    endpoint: `http://127.0.0.1:${port}`,
    async close() {
      await new Promise<void>((resolve, reject) => {
        server.close((e) => (e ? reject(e) : resolve()))
        server.closeIdleConnections()
      })
      await lock.release()
    },
  }
}
