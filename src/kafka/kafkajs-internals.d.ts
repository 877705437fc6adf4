// kafkajs publishes no types for its own modules. They are unknown here: kafkajs-shape.ts narrows them by looking.
declare module 'kafkajs/src/network/connection.js' {
  const connection: unknown
  export default connection
}
declare module 'kafkajs/src/network/requestQueue/index.js' {
  const requestQueue: unknown
  export default requestQueue
}
