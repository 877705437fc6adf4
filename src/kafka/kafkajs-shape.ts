/**
 * The only file that imports kafkajs: its connection (sockets, framing, request queue, throttling, SASL) without its
 * cluster, consumer and record decoding, which hang on mute brokers, let aborted records through and check no CRC.
 * Nothing of this is public API of kafkajs, so 2.2.4 is pinned and every part that is touched is looked at first.
 */
import Connection from 'kafkajs/src/network/connection.js'
import RequestQueue from 'kafkajs/src/network/requestQueue/index.js'
import type { Socket } from 'node:net'
import { SluiceError } from '../errors.ts'

/** A request as kafkajs sends it: header version 1 is written by kafkajs, the body by `encode`. */
export interface KafkajsRequest<T> {
  readonly request: {
    readonly apiKey: number
    readonly apiName: string
    readonly apiVersion: number
    encode(): Promise<{ readonly buf: Buffer; readonly buffer: Buffer }>
  }
  readonly response: {
    /** `clientSideThrottleTime` must come out of here, or the broker's quotas are ignored. */
    decode(body: Buffer): Promise<{ readonly clientSideThrottleTime: number; readonly value: T }>
    parse(decoded: { readonly value: T }): Promise<T>
  }
  /** Milliseconds; the larger of this and the connection's own counts. */
  readonly requestTimeout: number
  readonly logResponseError: boolean
}

export interface KafkajsConnection {
  connect(): Promise<unknown>
  authenticate(): Promise<void>
  send<T>(request: KafkajsRequest<T>): Promise<T>
  setVersions(versions: Readonly<Record<number, { minVersion: number; maxVersion: number }>>): void
  setSupportAuthenticationProtocol(supported: boolean): void
  /** What its socket has received and no answer has taken; an answer after an empty rest would be joined to it, by a copy. */
  chunks: Buffer[]
  readonly bytesBuffered: number
}

export interface KafkajsLogger {
  namespace(name: string): KafkajsLogger
  debug(message: string, extra?: Readonly<Record<string, unknown>>): void
  info(message: string, extra?: Readonly<Record<string, unknown>>): void
  warn(message: string, extra?: Readonly<Record<string, unknown>>): void
  error(message: string, extra?: Readonly<Record<string, unknown>>): void
}

export interface KafkajsConnectionOptions {
  readonly host: string
  readonly port: number
  readonly clientId: string
  /** Milliseconds for TCP and TLS. */
  readonly connectionTimeout: number
  /** Milliseconds for each answer. */
  readonly requestTimeout: number
  readonly sasl: { mechanism: string; username: string; password: string } | null
  readonly logger: KafkajsLogger
  readonly socketFactory: (target: { readonly onConnect: () => void }) => Socket
}

/** kafkajs looks ten times a second whether an answer is late, as long as a connection is open. */
export interface LateAnswerCheck {
  start(): void
  stop(): void
}

type Method = (this: object, ...args: readonly unknown[]) => unknown
interface Class {
  new (options: object): object
  readonly prototype: Readonly<Record<string, unknown>>
}

const usedOfQueue = ['scheduleCheckPendingRequests', 'scheduleRequestTimeoutCheck', 'destroy']
const usedOfConnection = ['connect', 'authenticate', 'send', 'setVersions', 'setSupportAuthenticationProtocol']

/** @throws KAFKAJS_SHAPE_CHANGED where the installed kafkajs is not the one this module was written against. */
export function createKafkajsConnection(options: KafkajsConnectionOptions): KafkajsConnection {
  const ConnectionClass = classWith(Connection, 'network/connection', usedOfConnection)
  quietIdleTimer(classWith(RequestQueue, 'network/requestQueue', usedOfQueue))
  const connection: object = new ConnectionClass({ ...options, enforceRequestTimeout: true })
  const queue = queueOf(connection)
  if (typeof queue !== 'object' || queue === null || !Array.isArray(Reflect.get(queue, 'pending')))
    throw new SluiceError('KAFKAJS_SHAPE_CHANGED', { what: 'network/connection: requestQueue.pending' })
  if (!Array.isArray(Reflect.get(connection, 'chunks')) || Reflect.get(connection, 'bytesBuffered') !== 0)
    throw new SluiceError('KAFKAJS_SHAPE_CHANGED', { what: 'network/connection: chunks, bytesBuffered' })
  return connection as KafkajsConnection // the methods were looked up one by one above
}

const queueOf = (connection: object): unknown => Reflect.get(connection, 'requestQueue')

/** Of an open connection; stopped while nothing is asked. What it stops with it, the wait for a throttle to end, has nothing to send then. */
export function lateAnswerCheck(connection: KafkajsConnection): LateAnswerCheck {
  // Looked at when the connection was made.
  const queue = queueOf(connection) as { scheduleRequestTimeoutCheck(): void; destroy(): void }
  return { start: () => queue.scheduleRequestTimeoutCheck(), stop: () => queue.destroy() }
}

function classWith(found: unknown, module: string, methods: readonly string[]): Class {
  if (typeof found !== 'function') throw new SluiceError('KAFKAJS_SHAPE_CHANGED', { what: module })
  const prototype: unknown = Reflect.get(found, 'prototype')
  for (const name of methods)
    if (typeof prototype !== 'object' || prototype === null || typeof Reflect.get(prototype, name) !== 'function')
      throw new SluiceError('KAFKAJS_SHAPE_CHANGED', { what: `${module}: ${name}` })
  return found as unknown as Class
}

const quieted = new WeakSet<object>()

/**
 * kafkajs re-arms a timer of one millisecond on every connection for ever, which costs 4 % of a core and prints a
 * TimeoutNegativeWarning on Node 24. The timer is only needed while requests wait for a throttle to end.
 */
function quietIdleTimer(queueClass: Class): void {
  const prototype: object = queueClass.prototype
  if (quieted.has(prototype)) return
  quieted.add(prototype)
  const original = Reflect.get(prototype, 'scheduleCheckPendingRequests') as Method // looked up by classWith
  Reflect.set(prototype, 'scheduleCheckPendingRequests', function schedule(this: { readonly pending: unknown[] }) {
    if (this.pending.length > 0) original.call(this)
  })
}
