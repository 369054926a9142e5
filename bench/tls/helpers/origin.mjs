// The origin behind the TLS checks: origin.mjs PORT
//
// /body/N is N bytes that follow a rule, /upload says how many bytes came and whether they follow
// it, and / is a page that does both in a browser and says so.
import http from 'node:http'

const port = Number(process.argv[2])
const rule = index => (index * 31 + (index >> 8)) & 0xff
const kept = new Map()

function body (size) {
  if (!kept.has(size)) kept.set(size, Uint8Array.from({ length: size }, (_, index) => rule(index)))
  return kept.get(size)
}

const page = `<!doctype html><title>waiting</title><body>waiting</body><script>
const rule = ${rule}
const bytes = async path => new Uint8Array(await (await fetch(path)).arrayBuffer())
const follows = array => array.every((byte, index) => byte === rule(index))
async function all () {
  const large = await bytes('/body/5000000')
  if (large.length !== 5000000 || !follows(large)) throw new Error('download of ' + large.length)
  const small = await Promise.all([...Array(40).keys()].map(index => bytes('/body/' + (index + 1000))))
  if (!small.every(follows)) throw new Error('small downloads')
  const answer = await fetch('/upload', { method: 'POST', body: large.subarray(0, 3000000) })
  if (await answer.text() !== '3000000 good') throw new Error('upload')
  return 'all good'
}
const say = text => { document.body.textContent = text }
all().then(say, error => say('failed: ' + error))
</script>`

const server = http.createServer((request, response) => {
  const size = /^\/body\/(\d+)/.exec(request.url)?.[1]
  if (size !== undefined) {
    response.setHeader('Cache-Control', 'max-age=60')
    response.end(body(Number(size)))
  } else if (request.url === '/upload') {
    let count = 0
    let good = true
    request.on('data', part => {
      for (const byte of part) good &&= byte === rule(count++)
    })
    request.on('end', () => response.end(`${count} ${good ? 'good' : 'bad'}`))
  } else {
    response.setHeader('Content-Type', 'text/html')
    response.end(page)
  }
})
server.listen(port, '127.0.0.1')
