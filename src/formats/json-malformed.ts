/** What is wrong with a record. */

/** Spark's suffixes of MALFORMED_RECORD_IN_PARSING. */
export type MalformedClass =
  | 'WITHOUT_SUGGESTION'
  | 'CANNOT_PARSE_JSON_ARRAYS_AS_STRUCTS'
  | 'CANNOT_PARSE_STRING_AS_DATATYPE'

/** A text or a value that cannot be read. The message never holds the value, which may be a secret. */
export class Malformed extends Error {
  readonly subclass: MalformedClass

  constructor(message: string, subclass: MalformedClass = 'WITHOUT_SUGGESTION') {
    super(message)
    this.subclass = subclass
  }
}
