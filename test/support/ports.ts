import { createServer } from 'node:net'
import { randomInt } from 'node:crypto'

/**
 * Free TCP ports on 127.0.0.1, below the range from which the system takes the local ports of outgoing connections: a port
 * given out here stays usable for a server that is stopped and started again.
 */
export async function freePorts(count: number): Promise<number[]> {
  const found = new Set<number>()
  while (found.size < count) {
    const port = randomInt(12_000, 32_000)
    if (await isFree(port)) found.add(port)
  }
  return [...found]
}

/** One free port, as `freePorts` finds them. */
export async function freePort(): Promise<number> {
  const [port] = await freePorts(1)
  if (port === undefined) throw new Error('no free port')
  return port
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
