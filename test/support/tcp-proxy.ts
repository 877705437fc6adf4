import { createServer, connect, type Socket } from 'node:net'
import { once } from 'node:events'
import type { ProxiedListener } from './broker.ts'

/** A broker's answer on its way to the client. */
export interface Exchange {
  /** Counts the proxy's connections from 1 on. */
  readonly connection: number
  /** Kafka's number of the request: 0 Produce, 1 Fetch, 2 ListOffsets, 3 Metadata, 17 SaslHandshake, 18 ApiVersions ... */
  readonly apiKey: number
  readonly apiVersion: number
  /** The whole response: 4 bytes of size, 4 of the correlation id, then the body. */
  readonly frame: Buffer
}

/** What becomes of an answer: it passes (changed or not), only its first bytes come and the connection is cut, or it never comes. */
export type Fate = Buffer | 'pass' | 'mute' | { readonly cutAfterBytes: number }

/** An answer waits while the rule's promise is open, and with it the later answers of its connection. */
export type Rule = (exchange: Exchange) => Fate | Promise<Fate>

export interface TcpProxy extends AsyncDisposable {
  /** `host:port` for kafka.bootstrap.servers. */
  readonly bootstrap: string
  /** Decides about every answer from now on; without a rule all pass. Requests always reach the broker. */
  setRule(rule: Rule | undefined): void
  /** Connections of clients: those that are open, and all that there have been. */
  connections(): { readonly open: number; readonly all: number }
  /** Cuts every open connection. */
  cutAll(): void
  close(): Promise<void>
}

/**
 * A proxy in front of one listener of a broker. Clients follow the addresses that metadata answers advertise, so the broker
 * must have been started with `proxied` listeners (the shared one is): such a listener advertises `proxyPort`, on which the
 * proxy listens, and is reached at `targetPort`. A client that starts from `bootstrap` then stays behind the proxy, while the
 * plain listeners go on undisturbed. On a cluster every node needs its own proxy.
 */
export async function startTcpProxy(listener: ProxiedListener): Promise<TcpProxy> {
  let rule: Rule | undefined
  let connections = 0
  const open = new Set<Socket>()
  const server = createServer({ noDelay: true }, (client) => {
    const broker = connect({ port: listener.targetPort, host: '127.0.0.1', noDelay: true })
    for (const [socket, other] of [
      [client, broker],
      [broker, client],
    ] as const) {
      open.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        open.delete(socket)
        other.destroy()
      })
    }
    relay(client, broker, ++connections, () => rule)
  })
  server.listen(listener.proxyPort, '127.0.0.1')
  await once(server, 'listening')
  const cutAll = (): void => {
    for (const socket of open) socket.destroy()
  }
  const close = async (): Promise<void> => {
    const closed = new Promise((resolve) => server.close(resolve))
    cutAll()
    await closed
  }
  return {
    bootstrap: `127.0.0.1:${listener.proxyPort}`,
    setRule: (next) => void (rule = next),
    connections: () => ({ open: open.size / 2, all: connections }),
    cutAll,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The listener that belongs to this worker of vitest, so that test files that run side by side do not meet. */
export function ownListener(proxied: readonly ProxiedListener[]): ProxiedListener {
  const own = proxied[(Number(process.env['VITEST_POOL_ID'] ?? 1) - 1) % proxied.length]
  if (own === undefined) throw new Error('the broker was started without proxied listeners')
  return own
}

/** The answer with one bit changed, at an index of the frame or in the first byte after the first occurrence of a text. */
export function damaged(frame: Buffer, where: number | string): Buffer {
  if (typeof where === 'string' && !frame.includes(where)) throw new Error(`the answer does not contain '${where}'`)
  const at = typeof where === 'number' ? where : frame.indexOf(where) + Buffer.byteLength(where)
  const copy = Buffer.from(frame)
  copy.writeUInt8(copy.readUInt8(at) ^ 1, at)
  return copy
}

function relay(client: Socket, broker: Socket, connection: number, rule: () => Rule | undefined): void {
  const asked = new Map<number, { apiKey: number; apiVersion: number }>()
  onFrames(client, (frame) => {
    asked.set(frame.readInt32BE(8), { apiKey: frame.readInt16BE(4), apiVersion: frame.readInt16BE(6) })
    broker.write(frame)
  })
  // One after the other: Kafka answers a connection's requests in order, late ones included.
  let last = Promise.resolve()
  onFrames(broker, (frame) => {
    last = last.then(async () => {
      const request = asked.get(frame.readInt32BE(4))
      asked.delete(frame.readInt32BE(4))
      const fate = request === undefined ? 'pass' : await rule()?.({ connection, ...request, frame })
      carryOut(fate ?? 'pass', frame, client)
    })
    last.catch((error: unknown) => client.destroy(error instanceof Error ? error : undefined))
  })
}

function carryOut(fate: Fate, frame: Buffer, client: Socket): void {
  if (fate === 'mute') return
  if (fate === 'pass') client.write(frame)
  else if (Buffer.isBuffer(fate)) client.write(fate)
  else client.end(frame.subarray(0, fate.cutAfterBytes))
}

/** Calls back with every whole frame, its 4 bytes of size included. */
function onFrames(socket: Socket, take: (frame: Buffer) => void): void {
  let chunks: Buffer[] = []
  let length = 0
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    length += chunk.length
    // Joined only when the frame is complete, so that large answers are not copied again and again.
    const head = length < 4 ? undefined : Buffer.concat(chunks.slice(0, 4)).readInt32BE(0)
    if (head === undefined || length < head + 4) return
    let rest = Buffer.concat(chunks)
    while (rest.length >= 4 && rest.length >= rest.readInt32BE(0) + 4) {
      const end = rest.readInt32BE(0) + 4
      take(rest.subarray(0, end))
      rest = rest.subarray(end)
    }
    chunks = rest.length > 0 ? [rest] : []
    length = rest.length
  })
}
