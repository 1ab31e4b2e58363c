package observe

// CachePut says how one put of a response ended at one node.
type CachePut struct {
	Key  Ref
	Node string
	// Result is stored, superseded (the node holds a larger fence), full
	// (the memory bound is reached, nothing was sent), dropped (too many wait
	// for the node) or failed.
	Result string
	Err    error
}

// Name implements Event.
func (CachePut) Name() string { return "cache_put" }

// CacheUnverified says that a node held a record that was not made by this
// deployment, or not for this key: forged, broken, or made under a secret that
// is not at hand. It counts as a miss.
type CacheUnverified struct {
	Key  Ref
	Node string
}

// Name implements Event.
func (CacheUnverified) Name() string { return "cache_unverified" }
