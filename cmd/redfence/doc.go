// Command redfence puts Redfence in front of services in any language, and
// looks after a deployment: the schema, the Redis nodes, keys whose outcome is
// unknown.
//
//	redfence serve --demo                      # try it: starts its own servers
//	redfence serve --upstream http://app:9000 --unscoped \
//	  --redis r1:6379,r2:6379,r3:6379 \
//	  --database postgres://db/app             # in front of a service
//	redfence migrate                           # create or upgrade the ledger
//	redfence doctor                            # is the deployment as it should be?
//	redfence status                            # nodes, ledger, route
//	redfence keys list --state unknown         # keys that wait for a decision
//	redfence keys show order-1                 # one key's row
//	redfence resolve order-1 --release --why … # decide an unknown outcome
//
// Flags have environment twins, REDFENCE_ and the flag's name; those that name a
// key, or say what is done to it and why, have none. REDIS_URL (a list,
// separated by commas) and DATABASE_URL are understood as well, but not by
// serve --demo, which uses only stores that its flags name.
//
// Exit codes: 0 all is well; 1 it did not work; 2 the command line or the
// configuration is wrong.
package main
