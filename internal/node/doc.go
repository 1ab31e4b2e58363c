// Package node is one Redis node as the rooms lock and cache use it.
//
// The commands of all callers of a process share one pipeline per node, one in
// flight at a time, on a connection of the node's own: a command costs neither
// a goroutine nor a connection, and commands reach the server in the order in
// which they were handed over. A node that hangs holds up nobody: what is in
// flight has a deadline that does not depend on any caller, what waits behind
// it is bounded, and after two failures in a row a breaker refuses at once
// until a probe has succeeded.
//
// Every command may reach the server twice (it is sent again when the
// connection breaks under it), so it has to be idempotent.
package node
