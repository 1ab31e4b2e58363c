package check

// A Kind is one thing that a run is judged by.
type Kind struct {
	Name  string
	Class Class
	// Says what holds when nothing is reported.
	Says string
}

// Kinds returns all of them, in the order of a report.
func Kinds() []Kind {
	return []Kind{
		{"double start", Safety, "a handler starts once per key; under Retry again only after a lapse"},
		{"fence order", Safety, "each later claim, and each later holder of a lock, has a larger fence"},
		{"answers differ", Safety, "all durable answers of a key are the same"},
		{"answers have no order", Safety, "one order of requests and effects explains every answer of a key"},
		{"answer without effect", Safety, "every answer comes from an effect that was recorded"},
		{"refused after an answer", Safety, "no key with a durable answer is called in progress or gone"},
		{"answer lost", Safety, "what was acknowledged is answered again in the end"},
		{"not in the ledger", Safety, "every acknowledged key is completed in the ledger"},
		{"effect not once", Safety, "the deduplicating sink and DoTx apply one effect per key"},
		{"effects out of order", Safety, "the fenced sink takes effects in the order of their fences"},
		{"stale effect answered", Safety, "the answer is that of the newest effect"},
		{"sum wrong", Safety, "transfers neither make nor lose money"},
		{"balance wrong", Safety, "every account holds what its transfers make"},
		{"lock held twice", Safety, "no two hold a plain lock at once"},
		{"update lost", Safety, "no write under a plain lock is lost"},

		{"never answered", Liveness, "every key is answered in the end"},
		{"answer not available", Liveness, "every answer can be had in the end"},
		{"unsettled key", Liveness, "every key is settled, or a fault explains why nobody knows"},
		{"not back", Liveness, "every instance serves by the primary route again"},
		{"outage not served", Liveness, "fresh keys are served while no Redis node is up"},
		{"outage without replays", Liveness, "finished keys are replayed while no Redis node is up"},
		{"lock left", Liveness, "no lock outlives its holder for ever"},
		{"fail-over too slow", Liveness, "fresh keys are served within a second of the last kill (preset cycles)"},
		{"fail-back too slow", Liveness, "the primary route is back within 3 s of the quorum (preset cycles)"},
		{"recovery missing", Liveness, "every instance comes back before the next fault (preset cycles)"},
		{"not available", Liveness, "99.9 % of fresh keys are served after the first second (preset cycles)"},

		{"fault not proven", Invalid, "every fault was seen to have happened"},
		{"fault never hit", Invalid, "every kind of fault met something"},
		{"no faults", Invalid, "something was broken"},
		{"no outage of all nodes", Invalid, "all nodes were down at once, where the preset says so"},
		{"outage without fresh keys", Invalid, "fresh keys were sent in every outage"},
		{"outage without retries", Invalid, "finished keys were asked for in every outage"},
		{"key not asked again", Invalid, "every acknowledged key was asked for in the end"},
		{"load too low", Invalid, "there was load before, during and after the faults"},
		{"checker timed out", Invalid, "every search came to a verdict"},
		{"nothing measured", Invalid, "there was something to measure (preset cycles)"},
	}
}
