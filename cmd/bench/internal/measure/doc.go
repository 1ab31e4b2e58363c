// Package measure drives an operation with many callers and says how fast it
// was: closed loop or at a fixed rate, latencies in HDR histograms, processor
// time of this process and of the Redis servers.
package measure
