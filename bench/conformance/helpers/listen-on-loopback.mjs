// Preloaded (node --import) into servers that listen on all interfaces without being asked: a
// `listen` with a port and no host listens on 127.0.0.1.
import net from 'node:net'

const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (port, ...rest) {
  if (typeof port === 'number' || /^\d+$/.test(port)) {
    if (typeof rest[0] !== 'string') rest.unshift('127.0.0.1')
    return listen.call(this, Number(port), ...rest)
  }
  return listen.call(this, port, ...rest)
}
