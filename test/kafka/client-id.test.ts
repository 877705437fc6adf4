import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { openCluster } from '../../src/kafka/client.ts'
import { connectionSettings } from '../../src/kafka/connection-settings.ts'
import { parseOptions } from '../../src/options.ts'

test.each([
  { given: { groupIdPrefix: 'p' }, id: 'p-sluice' },
  { given: { 'kafka.group.id': 'g' }, id: 'g' },
  { given: { 'kafka.client.id': 'c', 'kafka.group.id': 'g' }, id: 'c' },
])('K20 K21 the brokers see $given as $id', async ({ given, id }) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = (server.address() as AddressInfo).port
  const raw = { 'kafka.bootstrap.servers': `127.0.0.1:${port}`, subscribe: 't', ...given }
  const options = parseOptions(raw, () => undefined)
  const cluster = openCluster(connectionSettings(options.kafka, options.clientId))
  const asked = cluster.metadata(['t'], new AbortController().signal).catch(() => {})
  const [socket] = await once(server, 'connection')
  const [request]: Buffer[] = await once(socket, 'data')
  // size, API key, version, correlation id; then the client id with its length
  const length = request?.readInt16BE(12) ?? -1
  expect(request?.toString('utf8', 14, 14 + length)).toBe(id)
  socket.destroy()
  await asked
  await cluster.close()
  server.close()
})
