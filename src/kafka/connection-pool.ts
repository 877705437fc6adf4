/** Idle connections by broker. A connection is used by one caller at a time, so ranges read side by side never wait for each other. */
import { SluiceError } from '../errors.ts'
import { BrokerConnection, type BrokerRequest, type BrokerResponse } from './broker-connection.ts'
import { addressText, type BrokerAddress, type ConnectionSettings } from './connection-settings.ts'

export class ConnectionPool {
  readonly #settings: ConnectionSettings
  readonly #idle = new Map<string, BrokerConnection[]>()
  readonly #busy = new Set<BrokerConnection>()
  readonly #opening = new Set<Promise<BrokerConnection>>()
  #closed = new AbortController()

  constructor(settings: ConnectionSettings) {
    this.#settings = settings
  }

  hasIdle(address: BrokerAddress): boolean {
    return this.#idle.get(addressText(address))?.some((one) => one.isUsable) ?? false
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
      }
    }
    return this.#use(await this.#open(address, either), request, either)
  }

  /** Drops the idle connections to a broker whose last answer was damaged. */
  async drop(address: BrokerAddress): Promise<void> {
    const idle = this.#idle.get(addressText(address)) ?? []
    this.#idle.delete(addressText(address))
    await Promise.all(idle.map((one) => one.destroy()))
  }

  /** Ends every connection, used ones too; the pool may be used again. */
  async close(): Promise<void> {
    const all = [...this.#busy, ...[...this.#idle.values()].flat()]
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

  #takeIdle(address: BrokerAddress): BrokerConnection | null {
    const idle = this.#idle.get(addressText(address)) ?? []
    for (let one = idle.pop(); one !== undefined; one = idle.pop()) if (one.isUsable) return one
    return null
  }

  #putIdle(connection: BrokerConnection): void {
    const key = addressText(connection.address)
    const idle = this.#idle.get(key)
    if (idle === undefined) this.#idle.set(key, [connection])
    else idle.push(connection)
  }
}
