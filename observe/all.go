package observe

// All returns one event of every type, with no field set, in no order that
// means anything. An observer that has to know every type, such as a collector
// of metrics, checks itself against it.
func All() []Event {
	return []Event{
		EngineStarted{}, NodeSetDiffers{}, DoFinished{}, ClaimGranted{}, ClaimEnded{}, ClaimLost{},
		CacheRead{}, FallbackRecovered{}, NotDurable{}, OutcomeUnknown{},
		HandedOver{}, LateCompletion{}, RecoveryAsked{},
		RouteChanged{}, BreakerChanged{}, CanaryProbed{},
		CachePut{}, CacheUnverified{},
		NodeDown{}, NodeUp{}, NodeRejoined{}, NodeWarning{},
		LockAcquired{}, LockRefused{}, LockReleased{}, LockLost{}, LockBroken{},
		LedgerAdopted{}, LedgerSwept{}, LedgerSplit{},
		EventsDropped{},
	}
}
