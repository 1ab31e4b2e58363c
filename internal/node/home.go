package node

// Home is the place, among n nodes, of the one where what belongs to a key
// begins. Every process has to find the same. It is FNV-1a, in place: hash/fnv
// would cost two allocations for each command.
func Home(key string, n int) int {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * prime
	}
	return int(h % uint32(n))
}
