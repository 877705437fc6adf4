/** README's table of client settings, from the one that decides. */
import { kafkaOptionRows } from '../../src/kafka/kafka-options.ts'

export const kafkaOptionsTable = (): string =>
  [
    '| `kafka.` | state | |',
    '|---|---|---|',
    ...kafkaOptionRows.map(({ names, verdict, note }) => {
      const shown = names.map((name) => `\`${name}\``).join(', ')
      return `| ${shown} | ${verdict} | ${note.replaceAll('|', '\\|')} |`
    }),
  ].join('\n')
