/** Tables of README files that are made from code. `npm run spec-table` writes them, tests hold them against the code. */
import { kafkaOptionRows } from '../../src/kafka/kafka-options.ts'

/** The client settings, `kafka.*`. */
export const kafkaOptionsTable = (): string =>
  [
    '| `kafka.` | state | |',
    '|---|---|---|',
    ...kafkaOptionRows.map(({ names, verdict, note }) => {
      const shown = names.map((name) => `\`${name}\``).join(', ')
      return `| ${shown} | ${verdict} | ${note.replaceAll('|', '\\|')} |`
    }),
  ].join('\n')
