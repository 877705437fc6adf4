/** One connection to one broker: opened with a time-out for everything, one request at a time, ended without leftovers. */
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { reasonOf, SluiceError } from '../errors.ts'
import { throwIfAborted } from './abort.ts'
import { addressText, type BrokerAddress, type ConnectionSettings } from './connection-settings.ts'
import { FrameReader, type FrameBuffers } from './frame-reader.ts'
import {
  createKafkajsConnection,
  lateAnswerCheck,
  type KafkajsConnection,
  type KafkajsLogger,
} from './kafkajs-shape.ts'
import { WireReader } from './wire.ts'

export interface BrokerRequest {
  readonly apiKey: number
  readonly apiName: string
  /** The versions that our codec of this request knows. */
  readonly versions: { readonly min: number; readonly max: number }
  /** Flexible versions carry tagged fields in both headers. */
  isFlexible?(version: number): boolean
  encode(version: number): Buffer
  /** Milliseconds that the broker may hold the request back on purpose. */
  readonly waitMs?: number
  /** Where the answer goes; default: into new memory. */
  readonly buffers?: FrameBuffers
}

export interface BrokerResponse {
  readonly version: number
  /** The response body, header removed. */
  readonly body: Buffer
}

type ApiVersions = Readonly<Record<number, { minVersion: number; maxVersion: number }>>

const API_VERSIONS = 18
const SASL_AUTHENTICATE = 36
/** SASL errors that another attempt with the same login does not change: mechanism, state, login. */
const LOGIN_ERROR_CODES: ReadonlySet<unknown> = new Set([33, 34, 58])

/** kafkajs logs every broken connection as an error; here each becomes an error value or a retry, so its log is dropped. */
const silent: KafkajsLogger = {
  namespace: () => silent,
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
}

export class BrokerConnection {
  readonly address: BrokerAddress
  readonly #settings: ConnectionSettings
  readonly #connection: KafkajsConnection
  readonly #frames = new FrameReader((frame) => this.#receive(frame))
  #socket: Socket | null = null
  #broken = false
  #versions: ApiVersions = {}

  private constructor(address: BrokerAddress, settings: ConnectionSettings) {
    this.address = address
    this.#settings = settings
    const { sasl } = settings
    this.#connection = createKafkajsConnection({
      host: address.host,
      port: address.port,
      clientId: settings.clientId,
      connectionTimeout: settings.setupTimeoutMs,
      requestTimeout: settings.requestTimeoutMs,
      sasl: sasl && { mechanism: sasl.mechanism, ...sasl.credentials() },
      logger: silent,
      socketFactory: ({ onConnect }) => this.#openSocket(onConnect),
    })
  }

  /**
   * TCP, TLS, the version question and the login, together within the set-up time-out: a peer that accepts the
   * connection and stays silent ends there too (B33).
   * @throws KAFKA_UNREACHABLE, KAFKA_AUTHENTICATION_FAILED, ABORTED
   */
  static async open(
    address: BrokerAddress,
    settings: ConnectionSettings,
    signal: AbortSignal
  ): Promise<BrokerConnection> {
    const connection = new BrokerConnection(address, settings)
    try {
      await connection.#guarded(connection.#setUp(), signal, settings.setupTimeoutMs)
    } catch (e) {
      await connection.destroy()
      throw e
    }
    return connection
  }

  /** False once anything went wrong: answers of an earlier request could come late, so it is never used again. */
  get isUsable(): boolean {
    return !this.#broken
  }

  /**
   * Sends one request and waits for its answer; the caller sends the next one after that.
   * @throws KAFKA_UNREACHABLE, KAFKA_AUTHENTICATION_FAILED, KAFKA_VERSION_NOT_SUPPORTED, ABORTED
   */
  async request(request: BrokerRequest, signal: AbortSignal): Promise<BrokerResponse> {
    const version = this.#versionOf(request)
    this.#frames.expect(request.buffers)
    try {
      const body = await this.#guarded(this.#send(request, version), signal, null)
      return { version, body }
    } catch (e) {
      await this.destroy()
      throw e
    }
  }

  /** Until it is woken it keeps no timer and does not keep the process. */
  rest(): void {
    lateAnswerCheck(this.#connection).stop()
    this.#socket?.unref()
  }

  wake(): void {
    this.#socket?.ref()
    lateAnswerCheck(this.#connection).start()
  }

  /** Ends the connection at once; settles when the socket is gone. */
  async destroy(reason = 'the connection was closed'): Promise<void> {
    this.#broken = true
    const socket = this.#socket
    if (socket === null || socket.closed) return
    const closed = new Promise((resolve) => socket.once('close', resolve))
    // kafkajs clears its timers and rejects what waits when it sees an error of the socket.
    if (!socket.destroyed) socket.destroy(new Error(reason))
    await closed
  }

  async #setUp(): Promise<void> {
    await this.#connection.connect()
    this.#versions = await this.#askVersions()
    this.#connection.setVersions(this.#versions)
    this.#connection.setSupportAuthenticationProtocol(this.#versions[SASL_AUTHENTICATE] !== undefined)
    await this.#connection.authenticate()
  }

  async #askVersions(): Promise<ApiVersions> {
    const request = { apiKey: API_VERSIONS, apiName: 'ApiVersions', versions: { min: 0, max: 0 } }
    const reader = new WireReader(await this.#send({ ...request, encode: () => Buffer.alloc(0) }, 0))
    const errorCode = reader.int16()
    if (errorCode !== 0) throw new Error(`ApiVersions was answered with error code ${errorCode}`)
    const entries = reader.array((r) => [r.int16(), { minVersion: r.int16(), maxVersion: r.int16() }] as const)
    return Object.fromEntries(entries)
  }

  #versionOf(request: BrokerRequest): number {
    const offered = this.#versions[request.apiKey]
    const version = Math.min(request.versions.max, offered?.maxVersion ?? -1)
    if (version < request.versions.min || version < (offered?.minVersion ?? 0))
      throw new SluiceError('KAFKA_VERSION_NOT_SUPPORTED', {
        broker: addressText(this.address),
        request: request.apiName,
        needed: `${request.versions.min} to ${request.versions.max}`,
        offered: offered === undefined ? 'none' : `${offered.minVersion} to ${offered.maxVersion}`,
      })
    return version
  }

  #send(request: BrokerRequest, version: number): Promise<Buffer> {
    const isFlexible = request.isFlexible?.(version) ?? false
    const body = request.encode(version)
    // kafkajs writes request header version 1; versions 2 and up continue with tagged fields, of which we send none.
    const bytes = isFlexible ? Buffer.concat([Buffer.alloc(1), body]) : body
    return this.#connection.send<Buffer>({
      request: {
        apiKey: request.apiKey,
        apiName: request.apiName,
        apiVersion: version,
        encode: async () => ({ buf: bytes, buffer: bytes }),
      },
      response: {
        decode: async (payload) => {
          const reader = new WireReader(payload)
          if (isFlexible) reader.skipTags()
          const value = reader.rest()
          // Every request of ours but ApiVersions v0 has its throttle time first.
          return { value, clientSideThrottleTime: request.apiKey === API_VERSIONS ? 0 : value.readInt32BE(0) }
        },
        parse: async ({ value }) => value,
      },
      requestTimeout: this.#settings.requestTimeoutMs + (request.waitMs ?? 0),
      logResponseError: false,
    })
  }

  /** Waits for kafkajs, but not longer than the signal and the time-out allow: then the socket goes. */
  async #guarded<T>(work: Promise<T>, signal: AbortSignal, timeoutMs: number | null): Promise<T> {
    const step = `The connection to ${addressText(this.address)}`
    const stop = Promise.withResolvers<never>()
    const end = (error: SluiceError): void => {
      stop.reject(error)
      void this.destroy(error.message)
    }
    const onAbort = (): void => end(new SluiceError('ABORTED', { step }, signal.reason))
    const onTimeout = (): void => end(this.#unreachable(`it did not answer within ${timeoutMs} ms`))
    const timer = timeoutMs === null ? undefined : setTimeout(onTimeout, timeoutMs)
    signal.addEventListener('abort', onAbort)
    try {
      throwIfAborted(signal, step)
      return await Promise.race([work, stop.promise])
    } catch (e) {
      throw this.#classified(e)
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      work.catch(() => {}) // whichever lost the race settles unheard
      stop.promise.catch(() => {})
    }
  }

  #classified(e: unknown): unknown {
    if (e instanceof SluiceError) return e
    const reason = this.#settings.redact(reasonOf(e))
    if (this.#isRefusedLogin(e))
      return new SluiceError('KAFKA_AUTHENTICATION_FAILED', {
        brokers: addressText(this.address),
        mechanism: this.#settings.sasl?.mechanism ?? 'none',
        reason,
      })
    return this.#unreachable(reason, e)
  }

  /** kafkajs calls every failure during the login an authentication error, a lost connection too. */
  #isRefusedLogin(e: unknown): boolean {
    if (!(e instanceof Error) || this.#settings.sasl === null || this.#broken) return false
    return e.name === 'KafkaJSSASLAuthenticationError' || LOGIN_ERROR_CODES.has(Reflect.get(e, 'code'))
  }

  #unreachable(reason: string, cause?: unknown): SluiceError {
    return new SluiceError('KAFKA_UNREACHABLE', { brokers: addressText(this.address), reason }, cause)
  }

  /** kafkajs gets each answer in one piece, which it neither collects nor copies. */
  #receive(frame: Buffer): void {
    if (this.#connection.bytesBuffered === 0) this.#connection.chunks = []
    this.#socket?.emit('data', frame)
  }

  #openSocket(onConnect: () => void): Socket {
    const { host, port } = this.address
    const { tls } = this.#settings
    const servername = isIP(host) === 0 ? { servername: host } : {}
    const onread = {
      buffer: () => this.#frames.room(),
      callback: (count: number) => {
        try {
          this.#frames.received(count)
        } catch (e) {
          socket.destroy(e instanceof Error ? e : new Error(String(e)))
        }
        return true
      },
    }
    const target = { host, port, onread }
    const socket: Socket =
      tls === null ? connectTcp(target, onConnect) : connectTls({ ...target, ...servername, ...tls }, onConnect)
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 60_000)
    const broke = (): void => {
      this.#broken = true
    }
    this.#socket = socket.once('end', broke).once('error', broke).once('close', broke)
    return socket
  }
}
