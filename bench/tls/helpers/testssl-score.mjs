// Counts the findings of testssl.sh by severity and lists those above the limit:
// testssl-score.mjs FINDINGS SEVERITY
import { readFileSync } from 'node:fs'

const [file, limit] = process.argv.slice(2)
const severities = ['OK', 'INFO', 'LOW', 'MEDIUM', 'HIGH', 'CRITICAL']
// About the certificate made for one run, its chain and its name.
const aboutCertificate = /^(cert|DNS_CAArecord|OCSP|intermediate)/
const findings = JSON.parse(readFileSync(file, 'utf8'))
  .filter(finding => severities.includes(finding.severity) && !aboutCertificate.test(finding.id))
if (!severities.includes(limit) || findings.length < 20) {
  console.error(`not a result of testssl.sh, or no severity: ${findings.length} findings, ${limit}`)
  process.exit(2)
}
for (const severity of severities) {
  const count = findings.filter(finding => finding.severity === severity).length
  if (count > 0) console.log(`${severity.padEnd(9)} ${count}`)
}
const bad = findings.filter(finding => severities.indexOf(finding.severity) > severities.indexOf(limit))
for (const finding of bad) console.log(`${finding.severity} ${finding.id}: ${finding.finding}`)
process.exit(bad.length > 0 ? 1 : 0)
