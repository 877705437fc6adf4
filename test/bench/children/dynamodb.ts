/** An embedded DynamoDB in memory, in a process of its own: prints its endpoint and serves until its input ends. */
import { createRequire } from 'node:module'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

const dynalite = createRequire(import.meta.url)('dynalite') as (options: { createTableMs: number }) => Server // CommonJS without types
const server = dynalite({ createTableMs: 0 })
server.keepAliveTimeout = 0
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo // listening on TCP
  process.stdout.write(`http://127.0.0.1:${port}\n`)
})
process.stdin.resume().once('end', () => process.exit())
