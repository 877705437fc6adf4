/** Which Delta tables this sink may append to. Every refusal names what stands in the way. */
import { SluiceError, reasonOf } from '../../errors.ts'
import { isObject } from '../../offsets.ts'
import type { Schema } from '../../schema.ts'
import type { Protocol } from './actions.ts'
import { schemaDifferences } from './schema.ts'
import type { TableState } from './log.ts'

/**
 * Table features that ask nothing of a writer which only appends files, as long as the table does not use them; where it
 * does, its properties or columns say so and `usedFeature` finds it.
 */
const harmlessFeatures = new Set([
  'appendOnly',
  'invariants',
  'checkConstraints',
  'generatedColumns',
  'changeDataFeed',
  'timestampNtz',
  'vacuumProtocolCheck',
])
/** Writer versions up to this one imply harmless features only; 7 lists its features, 5 and 6 imply column mapping. */
const newestPlainWriter = 4

/** @throws UNSUPPORTED_DELTA_TABLE, TABLE_SCHEMA_MISMATCH */
export function verifyTable(root: string, table: TableState, schema: Schema): void {
  const obstacle =
    protocolObstacle(table.protocol) ?? propertyObstacle(table.metaData.configuration) ?? layoutObstacle(table)
  if (obstacle !== null) throw new SluiceError('UNSUPPORTED_DELTA_TABLE', { table: root, reason: obstacle })
  let differences: string[]
  try {
    differences = schemaDifferences(schema, table.metaData.schemaString)
  } catch (e) {
    throw new SluiceError('DELTA_LOG_CORRUPT', { table: root, version: table.version, reason: reasonOf(e) }, e)
  }
  if (differences.length > 0)
    throw new SluiceError('TABLE_SCHEMA_MISMATCH', { table: root, differences: differences.join('; ') })
}

function protocolObstacle(protocol: Protocol): string | null {
  const { minReaderVersion, minWriterVersion } = protocol
  const features = [...(protocol.readerFeatures ?? []), ...(protocol.writerFeatures ?? [])]
  const unknown = features.filter((feature) => !harmlessFeatures.has(feature))
  if (unknown.length > 0) return `it uses the table feature ${[...new Set(unknown)].join(', ')}`
  const readable = minReaderVersion === 1 || (minReaderVersion === 3 && protocol.readerFeatures !== undefined)
  const writable =
    minWriterVersion <= newestPlainWriter || (minWriterVersion === 7 && protocol.writerFeatures !== undefined)
  if (readable && writable) return null
  return `its protocol is reader version ${minReaderVersion}, writer version ${minWriterVersion}`
}

function propertyObstacle(properties: Readonly<Record<string, string | null>>): string | null {
  // Transactions older than it are dropped: the record of this query could be forgotten and a batch appended twice.
  const retention = 'delta.setTransactionRetentionDuration'
  if (properties[retention] !== undefined)
    return `its property ${retention} lets the record of committed batches expire; unset it`
  const constraint = Object.keys(properties).find((name) => name.startsWith('delta.constraints.'))
  if (constraint !== undefined) return `its property ${constraint} is a constraint, which this sink does not check`
  const mapping = properties['delta.columnMapping.mode'] ?? 'none'
  return mapping === 'none' ? null : `its property delta.columnMapping.mode is ${mapping}`
}

function layoutObstacle({ metaData }: TableState): string | null {
  if (metaData.format.provider !== 'parquet') return `its files are of format ${metaData.format.provider}`
  if (metaData.partitionColumns.length > 0)
    return `it is partitioned by ${metaData.partitionColumns.join(', ')}, and this sink writes without partitions`
  return usedFeature(metaData.schemaString)
}

/** Rules that a column carries in its metadata: generation expressions, invariants, identities, lengths of text. */
function usedFeature(schemaString: string): string | null {
  let found: string | null = null
  JSON.parse(schemaString, (_key, value: unknown) => {
    if (!isObject(value) || !isObject(value['metadata'])) return value
    const rule = Object.keys(value['metadata']).find((key) => /^delta\.|^__CHAR_VARCHAR|^CURRENT_DEFAULT$/.test(key))
    if (rule !== undefined) found = `its column '${String(value['name'])}' has the rule ${rule}`
    return value
  })
  return found
}
