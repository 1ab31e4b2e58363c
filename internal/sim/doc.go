// Package sim holds tests of whole engines on simulated stores, in virtual
// time: several engines share one ledger and a few Redis nodes, clients send
// duplicates, and a seed says what every statement and every packet meets (an
// error before or after it took effect, silence, delay, an old answer), which
// stores are out, and which engines stand still or die. Engines, client library
// and everything between them are the real ones.
package sim
