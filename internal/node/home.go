package node

import "hash/crc32"

// Home is the place, among n nodes, of the one where what belongs to a key
// begins. Every process has to find the same.
func Home(key string, n int) int { return int(crc32.ChecksumIEEE([]byte(key)) % uint32(n)) }
