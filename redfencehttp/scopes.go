package redfencehttp

import "sync"

// scopes counts the requests in progress per scope.
type scopes struct {
	mu   sync.Mutex
	busy map[string]int
}

// enter counts one more request of a scope, unless it has limit of them.
func (s *scopes) enter(scope string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[scope] >= limit {
		return false
	}
	if s.busy == nil {
		s.busy = map[string]int{}
	}
	s.busy[scope]++
	return true
}

func (s *scopes) leave(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[scope]--; s.busy[scope] == 0 {
		delete(s.busy, scope)
	}
}
