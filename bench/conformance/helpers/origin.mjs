// An origin for suites that bring none: origin.mjs PORT BYTES
//
// A request with a body gets that body back, whatever the method; one without gets BYTES bytes of
// text (none for 0). Nothing may be stored, so that every request of a suite reaches it.
import http from 'node:http'

const [port, bytes] = process.argv.slice(2).map(Number)
const page = Buffer.alloc(bytes, 'Freshet conformance page.\n')

const server = http.createServer((request, response) => {
  const pieces = []
  request.on('data', piece => pieces.push(piece))
  request.on('end', () => {
    const body = pieces.length > 0 ? Buffer.concat(pieces) : page
    response.writeHead(200, {
      'Content-Type': 'text/plain',
      'Content-Length': body.length,
      'Cache-Control': 'no-store'
    })
    response.end(body)
  })
  request.on('error', () => response.destroy())
})
server.listen(port, '127.0.0.1')
