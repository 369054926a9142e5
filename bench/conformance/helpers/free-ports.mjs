// Prints as many free ports of 127.0.0.1 as asked for, all different, one a line.
import net from 'node:net'

const count = Number(process.argv[2])
const servers = Array.from({ length: count }, () => net.createServer())
await Promise.all(servers.map(server => new Promise(resolve => server.listen(0, '127.0.0.1', resolve))))
for (const server of servers) console.log(server.address().port)
// All were open at once, so none is given twice.
for (const server of servers) server.close()
