// Scores a result of the cache-tests suite: cache-tests-score.mjs CHECKOUT RESULT REQUIRED OPTIMAL
//
// Judges with the suite's own determineTestResult, so that a failed set-up, a failed dependency and
// a retried request count as they do on its site. Ends with status 1 when fewer required or optimal
// tests pass than asked for.
import fs from 'node:fs'
import path from 'node:path'
import process from 'node:process'
import { pathToFileURL } from 'node:url'

const [checkout, resultFile, required, optimal] = process.argv.slice(2)
const load = file => import(pathToFileURL(path.join(checkout, file)))
const { default: suites } = await load('tests/index.mjs')
const { determineTestResult, resultTypes } = await load('test-engine/lib/results.mjs')
const results = JSON.parse(fs.readFileSync(resultFile, 'utf8'))

const outcomes = new Map([
  [resultTypes.pass, 'pass'],
  [resultTypes.yes, 'pass'],
  [resultTypes.fail, 'fail'],
  [resultTypes.optional_fail, 'fail'],
  [resultTypes.no, 'fail'],
  [resultTypes.setup_fail, 'set-up'],
  [resultTypes.dependency_fail, 'dependency'],
  [resultTypes.retry, 'retry'],
  [resultTypes.harness_fail, 'harness']
])

const kinds = ['required', 'optimal', 'check']
const nothing = () => Object.fromEntries(kinds.map(kind => [kind, { pass: 0, fail: 0, other: 0 }]))
const total = nothing()
const groups = []
const missed = []

for (const suite of suites) {
  const group = nothing()
  for (const test of suite.tests) {
    const judged = determineTestResult(suites, test.id, results)
    if (judged === resultTypes.untested) continue // for browsers only
    const outcome = outcomes.get(judged)
    const column = outcome === 'pass' || outcome === 'fail' ? outcome : 'other'
    const kind = test.kind ?? 'required'
    for (const counted of [group, total]) counted[kind][column] += 1
    if (column !== 'pass' && kind !== 'check') {
      const why = Array.isArray(results[test.id]) ? results[test.id][1] : ''
      missed.push({ kind, id: test.id, outcome, why })
    }
  }
  groups.push([suite.id, group])
}

const show = ({ pass, fail, other }) =>
  pass + fail + other === 0 ? '' : `${pass} / ${fail} / ${other}`
const row = (name, counts) =>
  console.log(name.padEnd(20) + kinds.map(kind => show(counts[kind]).padEnd(16)).join('').trimEnd())

console.log('pass / fail / other '.padEnd(20) + kinds.map(kind => kind.padEnd(16)).join('').trimEnd())
for (const [id, counts] of groups) row(id, counts)
row('total', total)

if (missed.length > 0) {
  console.log('\nnot passed:')
  for (const { kind, id, outcome, why } of missed) {
    console.log(`  ${kind.padEnd(9)} ${id}: ${outcome}${why ? `, ${String(why).split('\n')[0]}` : ''}`)
  }
}

const isEnough = total.required.pass >= required && total.optimal.pass >= optimal
const score = `required ${total.required.pass} (target ${required}), optimal ${total.optimal.pass} (target ${optimal})`
console.log(`\n${isEnough ? 'reached' : 'BELOW TARGET'}: ${score}`)
process.exit(isEnough ? 0 : 1)
