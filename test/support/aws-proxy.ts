/** Between functions and an emulated account: sees every request to tables and buckets, and can hold one back. */
import { createServer, request as send } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { once } from 'node:events'
import { freePort } from './ports.ts'

export interface AwsRequest {
  /** Tells callers apart: each function has its own. */
  readonly accessKey: string
  /** `dynamodb:PutItem`, `s3:PutObject`; other services as `other`. */
  readonly action: string
  /** The partition key of an item, or the key of an object behind its bucket. */
  readonly key: string
}

/** A request that has not reached the account yet. */
export interface Held {
  readonly request: AwsRequest
  release(): void
  /** It never arrives, and is not answered. */
  drop(): void
}

export interface AwsProxy {
  readonly endpoint: string
  /** All that came, in order. */
  readonly requests: readonly AwsRequest[]
  /** Where requests go; before it is set none is answered. */
  forwardTo(endpoint: string): void
  /** Holds back the next request that matches; settles once it is here. */
  hold(matches: (request: AwsRequest) => boolean): Promise<Held>
  /** Lets through what is held, and holds nothing any more. */
  releaseAll(): void
  close(): Promise<void>
}

interface Trap {
  readonly matches: (request: AwsRequest) => boolean
  readonly caught: (held: Held) => void
}

export async function startAwsProxy(): Promise<AwsProxy> {
  const port = await freePort()
  const requests: AwsRequest[] = []
  const traps: Trap[] = []
  const held = new Set<() => void>()
  let target: URL | undefined
  const server = createServer((incoming, answer) => {
    void bodyOf(incoming).then((body) => {
      const request = describe(incoming, body)
      requests.push(request)
      const release = () => {
        if (held.delete(release)) forward(target, incoming, body, answer)
      }
      const drop = () => {
        if (held.delete(release)) answer.destroy()
      }
      held.add(release)
      const at = traps.findIndex(({ matches }) => matches(request))
      const [trap] = at === -1 ? [] : traps.splice(at, 1)
      if (trap === undefined) release()
      else trap.caught({ request, release, drop })
    })
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    endpoint: `http://127.0.0.1:${port}`,
    requests,
    forwardTo(endpoint) {
      target = new URL(endpoint)
    },
    hold: (matches) => new Promise((caught) => traps.push({ matches, caught })),
    releaseAll() {
      traps.length = 0
      for (const release of held) release()
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function bodyOf(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** As it came, the host included, which the signature covers; to the account it looks like a request by HTTPS. */
function forward(target: URL | undefined, incoming: IncomingMessage, body: Buffer, answer: ServerResponse): void {
  if (target === undefined) return void answer.writeHead(503).end()
  const { method, url: path } = incoming
  const headers = { ...incoming.headers, 'x-forwarded-proto': 'https' }
  const { hostname: host, port } = target
  const outgoing = send({ host, port, method, path, headers, setHost: false }, (response) => {
    answer.writeHead(response.statusCode ?? 502, response.headers)
    response.pipe(answer)
  })
  outgoing.on('error', () => answer.destroy())
  outgoing.end(body)
}

function describe({ method = '', url = '', headers }: IncomingMessage, body: Buffer): AwsRequest {
  const accessKey = /Credential=([^/]+)/.exec(headers.authorization ?? '')?.[1] ?? ''
  const call = /^DynamoDB_\w+\.(\w+)$/.exec(String(headers['x-amz-target'] ?? ''))?.[1]
  if (call !== undefined)
    return { accessKey, action: `dynamodb:${call}`, key: partitionKeyOf(JSON.parse(body.toString())) }
  if (!/\/s3\/aws4_request/.test(headers.authorization ?? '')) return { accessKey, action: 'other', key: url }
  const { pathname, searchParams } = new URL(url, 'http://bucket')
  const [, , ...key] = decodeURIComponent(pathname).split('/')
  return { accessKey, action: `s3:${objectAction(method, key.join('/') !== '', searchParams)}`, key: key.join('/') }
}

/** The permission that a request needs, by the names of IAM. */
function objectAction(method: string, isObject: boolean, query: URLSearchParams): string {
  if (!isObject) return query.has('uploads') ? 'ListBucketMultipartUploads' : 'ListBucket'
  if (method === 'DELETE') return query.has('uploadId') ? 'AbortMultipartUpload' : 'DeleteObject'
  return method === 'GET' || method === 'HEAD' ? 'GetObject' : 'PutObject'
}

interface TableCall {
  readonly Key?: { readonly pk?: { readonly S?: string } }
  readonly Item?: { readonly pk?: { readonly S?: string } }
  readonly ExpressionAttributeValues?: { readonly ':pk'?: { readonly S?: string } }
}

const partitionKeyOf = ({ Key, Item, ExpressionAttributeValues }: TableCall): string =>
  (Key?.pk ?? Item?.pk ?? ExpressionAttributeValues?.[':pk'])?.S ?? ''
