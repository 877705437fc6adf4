/** node read.ts BOOTSTRAP TOPIC: reads the topic from its beginning to its end of now, one partition after the other. */
import { parseOptions } from '../../../src/options.ts'
import { offsetAt } from '../../../src/offsets.ts'
import { createOffsetReader } from '../../../src/kafka/offset-reader.ts'
import { createRangeReader } from '../../../src/kafka/range-reader.ts'

const [bootstrap = '', topic = ''] = process.argv.slice(2)
const options = parseOptions({ 'kafka.bootstrap.servers': bootstrap, subscribe: topic }, () => undefined)
const { signal } = new AbortController()
const offsets = createOffsetReader(options)
const ranges = createRangeReader({ ...options, reusesBuffers: true })
const { partitions } = await offsets.assigned(signal)
const [earliest, latest] = [await offsets.earliest(partitions, signal), await offsets.latest(partitions, signal)]
let records = 0
for (const one of partitions) {
  const range = { ...one, from: offsetAt(earliest, one) ?? 0n, until: offsetAt(latest, one) ?? 0n }
  for await (const batch of ranges.read(range, 'read_uncommitted', signal)) records += batch.length
}
await Promise.all([offsets.close(), ranges.close()])
process.stdout.write(`${records}\n`)
