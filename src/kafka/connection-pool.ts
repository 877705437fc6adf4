/** Idle connections by broker. A connection is used by one caller at a time, so ranges read side by side never wait for each other. */
import { SluiceError } from '../errors.ts'
import { BrokerConnection, type BrokerRequest, type BrokerResponse } from './broker-connection.ts'
import { addressText, type BrokerAddress, type ConnectionSettings } from './connection-settings.ts'

/** More than that many to one broker are ended when they become idle. */
export const MAX_IDLE_CONNECTIONS = 16
/** Below what ends a connection unnoticed on the way: AWS's address translation forgets it after 350 s. */
export const MAX_IDLE_MS = 300_000

interface Idle {
  readonly connection: BrokerConnection
  /** By the clock on the wall: that of the process stands still while it is frozen. */
  readonly sinceMs: number
}

/**
 * What is idle has no timer and does not keep the process, so it may live from one invocation of a function to the next. How long
 * it has been idle is looked at when one is needed: a frozen process runs no timers.
 */
export class ConnectionPool {
  readonly #settings: ConnectionSettings
  readonly #idle = new Map<string, Idle[]>()
  readonly #busy = new Set<BrokerConnection>()
  readonly #opening = new Set<Promise<BrokerConnection>>()
  #closed = new AbortController()

  constructor(settings: ConnectionSettings) {
    this.#settings = settings
  }

  hasIdle(address: BrokerAddress): boolean {
    return this.#idle.get(addressText(address))?.some(isGood) ?? false
  }

  /**
   * Sends a request on an idle connection or a new one. A connection that had died while it was idle is replaced once,
   * unnoticed: all our requests only read.
   * @throws KAFKA_UNREACHABLE, KAFKA_AUTHENTICATION_FAILED, KAFKA_VERSION_NOT_SUPPORTED, ABORTED
   */
  async send(address: BrokerAddress, request: BrokerRequest, signal: AbortSignal): Promise<BrokerResponse> {
    const either = AbortSignal.any([signal, this.#closed.signal])
    const idle = this.#takeIdle(address)
    if (idle !== null) {
      try {
        return await this.#use(idle, request, either)
      } catch (e) {
        if (!(e instanceof SluiceError && e.name === 'KAFKA_UNREACHABLE')) throw e
        await this.drop(address) // those that lay idle beside it are no better
      }
    }
    return this.#use(await this.#open(address, either), request, either)
  }

  /** Drops the idle connections to a broker whose last answer was damaged. */
  async drop(address: BrokerAddress): Promise<void> {
    const idle = this.#idle.get(addressText(address)) ?? []
    this.#idle.delete(addressText(address))
    await Promise.all(idle.map(({ connection }) => connection.destroy()))
  }

  /** Ends every connection, used ones too; the pool may be used again. */
  async close(): Promise<void> {
    const all = [...this.#busy, ...[...this.#idle.values()].flat().map(({ connection }) => connection)]
    this.#idle.clear()
    this.#closed.abort()
    this.#closed = new AbortController()
    await Promise.allSettled([...this.#opening, ...all.map((one) => one.destroy())])
  }

  async #open(address: BrokerAddress, signal: AbortSignal): Promise<BrokerConnection> {
    const opening = BrokerConnection.open(address, this.#settings, signal)
    this.#opening.add(opening)
    try {
      return await opening
    } finally {
      this.#opening.delete(opening)
    }
  }

  async #use(connection: BrokerConnection, request: BrokerRequest, signal: AbortSignal): Promise<BrokerResponse> {
    this.#busy.add(connection)
    try {
      return await connection.request(request, signal)
    } finally {
      this.#busy.delete(connection)
      if (connection.isUsable && !signal.aborted) this.#putIdle(connection)
      else await connection.destroy()
    }
  }

  /** The one that was used last. */
  #takeIdle(address: BrokerAddress): BrokerConnection | null {
    this.#dropAged()
    const found = this.#idle.get(addressText(address))?.pop()?.connection
    found?.wake()
    return found ?? null
  }

  /** Of every broker, so that those of one that is no longer asked go too. */
  #dropAged(): void {
    for (const [key, idle] of this.#idle) {
      const good = idle.filter(isGood)
      for (const one of idle) if (!good.includes(one)) void one.connection.destroy()
      if (good.length > 0) this.#idle.set(key, good)
      else this.#idle.delete(key)
    }
  }

  #putIdle(connection: BrokerConnection): void {
    const key = addressText(connection.address)
    const idle = this.#idle.get(key) ?? []
    if (idle.length >= MAX_IDLE_CONNECTIONS) return void connection.destroy()
    connection.rest()
    this.#idle.set(key, [...idle, { connection, sinceMs: Date.now() }])
  }
}

const isGood = ({ connection, sinceMs }: Idle): boolean => connection.isUsable && Date.now() - sinceMs < MAX_IDLE_MS
