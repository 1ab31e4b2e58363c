// Package servers starts real redis-server, postgres and pgbouncer processes in
// temporary folders, on free loopback ports, and sees to it that they end.
//
// # Guarantees
//
//   - A server ends with Close, with [CloseAll], and at the latest with the
//     process that started it, also when that one is killed with SIGKILL.
//   - Only processes that this package started are ever signalled.
//   - A folder that a killed process left behind is removed by the next one
//     that starts a server.
//
// # Caveats
//
// Linux only: it relies on the parent-death signal and on /proc.
package servers
