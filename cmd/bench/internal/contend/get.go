package contend

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// PlainGet answers duplicates by one GET per call. It protects nothing: it is
// what a replay is compared with.
var PlainGet = DoContender{
	Name:    "plain-get",
	Options: "one node, go-redis GET per call, go-redis defaults; a miss runs the work and SETs",
	Open: func(_ context.Context, s Servers) (Doer, error) {
		return &plainGet{dial(s.Redis[:1], nil)}, nil
	},
}

type plainGet struct{ clients []*redis.Client }

func (d *plainGet) Do(ctx context.Context, id string, work Work) ([]byte, bool, error) {
	response, err := d.clients[0].Get(ctx, "plain:"+id).Bytes()
	if err == nil {
		return response, true, nil
	}
	if !errors.Is(err, redis.Nil) {
		return nil, false, err
	}
	if response, err = work(); err != nil {
		return nil, false, err
	}
	return response, false, d.clients[0].Set(ctx, "plain:"+id, response, time.Hour).Err()
}

func (d *plainGet) Close() error { return closeAll(d.clients) }
