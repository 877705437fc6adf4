import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { JaasSyntaxError, parseJaas } from '../../src/kafka/jaas.ts'

const plain = 'org.apache.kafka.common.security.plain.PlainLoginModule'
const passwordOf = (text: string): string | undefined => parseJaas(text).options.get('password')

describe('a login configuration', () => {
  test.each([
    ['double quotes', `${plain} required username="alice" password="se cret";`, 'se cret'],
    ['single quotes', `${plain} required username='alice' password='se cret';`, 'se cret'],
    ['bare', `${plain} required username=alice password=secret;`, 'secret'],
    ['without a final semicolon', `${plain} required username="alice" password="secret"`, 'secret'],
    ['over several lines', `\n ${plain}\n  required\n username = "alice"\n password = "secret" ;\n`, 'secret'],
    ['an odd password in double quotes', String.raw`${plain} required password="p@ss'w0rd\";x";`, `p@ss'w0rd";x`],
    ['an odd password in single quotes', String.raw`${plain} required password='p@ss\'w0rd";x';`, `p@ss'w0rd";x`],
    ['an odd password bare', `${plain} required password=p@ss'w0rd";x;`, `p@ss'w0rd";x`],
    ['an odd password bare and first', `${plain} required password=p@ss'w0rd";x username=alice;`, `p@ss'w0rd";x`],
    ['an empty password', `${plain} required password="";`, ''],
    ['escapes', String.raw`${plain} required password="a\\b\tc";`, 'a\\b\tc'],
    ['an equals sign', `${plain} required password="a=b";`, 'a=b'],
  ])('%s', (_name, text, password) => {
    expect(passwordOf(text)).toBe(password)
  })

  test('names its module without the package, shaded or not', () => {
    for (const prefix of ['', 'kafkashaded.'])
      expect(parseJaas(`${prefix}${plain} Required;`)).toEqual({ loginModule: 'PlainLoginModule', options: new Map() })
  })

  test('keeps every password that is quoted by the rules', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.constantFrom('"', "'"), (password, quote) => {
        const quoted = quote + password.replaceAll('\\', '\\\\').replaceAll(quote, `\\${quote}`) + quote
        expect(passwordOf(`${plain} required username=a password=${quoted};`)).toBe(password)
      })
    )
  })

  test.each([
    ['', 'login module'],
    ['PlainLoginModule', 'login module'],
    ['PlainLoginModule needed username="hidden";', "not 'required'"],
    ['PlainLoginModule required "hidden";', 'name=value'],
    ['PlainLoginModule required password="hidden;', "'password' is never closed"],
    ['PlainLoginModule required password=;', "'password' has no value"],
    ['PlainLoginModule required; username="hidden"', 'name=value'],
  ])('%j is refused without its text, B58', (text, reason) => {
    expect(() => parseJaas(text)).toThrow(JaasSyntaxError)
    expect(() => parseJaas(text)).toThrow(reason)
    expect(() => parseJaas(text)).toThrow(expect.not.objectContaining({ message: expect.stringContaining('hidden') }))
  })
})
