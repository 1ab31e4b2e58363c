package redfence

import (
	"context"
	"encoding/json"
	"errors"
)

// Do is Engine.Do for a handler that returns a value: the value is stored as
// JSON, and a duplicate gets it decoded. What T's JSON leaves out, a duplicate
// does not see; the call that ran the handler gets the handler's own value.
// The errors are those of Engine.Do, and ErrNotReplayable when the stored JSON
// does not fit T. A value that has no JSON makes the outcome unknown: the effect
// has happened.
func Do[T any](ctx context.Context, e *Engine, req Request, fn func(context.Context, *Execution) (T, error)) (T, error) {
	var own T
	if fn == nil {
		return own, describe(&Error{Kind: ErrInvalid, Err: errors.New("the handler is nil")}, "do", req.Key(), "")
	}
	res, err := e.Do(ctx, req, func(ctx context.Context, ex *Execution) (Response, error) {
		v, err := fn(ctx, ex)
		if err != nil {
			return Response{}, err
		}
		own = v
		body, err := json.Marshal(v)
		return Response{Body: body}, err
	})
	if err != nil || res.Outcome == Executed || res.Outcome == Unrecorded {
		return own, err
	}
	var stored T
	if err := json.Unmarshal(res.Response.Body, &stored); err != nil {
		return stored, describe(&Error{Kind: ErrNotReplayable, Err: err}, "do", req.Key(), res.Route)
	}
	return stored, nil
}
